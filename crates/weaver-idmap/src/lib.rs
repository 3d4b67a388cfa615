//! Id-mapped mounts: files of one user that look, in one mount, as if they were another's.
//!
//! A server that runs as root gives its commands an unprivileged user. In a project that belongs to root such
//! a command could change nothing; with the project mounted under a mapping it can, and what it writes
//! belongs to root on the disk. The alternatives, changing the owner of the user's files or running the
//! command as root, are worse.
//!
//! `mount_setattr(2)` has no safe wrapper in the crates we use (rustix, landlock), so this crate is where
//! Weaver's only `unsafe` block is. It can go when rustix has the call.

#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, BorrowedFd};

/// `MOUNT_ATTR_IDMAP`.
#[cfg(target_os = "linux")]
const IDMAP: u64 = 0x0010_0000;

/// `struct mount_attr`, as the kernel has it since 5.12.
#[cfg(target_os = "linux")]
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Gives a mount that is attached nowhere yet (`open_tree` with `OPEN_TREE_CLONE`) the mapping of a user
/// namespace.
///
/// # Errors
/// If the kernel or the file system does not support it, or this process may not do it.
#[cfg(target_os = "linux")]
pub fn map_mount(mount: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let descriptor = u64::try_from(user_namespace.as_raw_fd()).map_err(io::Error::other)?;
    let attributes = MountAttributes { set: IDMAP, clear: 0, propagation: 0, user_namespace: descriptor };
    // SAFETY: both descriptors are open for the duration of the call, being borrowed; the path is a string
    // that ends with NUL; the structure lives across the call, is read only, and its size is passed along.
    // The kernel keeps none of the pointers.
    #[allow(unsafe_code)]
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_is_no_mount_is_refused_by_the_kernel_and_nothing_else_happens() {
        let file = std::fs::File::open("/proc/self/ns/user").unwrap();
        assert!(map_mount(file.as_fd(), file.as_fd()).is_err());
    }
}
