//! The last attempts of a task: its history without reading logs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::Version;
use crate::name::WorkerId;
use crate::time::Timestamp;

/// How many attempts a record keeps; older ones are dropped, the counters are not.
pub const ATTEMPTS_KEPT: usize = 20;

/// One attempt that has ended. The current one is described by the record's lease or assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Its number, from 1.
    pub attempt: u32,
    /// The worker that held the lease or the assignment.
    pub worker: WorkerId,
    /// The fencing token: the record's version while it ran. It tells a repeated report of this end from a
    /// report of another attempt.
    pub fence: Version,
    /// When the handler started; `None` if an assignment ended before its start.
    pub started_at: Option<Timestamp>,
    /// When its end was recorded, by the store's clock.
    pub ended_at: Timestamp,
    /// One of the eight ways an attempt ends.
    pub outcome: AttemptOutcome,
    /// The error or message it ended with, if any; at most
    /// [`ERROR_MAX_BYTES`](crate::outcome::ERROR_MAX_BYTES).
    pub error: Option<Arc<str>>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The handler returned without an error.
    Succeeded,
    /// The handler returned an error or panicked.
    Failed,
    /// The handler took longer than the task's timeout.
    TimedOut,
    /// The lease expired without a report.
    Lost,
    /// The worker shut down and released it unharmed.
    Released,
    /// The handler asked to be called again later.
    Snoozed,
    /// The task was cancelled during the attempt.
    Cancelled,
    /// The worker it was assigned to disappeared before it started.
    Orphaned,
}

/// The last [`ATTEMPTS_KEPT`] attempts, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempts(Vec<AttemptRecord>);

impl Attempts {
    /// As a store kept them, oldest first; more than [`ATTEMPTS_KEPT`] lose the oldest.
    pub fn from_oldest_first(mut attempts: Vec<AttemptRecord>) -> Self {
        attempts.drain(..attempts.len().saturating_sub(ATTEMPTS_KEPT));
        Self(attempts)
    }

    /// Adds the newest; drops the oldest above [`ATTEMPTS_KEPT`].
    pub(crate) fn push(&mut self, attempt: AttemptRecord) {
        if self.0.is_empty() {
            // Most tasks have one attempt: do not reserve for four.
            self.0.reserve_exact(1);
        }
        if self.0.len() == ATTEMPTS_KEPT {
            self.0.remove(0);
        }
        self.0.push(attempt);
    }
}

impl std::ops::Deref for Attempts {
    type Target = [AttemptRecord];

    fn deref(&self) -> &[AttemptRecord] {
        &self.0
    }
}
