//! Queues, groups and counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::ports;
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

use super::names::to_ms;

/// How many tasks are in each state: every state's word, and its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = BTreeMap<String, u64>))]
#[serde(transparent)]
pub struct StateCounts(pub BTreeMap<TaskState, u64>);

impl From<&ports::StateCounts> for StateCounts {
    fn from(counts: &ports::StateCounts) -> Self {
        Self(counts.iter().collect())
    }
}

/// Counts, and how good they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// The numbers.
    pub states: StateCounts,
    /// How long the longest-waiting task that could be leased has been due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_wait_ms: Option<u64>,
    /// When they were taken.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub as_of: Timestamp,
    /// Whether they are exact at that time.
    pub exact: bool,
}

impl From<&ports::Counts> for Counts {
    fn from(counts: &ports::Counts) -> Self {
        Self {
            states: (&counts.values).into(),
            oldest_wait_ms: counts.oldest_wait().map(to_ms),
            as_of: counts.as_of,
            exact: counts.exact,
        }
    }
}

/// Whose tasks to count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct CountsQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Only of this queue.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub queue: Option<String>,
}

/// Whose queues, and which page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct QueuesQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// The `next` of the page before.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub cursor: Option<String>,
    /// How many queues at most; 1000 if not given.
    pub limit: Option<u32>,
}

/// The queues of a namespace, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queues {
    /// The queues.
    pub items: Vec<Queue>,
    /// The cursor of the next page; absent: these are the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A queue as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Nothing is taken from it; what runs goes on.
    pub paused: bool,
    /// At most so many of its tasks are under way at once; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// The version of the settings; 0 if nothing was ever set.
    pub version: u64,
    /// How many of its slots are taken.
    pub occupied: u64,
    /// Its tasks.
    pub counts: Counts,
}

/// New settings of a queue: all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutQueue {
    /// Take nothing from it.
    #[serde(default)]
    pub paused: bool,
    /// At most so many of its tasks under way at once; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub max_running: Option<u32>,
    /// Write only over this version (0: only if nothing was ever set); absent: over anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub expected_version: Option<u64>,
}

/// The settings' version after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueVersion {
    /// The queue.
    pub name: String,
    /// Whether nothing is taken from it now.
    pub paused: bool,
    /// Its limit now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// The version now.
    pub version: u64,
}

/// A task group in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Group {
    /// The group.
    pub id: String,
    /// Its tasks that have not been purged.
    pub counts: StateCounts,
    /// When one of them last moved.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_at: Timestamp,
}
