//! Checks of a store without opening it: it may be in use, or too damaged to open.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{DATA_FILE, Embedded, FORMAT, FORMAT_FILE, LOCK_FILE, is_store};
use crate::finding::Finding;
use crate::output::bytes;

const MIB: u64 = 1024 * 1024;
/// The least free space for a write.
const FREE_MIN: u64 = 16 * MIB;
/// A full file doubles, up to this growth.
const GROWTH_MAX: u64 = 4096 * MIB;
/// Created and removed to test write permission.
const PROBE_FILE: &str = "weaver.probe";

pub(super) fn examine(store: &Embedded) -> Vec<Finding> {
    let directory = match store.directory() {
        Ok(directory) => directory,
        Err(failure) => return vec![Finding::of_failure("store", failure)],
    };
    let mut findings = vec![place(directory)];
    if !directory.exists() {
        return findings;
    }
    findings.push(rights(directory));
    findings.extend(exposure(directory));
    findings.push(lock(directory));
    findings.push(space(directory));
    findings
}

/// Whether there is a store in a supported format.
fn place(directory: &Path) -> Finding {
    let shown = directory.display();
    if !is_store(directory) {
        let next =
            format!("create one with `weaver store init --store {shown}`, or name another with --store");
        return Finding::warn("store", format!("no store in {shown} yet"), next);
    }
    let restore = "restore the latest backup of the directory (docs/operating/embedded.md)";
    let Ok(data) = std::fs::metadata(directory.join(DATA_FILE)) else {
        return Finding::fail("store", format!("{shown}/{DATA_FILE} is missing"), restore);
    };
    let format = match std::fs::read_to_string(directory.join(FORMAT_FILE)) {
        Ok(text) => text,
        Err(error) => return Finding::fail("store", format!("{shown}/{FORMAT_FILE}: {error}"), restore),
    };
    match format.trim_end().rsplit(' ').next().and_then(|number| number.parse::<u32>().ok()) {
        Some(number) if number <= FORMAT => {
            Finding::ok("store", format!("{shown}: format {number}, {}", bytes(data.len())))
        }
        Some(number) => {
            let next = "use the version of Weaver that wrote it, or export with that version and import with this one";
            Finding::fail(
                "store",
                format!("{shown} has format {number}; this version supports up to {FORMAT}"),
                next,
            )
        }
        None => Finding::fail("store", format!("{shown}/{FORMAT_FILE} does not name a format"), restore),
    }
}

fn rights(directory: &Path) -> Finding {
    let shown = directory.display();
    let probe = directory.join(PROBE_FILE);
    match File::create(&probe).and_then(|_| std::fs::remove_file(&probe)) {
        Ok(()) => Finding::ok("rights", format!("{shown} is writable")),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            Finding::fail("rights", format!("{shown}: {error}"), "free some space on its disk")
        }
        Err(error) => {
            let next = "give this user write permission, or name another directory with --store";
            Finding::fail("rights", format!("{shown} is not writable ({error})"), next)
        }
    }
}

/// Whether other users can read or replace the store.
fn exposure(directory: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = [DATA_FILE, FORMAT_FILE, LOCK_FILE].map(|name| directory.join(name));
    for path in [directory.to_owned()].iter().chain(&files) {
        let Ok(found) = std::fs::metadata(path) else { continue };
        let mode = found.mode() & 0o777;
        if mode & 0o077 != 0 {
            let detail = format!("{} is accessible to other users (mode {mode:o})", path.display());
            let next = format!("run `chmod go-rwx {}`", path.display());
            findings.push(Finding::warn("rights", detail, next));
        }
    }
    let whole = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    for parent in whole.ancestors().skip(1) {
        let Ok(found) = std::fs::metadata(parent) else { continue };
        if may_be_replaced(found.mode(), found.uid(), found.gid()) {
            let mode = found.mode() & 0o7777;
            let detail = format!(
                "other users can write to {} (mode {mode:o}), a parent of the store",
                parent.display()
            );
            let next = format!("run `chmod go-w {}`: they could replace the store", parent.display());
            findings.push(Finding::warn("rights", detail, next));
        }
    }
    findings
}

/// Whether users other than its owner can rename entries of a directory. A group with the user's number is
/// taken for the user's private group.
fn may_be_replaced(mode: u32, uid: u32, gid: u32) -> bool {
    let is_sticky = mode & 0o1000 != 0;
    let by_others = mode & 0o002 != 0 || (mode & 0o020 != 0 && uid != gid);
    by_others && !is_sticky
}

/// Whether another process holds the file lock, which ends with its process.
fn lock(directory: &Path) -> Finding {
    let path = directory.join(LOCK_FILE);
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Finding::ok("lock", "no process has the store open");
        }
        Err(error) => {
            let next = "give this user write permission";
            return Finding::fail("lock", format!("{}: {error}", path.display()), next);
        }
    };
    match file.try_lock() {
        Ok(()) => Finding::ok("lock", "no process has the store open"),
        Err(TryLockError::WouldBlock) => {
            let pid = std::fs::read_to_string(&path).unwrap_or_default();
            let detail = format!("process {} has the store open", pid.trim());
            Finding::warn("lock", detail, "stop it before `weaver store …`, which needs exclusive access")
        }
        Err(TryLockError::Error(error)) => {
            let next = "file locks do not work there: use a local disk, not a network file system";
            Finding::fail("lock", format!("{}: {error}", path.display()), next)
        }
    }
}

fn space(directory: &Path) -> Finding {
    let shown = directory.display();
    let free = match rustix::fs::statvfs(directory) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(error) => {
            let next = "check that the disk is mounted and healthy";
            return Finding::fail("disk", format!("{shown}: {error}"), next);
        }
    };
    let length = std::fs::metadata(directory.join(DATA_FILE)).map_or(0, |data| data.len());
    judge_space(free, length)
}

fn judge_space(free: u64, length: u64) -> Finding {
    let growth = length.clamp(FREE_MIN, GROWTH_MAX);
    let detail = format!("{} free", bytes(free));
    if free < FREE_MIN {
        Finding::fail("disk", detail, format!("free at least {} on the store's disk", bytes(FREE_MIN)))
    } else if free < growth {
        let next = format!("free at least {}: the next growth of the file", bytes(growth));
        Finding::warn("disk", detail, next)
    } else {
        Finding::ok("disk", detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn a_directory_that_others_write_to_is_a_danger_unless_it_is_sticky_or_the_users_own_group() {
        assert!(may_be_replaced(0o777, 0, 0) && may_be_replaced(0o775, 1000, 50));
        assert!(!may_be_replaced(0o1777, 0, 0) && !may_be_replaced(0o775, 1000, 1000));
        assert!(!may_be_replaced(0o755, 1000, 50));
    }

    #[test]
    fn space_is_judged_by_what_the_file_takes_when_it_next_grows() {
        assert_eq!(judge_space(MIB, MIB).verdict, Verdict::Fail);
        assert_eq!(judge_space(100 * MIB, 200 * MIB).verdict, Verdict::Warn);
        assert_eq!(judge_space(300 * MIB, 200 * MIB).verdict, Verdict::Ok);
        assert_eq!(judge_space(5000 * MIB, 900_000 * MIB).verdict, Verdict::Ok);
    }
}
