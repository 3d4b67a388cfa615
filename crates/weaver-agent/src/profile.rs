//! An agent's command line under a name, so that `--profile NAME` is enough.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weaver_process::Rules;

/// How an agent is run, as `[profiles.NAME]` in `weaver.toml` says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The program and its arguments. The prompt is on standard input, or in the file that `{prompt_file}`
    /// stands for.
    pub command: Vec<String>,
    /// Variables of the runner's environment that the agent gets besides what every program needs.
    #[serde(default)]
    pub pass_env: BTreeSet<String>,
    /// What it may see and do besides working on its project: its own configuration and credentials, the
    /// network.
    #[serde(default)]
    pub confine: Rules,
}
