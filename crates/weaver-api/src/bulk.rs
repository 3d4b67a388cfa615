//! Bulk cancel and retry: tasks by a filter, page by page.

use serde::{Deserialize, Serialize};

use super::Problem;

/// Options of a bulk action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BulkRequest {
    /// Count the matching tasks and change nothing.
    pub dry_run: bool,
}

/// What happened to the tasks of one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkResult {
    /// Tasks of the page that the action applies to.
    pub matched: u64,
    /// Tasks that were cancelled, or retried as a new task.
    pub changed: u64,
    /// Tasks that refused the action, usually because their state changed meanwhile.
    pub refused: u64,
    /// Why the first of those refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// More may match: repeat the request with this as `cursor`.
    pub next: Option<String>,
}
