//! Errors as problem documents (RFC 9457).

use serde::{Deserialize, Serialize};

/// A problem document: `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:weaver:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason phrase of the HTTP status.
    pub title: String,
    /// The HTTP status code.
    pub status: u16,
    /// For programs: stable across versions.
    pub code: String,
    /// For people: what failed, which object, and why.
    pub detail: String,
    /// What to do next.
    pub hint: String,
    /// The field that was invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The invalid member of a batch, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ({}, HTTP {}): {}", self.detail, self.code, self.status, self.hint)
    }
}
