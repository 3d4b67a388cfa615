//! Tells a commit that no machine can use from a machine that does not work.
//!
//! A change may contain what git stores and no file system takes (`.git/config`, a name of 300 bytes), or
//! lack objects. If that looked like a broken machine, one such change would stop all others.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::command::{Git, GitOutput};
use crate::domain::Oid;
use crate::forge::ForgeError;

/// Bytes of a test file: more than a file system keeps inside an inode.
const PROBE_BYTES: usize = 64 * 1024;

/// Errors of the machine, as the C library words them: full, read-only or broken disks, limits, permissions.
const MACHINE: [&str; 15] = [
    "No space left on device",
    "Disk quota exceeded",
    "Input/output error",
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "Too many open files",
    "Cannot allocate memory",
    "Out of memory",
    "out of memory",
    "Resource temporarily unavailable",
    "Stale file handle",
    "Transport endpoint is not connected",
    "No such device",
    "index.lock",
];

/// The error of a command that reads a commit: the machine's, or else the commit's.
pub(super) fn error(output: &GitOutput) -> ForgeError {
    let error = output.error();
    match error {
        // Killed by a signal: unknown.
        ForgeError::Unavailable(problem) if output.code.is_some() && !is_of_machine(&problem) => {
            ForgeError::Unusable(problem)
        }
        error => error,
    }
}

/// The same for a command that writes files. However its message is worded, it is the machine's error if a
/// file of our own cannot be written beside that directory either.
pub(super) fn write_error(output: &GitOutput, directory: &Path) -> ForgeError {
    match error(output) {
        ForgeError::Unusable(problem) => match probe(directory) {
            Ok(()) => ForgeError::Unusable(problem),
            Err(error) => {
                ForgeError::Unavailable(format!("{problem} (a test file cannot be written either: {error})"))
            }
        },
        error => error,
    }
}

fn probe(directory: &Path) -> io::Result<()> {
    let mut path = directory.as_os_str().to_owned();
    path.push(".probe");
    let written = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut file| {
        file.write_all(&[b'x'; PROBE_BYTES])?;
        // A file system may allocate later than it acknowledges.
        file.sync_all()
    });
    // It does not exist if it could not be created.
    let _ = fs::remove_file(&path);
    written
}

fn is_of_machine(problem: &str) -> bool {
    MACHINE.iter().any(|known| problem.contains(known))
}

/// The error of a merge: the change's only if its head lacks objects and the base has all of its own.
pub(super) async fn merge_error(git: &Git, base: &Oid, head: &Oid, output: &GitOutput) -> ForgeError {
    let of_head = missing(git, head, &format!("{base}..{head}")).await;
    match (of_head, missing(git, base, base.as_str()).await) {
        (Ok(Some(problem)), Ok(None)) => ForgeError::Unusable(format!("{head} lacks objects: {problem}")),
        _ => output.error(),
    }
}

/// Walks the files of a commit and a range of history; returns what git says if an object is missing.
async fn missing(git: &Git, commit: &Oid, range: &str) -> Result<Option<String>, ForgeError> {
    let walks: [&[&str]; 2] = [
        &["rev-list", "--quiet", "--objects", "--no-walk", commit.as_str()],
        &["rev-list", "--quiet", range],
    ];
    for words in walks {
        let output = git.run(words).await?;
        if output.code == Some(0) {
            continue;
        }
        return match error(&output) {
            ForgeError::Unusable(problem) => Ok(Some(problem)),
            other => Err(other),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_machines_if_a_file_of_our_own_cannot_be_written_either() {
        let output = GitOutput { code: Some(128), stdout: Vec::new(), stderr: b"fatal: strange".to_vec() };
        let directory = std::env::temp_dir().join(format!("weaver-probe-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let files = directory.join("files");
        assert_eq!(write_error(&output, &files), ForgeError::Unusable("fatal: strange".to_owned()));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "the test file is removed");
        fs::remove_dir(&directory).unwrap();
        let error = write_error(&output, &files);
        let is_machine = matches!(&error, ForgeError::Unavailable(said) if said.contains("test file"));
        assert!(is_machine, "{error:?}");
    }
}
