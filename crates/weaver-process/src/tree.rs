//! Finding all processes of a command, also those that left its process group or were orphaned.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The environment variable that marks a command's processes: children inherit it, also when they leave the
/// group, the session and their parent. Only a process that also clears its environment is not found.
pub(crate) const MARK_VARIABLE: &str = "WEAVER_PROCESS_MARK";

/// The most generations that are followed.
const ANCESTORS_MAX: usize = 128;

/// The live processes of `leader`, each with a pidfd: the kernel may reuse a process id before a signal is
/// sent.
pub(crate) fn alive(leader: Pid, mark: &str) -> Vec<(Pid, OwnedFd)> {
    all(|pid| belongs(pid, leader, mark))
}

/// The live descendants of a process, without itself.
pub(crate) fn below(ancestor: Pid) -> Vec<(Pid, OwnedFd)> {
    all(|pid| {
        let status = Status::read(pid.as_raw_nonzero().get());
        status
            .is_some_and(|status| !status.is_dead && descends(status.parent, ancestor.as_raw_nonzero().get()))
    })
}

fn all(belongs: impl Fn(Pid) -> bool) -> Vec<(Pid, OwnedFd)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let pids = pids.filter_map(Pid::from_raw);
    pids.filter_map(|pid| {
        if !belongs(pid) {
            return None;
        }
        let handle = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
        // Checked again: the process id may have been reused before the pidfd was opened.
        belongs(pid).then_some((pid, handle))
    })
    .collect()
}

fn belongs(pid: Pid, leader: Pid, mark: &str) -> bool {
    let Some(status) = Status::read(pid.as_raw_nonzero().get()) else { return false };
    if status.is_dead {
        return false;
    }
    status.group == leader.as_raw_nonzero().get()
        || descends(status.parent, leader.as_raw_nonzero().get())
        || has_mark(pid, mark)
}

fn descends(mut parent: i32, leader: i32) -> bool {
    for _ in 0..ANCESTORS_MAX {
        if parent == leader {
            return true;
        }
        match Status::read(parent) {
            Some(status) if parent > 1 => parent = status.parent,
            _ => return false,
        }
    }
    false
}

fn has_mark(pid: Pid, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    let wanted = format!("{MARK_VARIABLE}={mark}");
    environment.is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
}

/// The fields of `/proc/PID/stat`.
struct Status {
    is_dead: bool,
    parent: i32,
    group: i32,
}

impl Status {
    fn read(pid: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// `pid (name) state ppid pgrp …`: the name may contain anything, so the fields are counted from its last
    /// `)`.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        // A process whose first thread has ended while others run looks like a zombie, and is not.
        let has_threads = fields.get(17)?.parse::<u32>().ok()? > 1;
        let is_dead = matches!(*fields.first()?, "Z" | "X" | "x") && !has_threads;
        Some(Self { is_dead, parent: fields.get(1)?.parse().ok()?, group: fields.get(2)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &str, state: &str, threads: u32) -> Status {
        let text = format!("42 ({name}) {state} 7 41 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 99 0");
        Status::parse(&text).unwrap()
    }

    #[test]
    fn a_process_may_have_any_name() {
        let status = status("a) Z 1 (x", "S", 1);
        assert_eq!((status.is_dead, status.parent, status.group), (false, 7, 41));
    }

    #[test]
    fn a_process_is_dead_when_its_last_thread_has_ended() {
        assert!(status("sh", "Z", 1).is_dead);
        assert!(!status("sh", "Z", 2).is_dead);
    }
}
