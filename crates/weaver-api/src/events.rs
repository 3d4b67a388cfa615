//! What happened: live events, and the audit journal.

use serde::{Deserialize, Serialize};
use weaver_core::event;
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

/// The name of an event that carries a [`Change`].
pub const EVENT_CHANGE: &str = "change";
/// The name of the event that says: more happened than is remembered; read the tasks you care about again.
pub const EVENT_RESYNC: &str = "resync";
/// The name of a stream's last event: why it ends, as `reason`, `detail` and `next`.
pub const EVENT_END: &str = "end";

/// Which events. `Last-Event-ID` says after which; without it: from now on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
}

/// A task moved. Told at least once, in order per task; `version` tells a repetition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    /// The task's namespace.
    pub namespace: String,
    /// The task's id.
    pub id: String,
    /// Its version after the move.
    pub version: u64,
    /// Its state after the move.
    pub state: TaskState,
    /// When it moved.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
}

impl From<&event::Change> for Change {
    fn from(change: &event::Change) -> Self {
        Self {
            namespace: change.key.namespace.to_string(),
            id: change.key.id.to_string(),
            version: change.version.0,
            state: change.state,
            at: change.at,
        }
    }
}

/// Which part of a namespace's audit journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// After the entry of this number; the last entries if not given.
    pub after: Option<u64>,
    /// How many at most; 50 if not given.
    pub limit: Option<u32>,
}

/// Part of the audit journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// The entries, oldest first.
    pub entries: Vec<AuditEntry>,
    /// The `after` to go on with.
    pub next: u64,
    /// Whether there are more already.
    pub more: bool,
}

/// A change somebody made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Its number, from 1.
    pub seq: u64,
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// What: `task.enqueue`, `task.cancel`, `queue.pause`, …
    pub action: String,
    /// To what.
    pub target: String,
    /// In short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
