//! Live events of tasks, and the audit journal.

use serde::{Deserialize, Serialize};
use weaver_core::event;
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

/// The name of an event that carries a [`Change`].
pub const EVENT_CHANGE: &str = "change";
/// The name of the event for a gap: more happened than the server remembers; re-read the tasks you follow.
pub const EVENT_RESYNC: &str = "resync";
/// The name of a stream's last event, with `reason`, `detail` and `hint` as data.
pub const EVENT_END: &str = "end";

/// Which events to stream: those after `Last-Event-ID`, or from now on without that header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
}

/// A task changed its state. Delivered at least once, in order per task; a repeated `version` is a duplicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    /// The namespace of the task.
    pub namespace: String,
    /// The id of the task.
    pub id: String,
    /// The task's version after the change.
    pub version: u64,
    /// The task's state after the change.
    pub state: TaskState,
    /// When the store made the change.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
}

impl From<&event::Change> for Change {
    fn from(change: &event::Change) -> Self {
        Self {
            namespace: change.key.namespace.to_string(),
            id: change.key.shown_id().to_string(),
            version: change.version.0,
            state: change.state,
            at: change.at,
        }
    }
}

/// Selects a part of a namespace's audit journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Entries after this `seq`; the newest entries if absent.
    pub after: Option<u64>,
    /// Entries per page; default 50.
    pub limit: Option<u32>,
}

/// One page of the audit journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// At most `limit`, oldest first.
    pub entries: Vec<AuditEntry>,
    /// The `after` of the next page.
    pub next: u64,
    /// Whether the next page already has entries.
    pub more: bool,
}

/// One audited change or denial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Counted from 1, per namespace.
    pub seq: u64,
    /// When the store recorded it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The token's name and id, or the local user.
    pub actor: String,
    /// `task.enqueue`, `task.cancel`, `queue.pause`, …
    pub action: String,
    /// The object, such as `task/17` or `queue/mail`.
    pub target: String,
    /// What changed, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
