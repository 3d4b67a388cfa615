//! Confinement of commands. [`Rules`] are the operator's configuration, a [`Confinement`] describes one
//! command's sandbox, and a [`Confiner`] turns the first into the second.

mod confiner;
mod isolation;
#[cfg(target_os = "linux")]
pub(crate) mod linux;
mod probe;
mod rules;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use confiner::{Confiner, ConfinerOptions, Purpose, User};
pub use isolation::Isolation;
pub use probe::probe;
pub use rules::{Limits, Mode, NetworkRule, Rules};

/// The sandbox of one command: all that a guard needs to build it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The mechanisms that are used.
    pub mode: Mode,
    /// The user that the command runs as; `None`: this process's user.
    pub user: Option<User>,
    /// Visible besides the system, not writable. Absolute, without `..`.
    pub read_only: Vec<PathBuf>,
    /// Visible and writable: the same files as outside.
    pub writable: Vec<PathBuf>,
    /// Masked, also where a visible path contains them.
    pub hidden: Vec<PathBuf>,
    /// The command's home: private and empty, unless it is below a writable path.
    pub home: PathBuf,
    /// Its access to the network.
    pub network: Network,
    /// Resource limits, by `setrlimit` and the size of `/tmp`.
    pub limits: Limits,
    /// An overlay in place of one of the writable paths; only with [`Mode::Namespaces`].
    #[serde(default)]
    pub overlay: Option<Overlay>,
}

/// A directory that many commands read, with what one command writes to it kept apart (overlayfs). Files
/// appear with the owners they have in `lower`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// Where the command sees it: one of [`Confinement::writable`].
    pub target: PathBuf,
    /// The shared files. Must not change while a command runs.
    pub lower: PathBuf,
    /// Receives what the command writes.
    pub upper: PathBuf,
    /// Empty, for the kernel, on the file system of `upper`.
    pub work: PathBuf,
}

/// Beginning of the message if an overlay cannot be mounted.
pub(crate) const NO_OVERLAY: &str = "cannot mount an overlay";

/// The home of a command whose environment names none: private and empty.
pub const HOME_DEFAULT: &str = "/home/weaver"; // tidy: not a machine path

/// A command's access to the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A network namespace of its own, with nothing in it but a loopback interface.
    Off,
    /// The host's network; TCP connections only to these ports. UDP is not restricted.
    On {
        /// Ports it may connect to, on any address: loopback too.
        ports: Vec<u16>,
    },
}

/// Whether this kernel has every Landlock feature that is used, for `weaver doctor`.
///
/// # Errors
/// If one is missing; the message says what is not enforced.
pub fn landlock_support() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return linux::kernel_support();
    #[cfg(not(target_os = "linux"))]
    Err("Landlock needs Linux: commands are not confined on this system".to_owned())
}
