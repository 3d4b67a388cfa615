//! The directories of sockets, registrations and process locks.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};

/// The path of a socket has at most 107 bytes; this leaves room for the file name.
const SOCKET_DIRECTORY_MAX_BYTES: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) sockets: PathBuf,
    pub(crate) registrations: PathBuf,
    /// Locks of processes with workers.
    pub(crate) workers: PathBuf,
    pub(crate) uid: u32,
}

impl Places {
    pub(crate) fn of_process() -> Self {
        Self::of(rustix::process::getuid().as_raw(), |name| std::env::var_os(name))
    }

    fn of(uid: u32, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        // What is not absolute is to be ignored, says the XDG specification.
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let fallback = PathBuf::from(format!("/tmp/weaver-{uid}"));
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .map_or_else(|| fallback.clone(), |state| state.join("weaver"));
        let sockets = match absolute("RUNTIME_DIRECTORY") {
            // Set by systemd; it may list several.
            Some(path) => first_of(&path),
            None => match absolute("XDG_RUNTIME_DIR") {
                Some(path) => path.join("weaver"),
                None if uid == 0 => PathBuf::from("/run/weaver"),
                None => state.join("run"),
            },
        };
        let is_short = sockets.as_os_str().len() <= SOCKET_DIRECTORY_MAX_BYTES;
        let sockets = if is_short { sockets } else { fallback };
        Self { sockets, registrations: state.join("servers"), workers: state.join("workers"), uid }
    }
}

fn first_of(paths: &Path) -> PathBuf {
    let text = paths.to_string_lossy();
    PathBuf::from(text.split(':').next().unwrap_or_default())
}

/// Creates a directory with mode 0700; an existing one must belong to the owner and not be writable by
/// others.
pub(super) fn make_private(directory: &Path, uid: u32) -> Result<(), Failure> {
    let failed = |error: &io::Error| Failure::io(directory, error);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| failed(&error))?;
    // Not through a symlink: in a shared directory another user may have put one there.
    let found = fs::symlink_metadata(directory).map_err(|error| failed(&error))?;
    let mode = found.permissions().mode() & 0o777;
    if found.is_dir() && (found.uid() == uid || found.uid() == 0) && mode & 0o022 == 0 {
        return Ok(());
    }
    let message = format!("{} belongs to another user, or other users can write to it", directory.display());
    Err(Failure::new(Exit::Refused, message)
        .next(format!("remove it, or run `chmod 700 {}` if it is yours", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uid: u32, variables: &[(&str, &str)]) -> Places {
        let found =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Places::of(uid, found)
    }

    #[test]
    fn sockets_are_in_the_runtime_directory_of_the_user() {
        let home = [("HOME", "/users/ada")];
        assert_eq!(of(1000, &home).sockets, Path::new("/users/ada/.local/state/weaver/run"));
        assert_eq!(of(1000, &home).registrations, Path::new("/users/ada/.local/state/weaver/servers"));
        assert_eq!(of(0, &home).sockets, Path::new("/run/weaver"));
        let session = [("XDG_RUNTIME_DIR", "/run/user/1000"), ("XDG_STATE_HOME", "/state")];
        assert_eq!(of(1000, &session).sockets, Path::new("/run/user/1000/weaver"));
        assert_eq!(of(0, &session).sockets, Path::new("/run/user/1000/weaver"));
        assert_eq!(of(1000, &session).registrations, Path::new("/state/weaver/servers"));
        let service = [("RUNTIME_DIRECTORY", "/run/weaver:/run/other"), ("HOME", "/")];
        assert_eq!(of(900, &service).sockets, Path::new("/run/weaver"));
    }

    #[test]
    fn without_a_home_or_with_a_long_path_a_short_one_stands_in() {
        assert_eq!(of(900, &[]).sockets, Path::new("/tmp/weaver-900/run"));
        let long = format!("/{}", "x".repeat(100));
        assert_eq!(of(900, &[("XDG_RUNTIME_DIR", &long)]).sockets, Path::new("/tmp/weaver-900"));
        assert_eq!(of(900, &[("XDG_RUNTIME_DIR", "relative")]).sockets, Path::new("/tmp/weaver-900/run"));
    }
}
