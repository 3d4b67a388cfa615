//! Pages, and the questions that are answered with them.

use serde::{Deserialize, Serialize};
use weaver_core::ports::Order;
use weaver_core::time::Timestamp;

use super::Task;

/// Part of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The `cursor` to go on with, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// `false` if the search was cut short before the page was full; go on with `next`.
    pub complete: bool,
}

/// One namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespaceItem {
    /// Its name.
    pub name: String,
}

/// Whether the server is well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`; `degraded` while maintenance keeps failing (`/readyz`): the server works, and nothing that a
    /// lost worker had is run again.
    pub status: String,
    /// The server's version.
    pub version: String,
    /// `/readyz`: the last jump of the clock that the store goes by, for an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_jumped: Option<ClockJumped>,
    /// `/readyz`: since when maintenance (lease expiry, retention) fails, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_failing: Option<MaintenanceFailing>,
}

/// Maintenance keeps failing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MaintenanceFailing {
    /// Since then.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
    /// So many rounds in a row.
    pub rounds: u32,
    /// The error of the last one.
    pub error: String,
}

/// The clock that a store goes by was set while the server ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClockJumped {
    /// By so many milliseconds; negative: back.
    pub by_ms: i64,
    /// What it said when that was seen.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub seen_at: Timestamp,
}

/// Which page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// The `next` of the page before.
    pub cursor: Option<String>,
    /// How many items at most; 50 if not given.
    pub limit: Option<u32>,
}

/// Where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct NamespaceQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
}

/// Where, and which page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct NamespacePageQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
    /// How many items at most; 50 if not given.
    pub limit: Option<u32>,
}

/// Which tasks. Everything given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ListTasksQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// In one of these states, separated by commas.
    #[cfg_attr(
        feature = "openapi",
        param(
            pattern = "^(queued|scheduled|assigned|orphaned|running|retry_scheduled|succeeded|dead|cancelled)(,(queued|scheduled|assigned|orphaned|running|retry_scheduled|succeeded|dead|cancelled))*$"
        )
    )]
    pub state: Option<String>,
    /// Of this type.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub task_type: Option<String>,
    /// Of this queue.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub queue: Option<String>,
    /// Of this task group.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub group: Option<String>,
    /// Of this session.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub session: Option<String>,
    /// With this label, as `name:value`.
    #[cfg_attr(feature = "openapi", param(pattern = "^[^:]+:"))]
    pub label: Option<String>,
    /// Created at or after.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub created_from: Option<Timestamp>,
    /// Created before.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub created_before: Option<Timestamp>,
    /// In which order of creation; newest first if not given.
    #[cfg_attr(feature = "openapi", param(inline))]
    pub order: Option<Order>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
    /// How many items at most; 50 if not given.
    pub limit: Option<u32>,
}

/// How long to wait for a task's end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// At most so long; the server's own limit (30 s unless set) if more or not given.
    #[cfg_attr(feature = "openapi", param(minimum = 0))]
    pub timeout_ms: Option<u64>,
}

/// What a wait for a task's end found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Waited {
    /// Whether it has ended; if not, ask again.
    pub ended: bool,
    /// The task as it is.
    pub task: Task,
}
