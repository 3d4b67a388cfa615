//! Why an entry of a merge queue left without landing.

use serde::{Deserialize, Serialize};

/// Why an entry left without landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeReason {
    /// `conflicted`, `checks_failed`, `unusable` (it cannot be checked out), `hook_declined`, `head_changed`,
    /// `invalid_config`, `already_merged`, `merged_outside`, `closed`, `branch_deleted`, `retargeted`,
    /// `draft`, `trigger_removed`, `cancelled` or `queue_removed` (the queue was removed with its entries).
    pub reason: String,
    /// The conflicting files, the failed checks, the message of git or of a hook, the new head, or what is
    /// wrong with the configuration.
    pub details: Vec<String>,
    /// Of a conflict: the landings of this queue that last changed the conflicting files, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collides_with: Vec<MergeLanded>,
}

/// A change that landed through the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeLanded {
    /// The number of its entry.
    pub entry: u64,
    /// On plain git, the branch.
    pub change: String,
    /// The merge commit that landed.
    pub commit: String,
}
