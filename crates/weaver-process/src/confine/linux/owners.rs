//! Id-mapped mounts for files that belong to another user than the command's (root, where the server is
//! root): to the command they are its own, and files it writes belong to that user on disk.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::CWD;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::confine::{Confinement, Mode, User};
use crate::guard::{HOLD, OWN_BINARY};

/// The environment variable with the descriptor of the mapping, for PID 1 of the sandbox.
pub(crate) const DESCRIPTOR: &str = "WEAVER_OWNERS_DESCRIPTOR";
/// The last user id; all others are mapped to themselves.
const USERS_MAX: u32 = 65534;

/// The owner of a writable path, if it is not the command's user.
pub(crate) fn foreign_owner(confinement: &Confinement) -> Option<User> {
    let user = confinement.user.filter(|_| confinement.mode == Mode::Namespaces)?;
    let owners = confinement.writable.iter().filter_map(|path| owner_of(path).ok());
    owners.into_iter().find(|owner| owner.uid != user.uid)
}

pub(super) fn owner_of(path: &Path) -> io::Result<User> {
    let found = fs::metadata(path)?;
    Ok(User { uid: found.uid(), gid: found.gid() })
}

/// Created by the guard, as root and outside: a user namespace without processes, for its id mapping only. A
/// child creates it and waits; its files in `/proc` are written from here, because only root outside may map
/// one user to another.
pub(crate) fn mapping(owner: User, user: User) -> io::Result<File> {
    let mut child = Command::new(OWN_BINARY)
        .arg(HOLD)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mapped = map(child.id(), child.stdout.take(), owner, user);
    // The child ends at EOF; the namespace lives as long as the descriptor.
    drop(child.stdin.take());
    child.wait()?;
    mapped
}

fn map(pid: u32, stdout: Option<impl Read>, owner: User, user: User) -> io::Result<File> {
    let mut ready = [0];
    stdout.ok_or_else(|| io::Error::other("no pipe"))?.read_exact(&mut ready)?;
    fs::write(format!("/proc/{pid}/uid_map"), lines(owner.uid, user.uid))?;
    fs::write(format!("/proc/{pid}/gid_map"), lines(owner.gid, user.gid))?;
    let namespace = File::open(format!("/proc/{pid}/ns/user"))?;
    // Inherited by PID 1, which sets close-on-exec.
    fcntl_setfd(&namespace, FdFlags::empty())?;
    Ok(namespace)
}

/// Lines `FILE'S HOST'S COUNT`: `owner` is mapped to `user`, all others to themselves.
fn lines(owner: u32, user: u32) -> String {
    let mut lines = format!("{owner} {user} 1\n");
    let mut from = 0;
    let mut excluded = [owner, user];
    excluded.sort_unstable();
    for next in excluded.into_iter().chain([USERS_MAX]) {
        if next > from {
            lines.push_str(&format!("{from} {from} {}\n", next - from));
        }
        from = next.saturating_add(1);
    }
    lines
}

/// The mapping that this process inherited from the guard.
pub(super) fn received() -> Option<File> {
    let number: u32 = std::env::var(DESCRIPTOR).ok()?.parse().ok()?;
    File::open(format!("/proc/self/fd/{number}")).ok()
}

/// Bind-mounts a directory with an id mapping.
pub(super) fn bind(source: &Path, target: &Path, mapping: &File) -> io::Result<()> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, source, flags)?;
    weaver_idmap::map_mount(tree.as_fd(), mapping.as_fd())?;
    Ok(move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// The environment variable for PID 1.
pub(crate) fn variable(mapping: &File) -> (&'static str, PathBuf) {
    (DESCRIPTOR, mapping.as_raw_fd().to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_is_mapped_to_another_and_all_others_to_themselves() {
        assert_eq!(lines(0, 65534), "0 65534 1\n1 1 65533\n");
        assert_eq!(lines(1000, 12), "1000 12 1\n0 0 12\n13 13 987\n1001 1001 64533\n");
    }
}
