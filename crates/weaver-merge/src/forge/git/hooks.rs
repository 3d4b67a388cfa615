//! The server-side hooks of a repository, and whether they may run as the server's user.
//!
//! They come from `hooks/` of the repository, or from the directory that the server's or the system's
//! configuration names; never from one that the repository's own configuration names.
//!
//! A hook runs with the server's permissions, so only root and the server's user may be able to write it. An
//! insecure hook is never skipped: it may be what enforces a policy. Landing is refused instead.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The hooks that `git receive-pack` runs.
const NAMES: [&str; 5] = ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"];
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The directory to run hooks from; `None` if there are no hooks.
///
/// # Errors
/// The insecure hook, why, and what to do.
pub(super) fn qualified(directory: &Path, uid: u32) -> Result<Option<PathBuf>, String> {
    let mut found = Vec::new();
    for name in NAMES {
        let path = directory.join(name);
        match fs::metadata(&path) {
            // As in git: a file that is not executable is not a hook.
            Ok(hook) if hook.is_file() && hook.mode() & 0o111 != 0 => found.push(path),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(insecure(&path, &format!("cannot be inspected ({error})"), uid)),
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    for hook in &found {
        // Both the name and the target of a link: write access to either chooses the program.
        for path in [Some(hook.clone()), fs::canonicalize(hook).ok()].into_iter().flatten() {
            check(&path, uid)?;
        }
    }
    fs::canonicalize(directory)
        .map(Some)
        .map_err(|error| insecure(directory, &format!("cannot be resolved ({error})"), uid))
}

/// Checks the file and every parent directory: write access to a directory allows replacing the file.
fn check(path: &Path, uid: u32) -> Result<(), String> {
    for (depth, part) in path.ancestors().filter(|part| !part.as_os_str().is_empty()).enumerate() {
        let seen = fs::metadata(part)
            .map_err(|error| insecure(part, &format!("cannot be inspected ({error})"), uid))?;
        if let Some(problem) = problem(&seen, uid, depth > 1) {
            return Err(insecure(part, &problem, uid));
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
        .then(|| format!("is writable by other users (mode {:o})", seen.mode() & 0o7777))
}

fn insecure(path: &Path, problem: &str, uid: u32) -> String {
    format!(
        "{} {problem}: a hook runs with the server's permissions, so it and its parent directories must be \
         owned by root or user {uid} and not be writable by other users. Fix it with chown and chmod go-w, \
         or set merge.hooks_path to a secure directory, and resume the queue",
        path.display()
    )
}
