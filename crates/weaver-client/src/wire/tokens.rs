//! Tokens: who may come in.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NewToken))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Whose it is, or what for.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Where; everywhere if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100))]
    pub namespaces: Option<Vec<String>>,
    /// Whether it may enqueue tasks that start programs.
    #[serde(default)]
    pub may_exec: bool,
    /// How long it is good, at most ten years; for ever if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315_360_000_000_i64))]
    #[serde(deserialize_with = "super::whole::optional")]
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
