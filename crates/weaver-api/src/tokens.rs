//! Tokens: who may come in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

/// What a token may do. `producer` and `worker` are siblings: neither includes the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Looks, and changes nothing.
    Viewer,
    /// Puts tasks in.
    Producer,
    /// Takes tasks out and runs them.
    Worker,
    /// Keeps the place running.
    Operator,
    /// Decides who may come in.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Producer, Self::Worker, Self::Operator, Self::Admin];

    /// Its name in tokens, on the command line and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Text that names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no role: use viewer, producer, worker, operator or admin")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NewToken))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Whose it is, or what for.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Where; everywhere if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub namespaces: Option<Vec<String>>,
    /// Whether it may enqueue tasks that start programs.
    #[serde(default)]
    pub may_exec: bool,
    /// How long it is good, at most ten years; for ever if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub expires_in_ms: Option<u64>,
}

/// A token, without anything that could be used in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Names it, where it is revoked and in the audit journal.
    pub id: String,
    /// Whose it is, or what for.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Where; everywhere if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Whether it may enqueue tasks that start programs.
    pub may_exec: bool,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// When it stops being good; never, if not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token itself: told this once, kept only as a hash.
    pub token: String,
    /// What it is.
    pub info: Token,
}

/// A way to log a browser in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoginLink {
    /// What to put behind the server's address. It logs one browser in, once, as whoever asked for it.
    pub path: String,
    /// The server's address as the server knows it; the one that was asked, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// When it is good for nothing any more.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_for_a_role_is_the_one_that_serde_writes_and_it_is_read_back() {
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
            assert_eq!(role.as_str().parse(), Ok(role));
        }
    }
}
