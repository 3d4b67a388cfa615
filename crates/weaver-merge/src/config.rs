//! The checks a base branch requires: `.weaver/merge.toml`.
//!
//! It is read from the base and never from a change, so that a change cannot weaken its own checks. The files
//! under `protected` are taken from the base too when a change is checked. A change lands only if its own
//! version of the configuration is valid.
//!
//! ```toml
//! on_push = "eject" # or "retest"
//! protected = ["test.sh", "ci"]
//!
//! [[check]]
//! name = "unit"
//! command = ["cargo", "test"]
//! timeout_s = 900
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::domain::{CheckName, OnPush};
use crate::plan::CheckSet;

/// Path of the configuration, from the root of the repository.
pub const CONFIG_PATH: &str = ".weaver/merge.toml";
/// Largest configuration that is read, in bytes.
pub const CONFIG_MAX_BYTES: u64 = 64 * 1024;
const CHECKS_MAX: usize = 32;
const PROTECTED_MAX: usize = 100;
/// A check's name is part of document keys.
const NAME_MAX_BYTES: usize = 64;

/// The contents of [`CONFIG_PATH`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeConfig {
    /// What a push to an enqueued branch does; `eject` by default.
    #[serde(default)]
    pub on_push: OnPush,
    /// Files and directories that are taken from the base for a check run, at most 100. A path that the base
    /// lacks is removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    /// 1 to 32 checks, each of which must pass.
    #[serde(rename = "check", default)]
    pub checks: Vec<CheckConfig>,
}

/// One `[[check]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckConfig {
    /// At most 64 letters, digits, `-`, `_` and `.`; unique in the file.
    pub name: CheckName,
    /// Program and arguments. No shell is involved unless it is the program.
    pub command: Vec<String>,
    /// Seconds. Defaults to the operator's `check_timeout_s`, which is also its upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
}

impl MergeConfig {
    /// Parses and validates a configuration.
    ///
    /// # Errors
    /// A message for people: what is wrong and what to do.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| format!("{CONFIG_PATH} is not UTF-8"))?;
        let config: Self = toml::from_str(text).map_err(|error| format!("{CONFIG_PATH}: {error}"))?;
        if config.checks.is_empty() {
            return Err(format!(
                "{CONFIG_PATH} defines no check: add a `[[check]]` with `name` and `command`"
            ));
        }
        if config.checks.len() > CHECKS_MAX {
            return Err(format!(
                "{CONFIG_PATH} defines {} checks; at most {CHECKS_MAX} are allowed",
                config.checks.len()
            ));
        }
        let mut names = BTreeSet::new();
        for check in &config.checks {
            let name = &check.name.0;
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.chars().all(is_word) {
                return Err(format!(
                    "{CONFIG_PATH}: invalid check name `{name}`: \
                     use 1 to {NAME_MAX_BYTES} letters, digits, `-`, `_` or `.`"
                ));
            }
            if !names.insert(name) {
                return Err(format!("{CONFIG_PATH}: duplicate check `{name}`"));
            }
            if check.command.first().is_none_or(String::is_empty) {
                return Err(format!("{CONFIG_PATH}: check `{name}` has no command"));
            }
        }
        config.validate_protected()?;
        Ok(config)
    }

    fn validate_protected(&self) -> Result<(), String> {
        if self.protected.len() > PROTECTED_MAX {
            return Err(format!(
                "{CONFIG_PATH} protects {} paths; at most {PROTECTED_MAX} are allowed",
                self.protected.len()
            ));
        }
        let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git");
        let is_path = |path: &String| path.split('/').all(is_name) && !path.contains(char::is_control);
        match self.protected.iter().find(|path| !is_path(path)) {
            Some(path) => Err(format!(
                "{CONFIG_PATH}: `{path}` cannot be protected: \
                 name a file or directory from the root of the repository, such as `ci/test.sh`"
            )),
            None => Ok(()),
        }
    }

    /// Looks a check up by name.
    pub fn check(&self, name: &CheckName) -> Option<&CheckConfig> {
        self.checks.iter().find(|check| check.name == *name)
    }

    /// What planning needs. Equal checks with equal commands have equal ids, if the protected files are equal:
    /// `contents` identifies those of the base, and is empty if there are none.
    pub fn check_set(&self, contents: &str) -> CheckSet {
        let mut hash = Sha256::new();
        for check in &self.checks {
            // Debug output quotes and escapes, so it is unambiguous.
            hash.update(format!("{check:?}\n"));
        }
        if !self.protected.is_empty() {
            hash.update(format!("{:?} {contents:?}\n", self.protected));
        }
        let id = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let names = self.checks.iter().map(|check| check.name.clone()).collect();
        CheckSet { id, names, on_push: self.on_push }
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
    fn a_configuration_without_checks_is_refused() {
        assert!(parse("").unwrap_err().contains("[[check]]"));
    }

    #[test]
    fn an_invalid_configuration_is_refused_with_the_check_and_the_mistake() {
        assert!(parse("[[check]]\nname = \"a\"\ncommand = []\n").unwrap_err().contains("`a` has no command"));
        assert!(parse(&UNIT.repeat(2)).unwrap_err().contains("duplicate check"));
        assert!(parse(&format!("{UNIT}timeout = 3")).unwrap_err().contains("timeout"));
        assert!(parse("[[check]]\nname = \"a/b\"\ncommand = [\"x\"]\n").unwrap_err().contains("a/b"));
        assert!(parse(&(0..33).map(|n| UNIT.replace("unit", &n.to_string())).collect::<String>()).is_err());
    }

    #[test]
    fn a_different_command_gives_a_different_check_set_id() {
        let one = parse(UNIT).unwrap().check_set("");
        assert_eq!(one, parse(&format!("# why\n{UNIT}")).unwrap().check_set(""));
        assert_ne!(one.id, parse(&UNIT.replace("true", "false")).unwrap().check_set("").id);
    }

    #[test]
    fn other_protected_files_on_the_base_give_a_different_check_set_id() {
        let protected = format!("protected = [\"test.sh\"]\n{UNIT}");
        let config = parse(&protected).unwrap();
        assert_ne!(config.check_set("one").id, config.check_set("two").id);
        assert_ne!(config.check_set("").id, parse(UNIT).unwrap().check_set("").id);
    }

    #[test]
    fn a_protected_path_outside_the_checkout_is_refused() {
        for path in
            ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", ".git/config", "a/.GIT", "a/", "a\\nb"]
        {
            let text = format!("protected = [\"{path}\"]\n{UNIT}");
            assert!(parse(&text).unwrap_err().contains("protected"), "{path}");
        }
        assert!(parse(&format!("protected = [\"test.sh\", \"ci/a b\", \".github\"]\n{UNIT}")).is_ok());
    }
}
