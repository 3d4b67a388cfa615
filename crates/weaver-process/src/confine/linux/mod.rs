//! Building a sandbox on Linux, in order.
//!
//! ```text
//! guard   namespaces.rs   user and PID namespace (the guard itself stays in the host's mounts)
//! init    sandbox.rs      ├─ mount, IPC and network namespaces; loopback.rs brings the private interface up
//!                         ├─ root.rs        a new root: mounts.rs binds, etc.rs fills /etc, devices.rs /dev
//!                         ├─ privileges.rs  the user, no capabilities, no_new_privs
//!                         ├─ limits.rs      memory, CPU time, processes, file size
//!                         └─ landlock.rs    files, TCP ports, signals, abstract sockets
//! guard   owners.rs       id-mapped mounts: files of another user as the command's own
//!         beneath.rs      the command's directory, entered without following symlinks
//! ```

pub(crate) mod beneath;
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
pub(crate) mod sandbox;

pub(crate) use landlock::kernel_support;

/// Alternatives when a sandbox cannot be built.
pub(crate) const INSTEAD: &str = "instead of namespaces, `confine.mode` can be \"second-uid\" (a server that runs as root, with \
    `confine.user`) or \"landlock\" (weaker: see docs/operating/security.md); a trusted command can be `unconfined = true`";
