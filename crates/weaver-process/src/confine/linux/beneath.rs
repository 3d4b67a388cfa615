//! Entering the command's working directory.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use rustix::process::{chdir, fchdir};

use crate::order::Order;

/// Below `beneath` no symlink is followed: the path was canonical when it was checked, so a symlink is new.
pub(crate) fn enter(order: &Order) -> Result<(), String> {
    let entered = match &order.beneath {
        Some(root) => enter_beneath(root, &order.current_dir),
        None => chdir(&order.current_dir).map_err(Into::into),
    };
    entered.map_err(|error| format!("cannot enter the directory {}: {error}", order.current_dir.display()))
}

fn enter_beneath(root: &Path, directory: &Path) -> io::Result<()> {
    let inner = directory.strip_prefix(root).map_err(|_| io::Error::other("it is outside of its root"))?;
    let inner = if inner.as_os_str().is_empty() { Path::new(".") } else { inner };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, root, flags, Mode::empty())?;
    match openat2(&root, inner, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS) {
        Ok(found) => Ok(fchdir(found)?),
        // An old kernel, or a seccomp filter around us that does not allow the call.
        Err(Errno::NOSYS | Errno::PERM) => Ok(fchdir(open(directory, flags, Mode::empty())?)?),
        Err(error) => Err(error.into()),
    }
}
