//! The checks a base branch asks for: `.weaver/merge.toml`, read from the base and never from a change, so
//! that a change cannot weaken its own checks.
//!
//! ```toml
//! [[check]]
//! name = "unit"
//! command = ["cargo", "test"]
//! timeout_s = 900
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::domain::CheckName;
use crate::plan::CheckSet;

/// Where the file is.
pub const CONFIG_PATH: &str = ".weaver/merge.toml";
/// How large it may be.
pub const CONFIG_MAX_BYTES: u64 = 64 * 1024;
/// How many checks there may be.
const CHECKS_MAX: usize = 32;
/// How long a check's name may be: it is part of keys.
const NAME_MAX_BYTES: usize = 64;

/// What a base branch asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeConfig {
    /// The checks, each of which must pass.
    #[serde(rename = "check", default)]
    pub checks: Vec<CheckConfig>,
}

/// A check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckConfig {
    /// Its name.
    pub name: CheckName,
    /// The program and its arguments. There is no shell unless it is named.
    pub command: Vec<String>,
    /// How long it may take; the operator's limit if not given, and never longer than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
}

impl MergeConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// With what is wrong and what to do, for people.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| format!("{CONFIG_PATH} is not UTF-8"))?;
        let config: Self = toml::from_str(text).map_err(|error| format!("{CONFIG_PATH}: {error}"))?;
        if config.checks.is_empty() {
            return Err(format!(
                "{CONFIG_PATH} names no check: add a `[[check]]` with `name` and `command`, or nothing is ever tested"
            ));
        }
        if config.checks.len() > CHECKS_MAX {
            return Err(format!(
                "{CONFIG_PATH} names {} checks: {CHECKS_MAX} is the limit",
                config.checks.len()
            ));
        }
        let mut names = BTreeSet::new();
        for check in &config.checks {
            let name = &check.name.0;
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.chars().all(is_word) {
                return Err(format!(
                    "{CONFIG_PATH}: `{name}` is no name of a check: letters, digits, `-`, `_` and `.` are"
                ));
            }
            if !names.insert(name) {
                return Err(format!("{CONFIG_PATH}: the check `{name}` is there twice"));
            }
            if check.command.first().is_none_or(String::is_empty) {
                return Err(format!("{CONFIG_PATH}: the check `{name}` has no command"));
            }
        }
        Ok(config)
    }

    /// A check by its name.
    pub fn check(&self, name: &CheckName) -> Option<&CheckConfig> {
        self.checks.iter().find(|check| check.name == *name)
    }

    /// What planning needs to know: the same id for the same checks with the same commands.
    pub fn check_set(&self) -> CheckSet {
        let mut hash = Sha256::new();
        for check in &self.checks {
            // Debug output quotes and escapes: no two configurations look alike.
            hash.update(format!("{check:?}\n"));
        }
        let id = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        CheckSet { id, names: self.checks.iter().map(|check| check.name.clone()).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<MergeConfig, String> {
        MergeConfig::parse(text.as_bytes())
    }

    const UNIT: &str = "[[check]]\nname = \"unit\"\ncommand = [\"true\"]\n";

    #[test]
    fn a_configuration_without_checks_is_refused_because_nothing_would_be_tested() {
        assert!(parse("").unwrap_err().contains("[[check]]"));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("[[check]]\nname = \"a\"\ncommand = []\n").unwrap_err().contains("`a` has no command"));
        assert!(parse(&UNIT.repeat(2)).unwrap_err().contains("twice"));
        assert!(parse(&format!("{UNIT}timeout = 3")).unwrap_err().contains("timeout"));
        assert!(parse("[[check]]\nname = \"a/b\"\ncommand = [\"x\"]\n").unwrap_err().contains("a/b"));
        assert!(parse(&(0..33).map(|n| UNIT.replace("unit", &n.to_string())).collect::<String>()).is_err());
    }

    #[test]
    fn another_command_is_another_set_of_checks() {
        let one = parse(UNIT).unwrap().check_set();
        assert_eq!(one, parse(&format!("# why\n{UNIT}")).unwrap().check_set());
        assert_ne!(one.id, parse(&UNIT.replace("true", "false")).unwrap().check_set().id);
    }
}
