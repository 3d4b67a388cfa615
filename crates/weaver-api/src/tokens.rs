//! API tokens and login links.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

/// What a token may do. `producer` and `worker` are siblings: neither includes the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads everything, and changes nothing.
    Viewer,
    /// Reads, and enqueues tasks.
    Producer,
    /// Reads, and leases and runs tasks.
    Worker,
    /// Manages tasks, queues, schedules, settings and workers; reads the audit journal.
    Operator,
    /// Everything, including tokens and purging.
    Admin,
}

impl Role {
    /// Every role, from the least to the most powerful.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Producer, Self::Worker, Self::Operator, Self::Admin];

    /// The word in JSON, on the command line and in messages.
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

/// Text that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a role: use viewer, producer, worker, operator or admin")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// A token to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NewToken))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its owner or purpose; shown in the audit journal.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Where it is valid; everywhere if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub namespaces: Option<Vec<String>>,
    /// Whether it may enqueue tasks that start programs; not for viewers and workers.
    #[serde(default)]
    pub may_exec: bool,
    /// Valid for this long, at most ten years; without expiry if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub expires_in_ms: Option<u64>,
}

/// A token's metadata; neither the token nor its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Identifies it, for revocation and in the audit journal.
    pub id: String,
    /// Its owner or purpose.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Where it is valid; everywhere if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Whether it may enqueue tasks that start programs.
    pub may_exec: bool,
    /// When it was created.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// The actor that created it, as in the audit journal.
    pub created_by: String,
    /// When it expires; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
}

/// A new token. The only response that contains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token itself; the server keeps a hash only.
    pub token: String,
    /// What later requests show of it.
    pub info: Token,
}

/// A one-time login for a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoginLink {
    /// Append it to the server's address. Logs one browser in, once, as the identity that requested it.
    pub path: String,
    /// The server's public address, if it is configured; otherwise use the address you called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// When the link expires.
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
