//! Pages, the queries that ask for them, and health.

use serde::{Deserialize, Serialize};
use weaver_core::ports::Order;
use weaver_core::time::Timestamp;

use super::Task;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// In the order of the list; at most `limit`.
    pub items: Vec<T>,
    /// The `cursor` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// `false` if the search stopped before the page was full; continue with `next`.
    pub complete: bool,
}

/// A namespace that has something in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespaceItem {
    /// As requests give it.
    pub name: String,
}

/// Whether the server works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`; `degraded` while maintenance keeps failing (`/readyz`): requests are served, and expired leases
    /// are not reclaimed.
    pub status: String,
    /// The server's version, as `weaver --version` prints it.
    pub version: String,
    /// `/readyz`: the last jump of the store's clock, for an hour after it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_jumped: Option<ClockJumped>,
    /// `/readyz`: since when maintenance (lease expiry, retention) fails, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_failing: Option<MaintenanceFailing>,
}

/// Maintenance fails round after round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MaintenanceFailing {
    /// When the first failing round ended.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
    /// Failed rounds in a row.
    pub rounds: u32,
    /// The last round's error.
    pub error: String,
}

/// The clock that a store uses was set while the server ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClockJumped {
    /// Negative: it was set back.
    pub by_ms: i64,
    /// The new time when the server noticed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub seen_at: Timestamp,
}

/// Selects a page by cursor and size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// Items per page; default 50.
    pub limit: Option<u32>,
}

/// Selects the namespace of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct NamespaceQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
}

/// Selects the namespace and the page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct NamespacePageQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// Items per page; default 50.
    pub limit: Option<u32>,
}

/// Filters tasks. A task matches if every given filter does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ListTasksQuery {
    /// The namespace; `default` if absent.
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
    /// With exactly this task type.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub task_type: Option<String>,
    /// In exactly this queue.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub queue: Option<String>,
    /// In this task group (`task_group_id`).
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub group: Option<String>,
    /// In this session (`session_id`).
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub session: Option<String>,
    /// With this label, as `name=value`; the first `=` separates.
    #[cfg_attr(feature = "openapi", param(pattern = "^[^=]+="))]
    pub label: Option<String>,
    /// Created at or after this instant.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub created_from: Option<Timestamp>,
    /// Created before this instant, exclusive.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub created_before: Option<Timestamp>,
    /// By creation; default: newest first.
    #[cfg_attr(feature = "openapi", param(inline))]
    pub order: Option<Order>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// Items per page; default 50.
    pub limit: Option<u32>,
}

/// How long to wait for a task to finish.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// At most this long; capped by the server's limit (30 s unless configured), which is also the default.
    #[cfg_attr(feature = "openapi", param(minimum = 0))]
    pub timeout_ms: Option<u64>,
}

/// The task after a wait for its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Waited {
    /// Whether it is in a final state; if not, the wait timed out: repeat it.
    pub ended: bool,
    /// As of the end of the wait.
    pub task: Task,
}
