//! The document of a schedule.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weaver_core::id::{TaskId, Version};
use weaver_core::name::Namespace;
use weaver_core::ports::{Document, DocumentKey};
use weaver_core::time::Timestamp;

use super::{DEFINITION_KIND, Definition, DefinitionSpec, Notice, RUNS_SHOWN_MAX};
use crate::error::{Result, SchedulerError};

/// How long a decision is left to the node that made it; then any node finishes it.
pub(crate) const UNFINISHED_GRACE: Duration = Duration::from_secs(2);

/// The body of a schedule's document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) spec: DefinitionSpec,
    pub(crate) created_at: Timestamp,
    /// The version that clients see. Absent after a client's write: it is the document's version then. A fire
    /// stores it, so that it stays the same while the document's version grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<Version>,
    #[serde(default)]
    pub(crate) state: State,
}

/// The scheduler's state of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) next_fire_at: Option<Timestamp>,
    pub(crate) last_fire_at: Option<Timestamp>,
    /// Runs that were decided and may not be enqueued yet. Nothing else is decided while there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pending: Vec<PendingRun>,
    /// Runs to cancel before the pending ones are enqueued.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) replaces: Vec<TaskId>,
    /// Notices that may not be in the journal yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notices: Vec<Notice>,
    /// The latest runs, newest last. The concurrency policy checks these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<TaskId>,
    /// Events with a decision that may not be marked as processed yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) decided_events: Vec<String>,
    pub(crate) last_notice: Option<Notice>,
}

/// A run that was decided and is to be enqueued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingRun {
    /// Its idempotency key: it is one task however often it is enqueued.
    pub(crate) key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scheduled_for: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<String>,
}

impl State {
    /// Whether a decision has not been carried out yet.
    pub(crate) fn is_unfinished(&self) -> bool {
        !(self.pending.is_empty() && self.replaces.is_empty() && self.notices.is_empty())
    }

    pub(crate) fn push_run(&mut self, run: TaskId) {
        self.runs.retain(|known| *known != run);
        self.runs.push(run);
        let excess = self.runs.len().saturating_sub(RUNS_SHOWN_MAX);
        self.runs.drain(..excess);
    }
}

impl Stored {
    pub(crate) fn new(spec: DefinitionSpec, created_at: Timestamp) -> Self {
        Self { spec, created_at, version: None, state: State::default() }
    }

    pub(crate) fn key(namespace: &Namespace, name: &str) -> DocumentKey {
        DocumentKey::new(namespace.clone(), DEFINITION_KIND, name)
    }

    pub(crate) fn read(document: &Document) -> Result<Self> {
        serde_json::from_slice(&document.body).map_err(|error| SchedulerError::Unreadable {
            what: format!("schedule `{}` of namespace `{}`", document.key.id, document.key.namespace),
            reason: error.to_string(),
        })
    }

    /// Stores the version that clients see, before a write by a fire.
    pub(crate) fn pin_version(mut self, document: &Document) -> Self {
        self.version.get_or_insert(document.version);
        self
    }

    pub(crate) fn body(&self) -> Result<Bytes> {
        serde_json::to_vec(self).map(Bytes::from).map_err(|error| SchedulerError::Unreadable {
            what: "a schedule".to_owned(),
            reason: error.to_string(),
        })
    }

    /// When the document is due: soon while a decision is unfinished, otherwise at the next fire.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        if self.state.is_unfinished() {
            return Some(now.saturating_add(UNFINISHED_GRACE));
        }
        self.state.next_fire_at
    }

    pub(crate) fn definition(self, key: &DocumentKey, version: Version, updated_at: Timestamp) -> Definition {
        Definition {
            namespace: key.namespace.clone(),
            name: key.id.clone(),
            version: self.version.unwrap_or(version),
            spec: self.spec,
            next_fire_at: self.state.next_fire_at,
            last_fire_at: self.state.last_fire_at,
            last_runs: self.state.runs,
            last_notice: self.state.last_notice,
            created_at: self.created_at,
            updated_at,
        }
    }
}
