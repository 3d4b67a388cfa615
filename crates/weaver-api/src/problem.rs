//! What went wrong, as RFC 9457 has it.

use serde::{Deserialize, Serialize};

/// A problem document: `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A name for the kind of problem: `urn:weaver:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What programs go by: stable across versions.
    pub code: String,
    /// What was wrong, and where.
    pub detail: String,
    /// What to do about it.
    pub next: String,
    /// The field that was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The member of the batch that was wrong, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ({}, HTTP {}): {}", self.detail, self.code, self.status, self.next)
    }
}
