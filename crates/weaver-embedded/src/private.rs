//! File modes: directories 0700, files 0600, whatever the umask.
//!
//! A user who can open the lock file could also lock it, and keep the store from opening.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// Set on directories that all users share, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Creates a directory if it is missing. Its parents get the umask's mode, as they are not part of the store.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Open options that create files with mode 0600.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Creates an empty file, truncating an existing one.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Removes other users' access to the files of a store that was created with a wider mode, and to the
/// directory if `owns_directory` accepts everything in it. Failures are logged and do not stop the store.
pub(crate) fn tighten(directory: &Path, files: &[&str], owns_directory: impl Fn(&str) -> bool) {
    if is_only_ours(directory, owns_directory) {
        tighten_one(directory, DIRECTORY_MODE);
    }
    for file in files {
        tighten_one(&directory.join(file), FILE_MODE);
    }
}

fn is_only_ours(directory: &Path, owns: impl Fn(&str) -> bool) -> bool {
    let Ok(mut entries) = fs::read_dir(directory) else { return false };
    entries.all(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(&owns)))
}

fn tighten_one(path: &Path, mode: u32) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    let before = found.permissions().mode() & 0o7777;
    if before & OTHERS == 0 || before & STICKY != 0 || found.is_symlink() {
        return;
    }
    let after = before & mode;
    match fs::set_permissions(path, Permissions::from_mode(after)) {
        Ok(()) => tracing::warn!(
            path = %path.display(), before = %format_args!("{before:o}"), after = %format_args!("{after:o}"),
            "store was accessible to other users; tightened its mode"
        ),
        Err(error) => tracing::warn!(
            path = %path.display(), mode = %format_args!("{before:o}"), %error,
            "store is accessible to other users, and its mode cannot be changed"
        ),
    }
}
