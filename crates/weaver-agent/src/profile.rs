//! Named configurations of agents, for `--profile NAME`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weaver_process::Rules;

/// How to run an agent: `[profiles.NAME]` in `weaver.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The program and its arguments. The prompt is on standard input, or in the file `{prompt_file}`.
    pub command: Vec<String>,
    /// Variables of the runner's environment that the agent inherits besides the usual ones (`PATH`, `HOME`,
    /// locale, …).
    #[serde(default)]
    pub pass_env: BTreeSet<String>,
    /// Confinement beyond its project: paths of its own configuration and credentials, the network.
    #[serde(default)]
    pub confine: Rules,
}
