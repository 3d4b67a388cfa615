//! How agents and tests tell each other things: named pipes, which wait by themselves.

use std::path::PathBuf;
use std::process::Command;

use crate::bed::Bed;

/// A pipe in a project's directory.
pub(crate) struct Pipe(PathBuf);

impl Pipe {
    pub(crate) fn new(bed: &Bed, name: &str) -> Self {
        let path = bed.project().join(name);
        let made = Command::new("mkfifo").arg(&path).status().expect("there is `mkfifo` (coreutils)");
        assert!(made.success());
        Self(path)
    }

    /// Waits until somebody has written into it and closed it.
    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(&self.0).expect("it is a pipe of text")
    }

    /// The numbers of the processes that were written into it.
    pub(crate) fn read_pids(&self) -> Vec<u32> {
        self.read().split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
    }

    /// Waits until somebody reads it, and lets them go on.
    pub(crate) fn release(&self) {
        std::fs::write(&self.0, "go\n").expect("it is a pipe");
    }
}

/// Whether a process runs: one that has ended and was not asked for its status does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    text.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

pub(crate) fn none_alive(pids: &[u32]) -> bool {
    !pids.iter().any(|pid| is_alive(*pid))
}
