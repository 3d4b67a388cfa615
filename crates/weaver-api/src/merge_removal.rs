//! Removing a merge queue.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

/// The removal of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeRemoval {
    /// When it was requested.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The subject that requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Entries that are cancelled with it.
    pub entries: u64,
    /// Whether it is done. If not, the server continues by itself.
    pub complete: bool,
}

/// How a queue is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct RemoveMergeQuery {
    /// Whether open entries are cancelled; default `false`: they refuse the removal.
    pub cancel_entries: Option<bool>,
}
