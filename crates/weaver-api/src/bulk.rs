//! Many tasks at once, by a filter.

use serde::{Deserialize, Serialize};

use super::Problem;

/// How to do it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BulkRequest {
    /// Only say how many tasks match.
    pub dry_run: bool,
}

/// What was done to the tasks of one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkAnswer {
    /// So many tasks of the page can be cancelled or retried.
    pub matched: u64,
    /// To so many it was done.
    pub done: u64,
    /// So many refused it, most often because they moved on meanwhile.
    pub refused: u64,
    /// Why the first of them did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// More may match: send the same request with this as `cursor`.
    pub next: Option<String>,
}
