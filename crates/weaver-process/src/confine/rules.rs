//! The operator's rules for commands: `[confine.check]`, `[handlers.exec.confine]`,
//! `[profiles.NAME.confine]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Default TCP ports of a command with `network = "on"`: HTTPS, HTTP, DNS.
pub(super) const PORTS_DEFAULT: [u16; 3] = [443, 80, 53];

/// The mechanisms that confine commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// User, mount, PID, IPC and (with `network = "off"`) network namespaces, and Landlock.
    #[default]
    Namespaces,
    /// Another user of the machine (`confine.user`), and Landlock. Only for a server that runs as root.
    SecondUid,
    /// Landlock only: the same user; the host's processes and pathname sockets stay visible.
    Landlock,
}

/// Whether a command has a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkRule {
    /// Its own loopback interface, and nothing else.
    Off,
    /// The host's network, restricted by `ports`.
    On,
}

/// One command's rules, or those of all commands of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Paths that are visible besides the system (`/usr`, `/bin`, `/lib`, parts of `/etc`). `~/` is the home
    /// directory.
    pub read_only: Vec<PathBuf>,
    /// Paths that are visible and writable. Not for checks, which have a declared cache instead.
    pub read_write: Vec<PathBuf>,
    /// Whether it has a network. Default: off for checks, on for `exec` and agents.
    pub network: Option<NetworkRule>,
    /// TCP ports that it may connect to with `network = "on"`. Default: 443, 80 and 53.
    pub ports: Option<Vec<u16>>,
    /// No confinement: only a process group and its guard. For trusted commands that cannot work otherwise.
    pub unconfined: bool,
    /// Resource limits, each with a default.
    pub limits: Limits,
}

/// Resource limits of a command. Each is per process, except `processes_max` and `tmp_max_mb`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Private writable memory of a process (`RLIMIT_DATA`). Default: 8 GiB.
    pub memory_max_mb: u64,
    /// CPU time of a process (`RLIMIT_CPU`). Default: 4 h.
    pub cpu_max_s: u64,
    /// Processes and threads at once (`RLIMIT_NPROC`). Default: 4,096.
    pub processes_max: u64,
    /// The size of a file (`RLIMIT_FSIZE`). Default: 16 GiB.
    pub file_max_mb: u64,
    /// The size of each of the private `/tmp`, `/var`, `/run`, `/dev/shm` and home. Default: 2 GiB.
    pub tmp_max_mb: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_max_mb: 8 * 1024,
            cpu_max_s: 4 * 60 * 60,
            processes_max: 4096,
            file_max_mb: 16 * 1024,
            tmp_max_mb: 2 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_parsed_as_the_guide_writes_them_and_a_typo_is_an_error() {
        let rules: Rules = serde_json::from_str(
            r#"{"read_only": ["/opt/sdk"], "network": "on", "ports": [443], "limits": {"file_max_mb": 1}}"#,
        )
        .unwrap();
        assert_eq!(rules.network, Some(NetworkRule::On));
        assert_eq!(rules.limits, Limits { file_max_mb: 1, ..Limits::default() });
        assert!(serde_json::from_str::<Rules>(r#"{"readonly": []}"#).is_err());
        assert_eq!(serde_json::from_str::<Mode>(r#""second-uid""#).unwrap(), Mode::SecondUid);
    }
}
