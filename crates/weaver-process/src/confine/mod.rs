//! What a command may see and do. [`Rules`] are the operator's words, a [`Confinement`] is one command's
//! cell, and [`Confiner`] makes the second of the first.

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

/// The cell of one command: everything a guard needs to know to build it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// By which means.
    pub mode: Mode,
    /// The kernel user the command runs as; `None`: that of this process.
    pub user: Option<User>,
    /// Visible besides the system, not writable. Absolute, without `..`.
    pub read_only: Vec<PathBuf>,
    /// Visible and writable: the same files as outside.
    pub writable: Vec<PathBuf>,
    /// Masked, also where a visible path contains them.
    pub hidden: Vec<PathBuf>,
    /// The command's home: private and empty, unless it is below a writable path.
    pub home: PathBuf,
    /// What it can reach.
    pub network: Network,
    /// How much of the machine it gets.
    pub limits: Limits,
}

/// The home of a command whose environment names none: private and empty.
pub const HOME_DEFAULT: &str = "/home/weaver"; // tidy: not a machine path

/// What a command can reach over the network.
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

/// What this machine's Landlock lacks, for `weaver doctor`.
///
/// # Errors
/// With what is missing, and what that means.
pub fn landlock_support() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return linux::kernel_support();
    #[cfg(not(target_os = "linux"))]
    Err("Landlock is Linux's: commands are not confined here".to_owned())
}
