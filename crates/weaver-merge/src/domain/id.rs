//! Identifiers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Id of a merge queue, `<repository>:<base branch>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueueId(pub String);

impl QueueId {
    /// Composes the id of the queue of a base branch.
    pub fn of(repository: &str, base_branch: &str) -> Self {
        Self(format!("{repository}:{base_branch}"))
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Number of an entry, from 1 within its queue. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// Name of a check in the configuration on the base branch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckName(pub String);

impl fmt::Display for CheckName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The name of a git object, in full: 40 (or 64) hexadecimal digits. Never a ref, which could move or look
/// like an option.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

/// The text is not a full object name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a git object name: expected 40 or 64 lowercase hexadecimal digits")]
pub struct BadOid(String);

impl Oid {
    /// All 40 or 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first ten digits, for display.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl FromStr for Oid {
    type Err = BadOid;

    fn from_str(text: &str) -> Result<Self, BadOid> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if is_hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadOid(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Oid {
    type Error = BadOid;

    fn try_from(text: String) -> Result<Self, BadOid> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_an_option_or_an_abbreviation_is_not_an_object_name() {
        for text in ["main", "--all", "abc123", "", &"A".repeat(40), &"a".repeat(41)] {
            assert!(text.parse::<Oid>().is_err(), "{text}");
        }
        assert!("a".repeat(40).parse::<Oid>().is_ok() && "0".repeat(64).parse::<Oid>().is_ok());
    }
}
