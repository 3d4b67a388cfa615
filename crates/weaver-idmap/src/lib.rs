//! Id-mapped mounts: in one mount, files of one user appear as another's.
//!
//! A server that runs as root runs its commands as an unprivileged user. In a project that belongs to root
//! such a command could change nothing; with an id-mapped mount it can, and files it writes belong to root on
//! disk. The alternatives, chown of the user's files or running the command as root, are worse.
//!
//! `mount_setattr(2)` has no safe wrapper in the crates we use (rustix, landlock), so this crate has Weaver's
//! only `unsafe` block. It can be removed when rustix has the call.

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

/// Applies the id mapping of a user namespace to a detached mount (`open_tree` with `OPEN_TREE_CLONE`).
///
/// # Errors
/// If the kernel or the file system does not support it, or this process lacks the privilege.
#[cfg(target_os = "linux")]
pub fn map_mount(mount: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let descriptor = u64::try_from(user_namespace.as_raw_fd()).map_err(io::Error::other)?;
    let attributes = MountAttributes { set: IDMAP, clear: 0, propagation: 0, user_namespace: descriptor };
    // SAFETY: both descriptors are borrowed, so they are open for the duration of the call; the path is
    // NUL-terminated; the structure outlives the call, is only read, and its size is passed. The kernel
    // keeps none of the pointers.
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
    fn a_descriptor_that_is_not_a_mount_is_refused_by_the_kernel() {
        let file = std::fs::File::open("/proc/self/ns/user").unwrap();
        assert!(map_mount(file.as_fd(), file.as_fd()).is_err());
    }
}
