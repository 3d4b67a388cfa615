//! What happened in a merge queue.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{MergeCheck, MergeReason};

/// Something that happened in a merge queue. Told at least once, in order; `key` tells a repetition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeEvent {
    /// `queue_entry_added`, `queue_entry_removed`, `pull_request_merged`, `base_moved_outside`,
    /// `queue_paused` or `queue_trouble`.
    pub event: String,
    /// In which queue.
    pub queue: String,
    /// The same for the same event, however often it is told.
    pub key: String,
    /// When it was told.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// Which entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// The change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Where it came to stand, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Why it left without landing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MergeReason>,
    /// Its checks, with every run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<MergeCheck>,
    /// Where the base is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What was tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// What goes wrong, why the queue paused, or what others did to the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
