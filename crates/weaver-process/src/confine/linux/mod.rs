//! Building a cell on Linux, in the order in which it is done.
//!
//! ```text
//! guard   namespaces.rs   user and PID namespace (the guard itself stays in the host's mounts)
//! init    cell.rs         ├─ mount, IPC and network namespaces; loopback.rs brings the private interface up
//!                         ├─ root.rs        a new root: mounts.rs binds, etc.rs fills /etc, devices.rs /dev
//!                         ├─ privileges.rs  the kernel user, no capabilities, no new ones
//!                         ├─ limits.rs      memory, processor, processes, file size
//!                         └─ landlock.rs    files, TCP ports, signals, abstract sockets
//! guard   owners.rs       files of another user, mounted as the command's own
//!         beneath.rs      the command's directory, entered without following links
//! ```

pub(crate) mod beneath;
pub(crate) mod cell;
mod devices;
mod etc;
mod landlock;
mod limits;
mod loopback;
mod mounts;
pub(crate) mod namespaces;
pub(crate) mod owners;
mod privileges;
mod root;

pub(crate) use landlock::kernel_support;

/// What to do when a cell cannot be built.
pub(crate) const INSTEAD: &str = "instead of namespaces, `confine.mode` can be \"second-uid\" (a server that runs as root, with \
    `confine.user`) or \"landlock\" (weaker: see docs/operating/security.md); a command that is trusted can be `unconfined = true`";
