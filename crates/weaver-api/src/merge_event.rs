//! Events of a merge queue.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{MergeCheck, MergeReason};

/// An event of a merge queue. Delivered at least once, in order; a repeated `key` is a duplicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeEvent {
    /// `queue_entry_added`, `queue_entry_removed`, `pull_request_merged`, `base_moved_outside`,
    /// `queue_paused`, `queue_trouble` or `queue_removed`, after which the stream ends.
    pub event: String,
    /// The id of the queue.
    pub queue: String,
    /// Identifies the event across deliveries.
    pub key: String,
    /// When it was recorded.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The number of the entry that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// On plain git, the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The commit that the entry is pinned to; absent in events of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The subject that enqueued the entry; absent in events of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_by: Option<String>,
    /// The entry's position in the queue, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Why the entry left without landing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MergeReason>,
    /// The entry's checks, with every run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<MergeCheck>,
    /// The base commit after the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The tree that was tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The error, why the queue paused, what moved the base, or who removed the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
