//! Files that belong to another user than the command is (root's, where the server is root) are mounted under
//! a mapping: to the command they are its own, and on the disk what it writes is theirs.

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

/// Tells PID 1 of the cell which descriptor holds the mapping.
pub(crate) const DESCRIPTOR: &str = "WEAVER_OWNERS_DESCRIPTOR";
/// The last user number that Linux hands out; mapping to itself what is not mapped otherwise.
const USERS_MAX: u32 = 65534;

/// The owner of a writable path, if the command is another user.
pub(crate) fn foreign_owner(confinement: &Confinement) -> Option<User> {
    let user = confinement.user.filter(|_| confinement.mode == Mode::Namespaces)?;
    let owners = confinement.writable.iter().filter_map(|path| owner_of(path).ok());
    owners.into_iter().find(|owner| owner.uid != user.uid)
}

pub(super) fn owner_of(path: &Path) -> io::Result<User> {
    let found = fs::metadata(path)?;
    Ok(User { uid: found.uid(), gid: found.gid() })
}

/// Made by the guard, as root and outside: a user namespace that nothing runs in, for its mapping alone. A
/// child makes it and waits; its files in `/proc` are written from here, because only root outside may map
/// one user to another.
pub(crate) fn mapping(owner: User, user: User) -> io::Result<File> {
    let mut child = Command::new(OWN_BINARY)
        .arg(HOLD)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mapped = map(child.id(), child.stdout.take(), owner, user);
    // Without its input it ends by itself; the namespace stays as long as the descriptor does.
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
    // For PID 1, which closes it to everything else.
    fcntl_setfd(&namespace, FdFlags::empty())?;
    Ok(namespace)
}

/// `FILE'S HOST'S COUNT`: the one user becomes the other, all others stay themselves.
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

/// The mapping that the guard left for this process.
pub(super) fn received() -> Option<File> {
    let number: u32 = std::env::var(DESCRIPTOR).ok()?.parse().ok()?;
    File::open(format!("/proc/self/fd/{number}")).ok()
}

/// Shows a directory under a mapping.
pub(super) fn bind(source: &Path, target: &Path, mapping: &File) -> io::Result<()> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, source, flags)?;
    weaver_idmap::map_mount(tree.as_fd(), mapping.as_fd())?;
    Ok(move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// How the descriptor is named to PID 1.
pub(crate) fn variable(mapping: &File) -> (&'static str, PathBuf) {
    (DESCRIPTOR, mapping.as_raw_fd().to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_becomes_another_and_every_other_stays_itself() {
        assert_eq!(lines(0, 65534), "0 65534 1\n1 1 65533\n");
        assert_eq!(lines(1000, 12), "1000 12 1\n0 0 12\n13 13 987\n1001 1001 64533\n");
    }
}
