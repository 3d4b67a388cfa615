//! The server-side hooks of a repository, and whether they may run as the server.
//!
//! They come from `hooks/` of the repository, or from the directory that the server's or the system's
//! configuration names; never from one that the repository's own configuration names. A hook runs with the
//! rights of the server, so only root and the server's user may have written it. One that does not qualify is
//! never skipped: it may be what keeps changes out.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What `git receive-pack` runs.
const NAMES: [&str; 5] = ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"];
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The directory to run hooks from, `None` if there are none to run.
///
/// # Errors
/// With the hook that does not qualify, why, and what to do.
pub(super) fn qualified(directory: &Path, uid: u32) -> Result<Option<PathBuf>, String> {
    let mut found = Vec::new();
    for name in NAMES {
        let path = directory.join(name);
        match fs::metadata(&path) {
            // As git does: one that cannot be executed is no hook.
            Ok(hook) if hook.is_file() && hook.mode() & 0o111 != 0 => found.push(path),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unfit(&path, &format!("cannot be looked at ({error})"), uid)),
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    for hook in &found {
        // Both the name and what a link at it leads to: write access to either is the choice of the program.
        for path in [Some(hook.clone()), fs::canonicalize(hook).ok()].into_iter().flatten() {
            check(&path, uid)?;
        }
    }
    fs::canonicalize(directory)
        .map(Some)
        .map_err(|error| unfit(directory, &format!("cannot be resolved ({error})"), uid))
}

/// The file and every directory above it: one that others can write to lets them put another file in its
/// place.
fn check(path: &Path, uid: u32) -> Result<(), String> {
    for (depth, part) in path.ancestors().filter(|part| !part.as_os_str().is_empty()).enumerate() {
        let seen = fs::metadata(part)
            .map_err(|error| unfit(part, &format!("cannot be looked at ({error})"), uid))?;
        if let Some(problem) = problem(&seen, uid, depth > 1) {
            return Err(unfit(part, &problem, uid));
        }
    }
    Ok(())
}

fn problem(seen: &Metadata, uid: u32, may_be_sticky: bool) -> Option<String> {
    if seen.uid() != 0 && seen.uid() != uid {
        return Some(format!("belongs to user {}", seen.uid()));
    }
    let is_protected = may_be_sticky && seen.mode() & STICKY != 0;
    (seen.mode() & WRITABLE_BY_OTHERS != 0 && !is_protected)
        .then(|| format!("can be written to by others (mode {:o})", seen.mode() & 0o7777))
}

fn unfit(path: &Path, problem: &str, uid: u32) -> String {
    format!(
        "{} {problem}: a hook runs with the rights of the server, so it and the directories it is in must belong to root or to \
         user {uid} and be writable by no other. Correct that with chown and chmod go-w, or set merge.hooks_path to a directory \
         of hooks that is so, and resume the queue",
        path.display()
    )
}
