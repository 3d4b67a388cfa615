//! Queues, task groups and counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::ports;
use weaver_core::task::{Dispatch, TaskState};
use weaver_core::time::Timestamp;

use super::names::to_ms;

/// Tasks per state: every state's word with its count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = BTreeMap<String, u64>))]
#[serde(transparent)]
pub struct StateCounts(pub BTreeMap<TaskState, u64>);

impl From<&ports::StateCounts> for StateCounts {
    fn from(counts: &ports::StateCounts) -> Self {
        Self(counts.iter().collect())
    }
}

/// Tasks per state, and how current the counts are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Every state is listed, with 0 if it has none.
    pub states: StateCounts,
    /// How long the longest-waiting due task has waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_wait_ms: Option<u64>,
    /// When they were counted.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub as_of: Timestamp,
    /// `false`: estimates as of that time.
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

/// Which tasks to count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct CountsQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Only tasks of this queue.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub queue: Option<String>,
}

/// Selects the namespace and the page of queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct QueuesQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// The `next` of the previous page.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub cursor: Option<String>,
    /// Queues per page; default 1000.
    pub limit: Option<u32>,
}

/// One page of a namespace's queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queues {
    /// Sorted by their name.
    pub items: Vec<Queue>,
    /// The `cursor` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A queue: settings and load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queue {
    /// Unique in its namespace.
    pub name: String,
    /// Its tasks are not leased; running ones continue.
    pub paused: bool,
    /// Concurrency limit: tasks of the queue that may run at once; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// Whether workers pull its tasks or a leader assigns them.
    #[serde(default)]
    pub dispatch: Dispatch,
    /// The version of its settings; 0 if they were never set.
    pub version: u64,
    /// Slots of the concurrency limit in use.
    pub occupied: u64,
    /// Its tasks per state.
    pub counts: Counts,
}

/// Replaces all settings of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutQueue {
    /// Stop leasing its tasks; default `false`.
    #[serde(default)]
    pub paused: bool,
    /// Concurrency limit: tasks of the queue that may run at once; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub max_running: Option<u32>,
    /// Whether workers pull its tasks or a leader assigns them; default `pull`.
    #[serde(default)]
    pub dispatch: Dispatch,
    /// Write only if the settings still have this version (0: never set); absent: unconditionally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub expected_version: Option<u64>,
}

/// A queue's settings after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueVersion {
    /// Unique in its namespace.
    pub name: String,
    /// Whether its tasks are held back now.
    pub paused: bool,
    /// The concurrency limit now; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// Whether workers pull its tasks or a leader assigns them.
    #[serde(default)]
    pub dispatch: Dispatch,
    /// The version of these settings, for `expected_version`.
    pub version: u64,
}

/// A task group in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Group {
    /// The `task_group_id` of its tasks.
    pub id: String,
    /// Its tasks that are still stored, per state.
    pub counts: StateCounts,
    /// When one of them last changed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_at: Timestamp,
}
