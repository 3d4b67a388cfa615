//! The record: everything a store knows about one task.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::admission;
use crate::bytes_text;
use crate::id::{Epoch, LeaseToken, TaskKey, Version};
use crate::lease::Lease;
use crate::name::WorkerId;
use crate::outcome::cut;
use crate::store_clock::StoreNow;
use crate::task::{Attempts, Cause, TaskSpec, TaskState};
use crate::time::{Timestamp, duration_ms};

/// A task and how it is going. Only [`crate::lifecycle`] moves one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its identity.
    pub key: TaskKey,
    /// What was asked for; never changes.
    pub spec: Arc<TaskSpec>,
    /// Where it is in its life.
    pub state: TaskState,
    /// Why it waits again, died or was cancelled.
    pub cause: Option<Cause>,
    /// Grows with every transition, and only then.
    pub version: Version,
    /// Grows with every renewal, report of progress and continuation of a lease; never with a transition.
    pub renewals: u64,
    /// How often a handler was started.
    pub executions: u32,
    /// How often one failed or timed out.
    pub failures: u32,
    /// How often a worker vanished with it.
    pub losses: u32,
    /// How often it was leased or assigned.
    pub attempt: u32,
    /// When it became or becomes due: created, `run_at`, or the next start after a failure.
    pub ready_at: Timestamp,
    /// By which time it is due.
    #[serde(default, skip_serializing_if = "ReadyBy::is_span")]
    pub ready_by: ReadyBy,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last moved.
    pub updated_at: Timestamp,
    /// When it first started.
    pub first_started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What the last failed attempt reported.
    pub last_error: Option<Arc<str>>,
    /// Who runs it. On a cancelled task: the *hold* of a handler that has not yet confirmed that it stopped
    /// (G11).
    pub lease: Option<HeldLease>,
    /// Whom a leader gave it to.
    pub assignment: Option<Assignment>,
    /// Whether its worker is finding out if it may go on (seed 004).
    pub continuation: Continuation,
    /// What it returned.
    #[serde(with = "bytes_text::optional")]
    pub result: Option<Bytes>,
    /// How far it says it is. Boxed: few tasks say.
    pub progress: Option<Box<Progress>>,
    /// Its last attempts that ended.
    pub attempts: Attempts,
}

impl TaskRecord {
    /// When it will start next, if it waits for a time (seed 001).
    pub fn next_run_at(&self) -> Option<Timestamp> {
        matches!(self.state, TaskState::Scheduled | TaskState::RetryScheduled).then_some(self.ready_at)
    }

    /// The lease as its holder knows it, while the task runs.
    pub fn current_lease(&self) -> Option<Lease> {
        match (&self.lease, self.state) {
            (Some(held), TaskState::Running) => Some(held.lease(self, self.version)),
            _ => None,
        }
    }

    /// The lease of a handler that was told to stop and has not confirmed it.
    pub fn hold(&self) -> Option<Lease> {
        match (&self.lease, self.state) {
            // The cancellation moved the version once past the lease's.
            (Some(held), TaskState::Cancelled) => Some(held.lease(self, Version(self.version.0 - 1))),
            _ => None,
        }
    }

    /// Whether its handler was told to stop and has not confirmed it.
    pub fn has_hold(&self) -> bool {
        self.state == TaskState::Cancelled && self.lease.is_some()
    }

    /// Whether it takes one of its queue's slots.
    pub fn occupies_slot(&self) -> bool {
        admission::occupies_slot(self.state, self.lease.is_some())
    }

    /// Whether it holds its serial key: from its first start (or assignment) to its end, retries included.
    pub fn holds_key(&self) -> bool {
        let is_live = !self.state.is_terminal() || self.has_hold();
        let has_begun = admission::has_begun(self.is_unstarted(), self.state.is_waiting());
        self.spec.serial_key.is_some() && is_live && has_begun
    }

    /// Whether it counts against [`LeaseRequest::slots`](crate::lease::LeaseRequest::slots):
    /// [`admission::is_fragile`].
    pub fn is_fragile(&self) -> bool {
        admission::is_fragile(self.losses, self.spec.max_losses)
    }

    /// Whether it is due, if it waits: what came from a span by the store's own time, what named an instant
    /// by the wall clock.
    pub fn is_due(&self, now: StoreNow) -> bool {
        self.ready_by.is_due(self.ready_at, now)
    }

    /// Whether its `expires_at` has passed before its first start. It names an instant: `now` is the wall
    /// clock.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        !self.state.is_terminal() && admission::is_expired(self.is_unstarted(), now, self.spec.expires_at)
    }

    /// Whether it never started.
    pub fn is_unstarted(&self) -> bool {
        admission::is_unstarted(self.executions)
    }

    /// Whether it waits, its time has come and it has not expired: what is left is its queue and its serial
    /// key.
    pub fn is_startable(&self, now: StoreNow) -> bool {
        self.state.is_waiting() && self.is_due(now) && !self.is_expired(now.wall)
    }
}

/// By which time a waiting task is due. Memory and embedded have two (ADR-0043); where a store has one clock
/// for everything, it is always [`Span`](ReadyBy::Span).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadyBy {
    /// Its `ready_at` came from a span: a delay, a backoff, or none at all, which is a span of zero. The
    /// store's own time counts, so that it lasts as long as promised.
    #[default]
    Span,
    /// Its `ready_at` is the instant that was asked for (`run_at`). The wall clock counts.
    Instant,
}

impl ReadyBy {
    fn is_span(&self) -> bool {
        *self == Self::Span
    }

    /// Whether what is due at `ready_at` is due now.
    pub fn is_due(self, ready_at: Timestamp, now: StoreNow) -> bool {
        match self {
            Self::Span => admission::is_due(ready_at, now.steady),
            Self::Instant => admission::is_due(ready_at, now.wall),
        }
    }
}

/// A lease as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLease {
    /// Who holds it.
    pub worker: WorkerId,
    /// The holder's proof.
    pub token: LeaseToken,
    /// The leader's epoch it started under; 0 for pull.
    pub epoch: Epoch,
    /// When the handler was started.
    pub started_at: Timestamp,
    /// When it ends unless renewed, by the store's clock.
    pub expires_at: Timestamp,
    /// How long each renewal lasts.
    #[serde(with = "duration_ms", rename = "ttl_ms")]
    pub ttl: Duration,
}

impl HeldLease {
    fn lease(&self, record: &TaskRecord, version: Version) -> Lease {
        Lease {
            key: record.key.clone(),
            version,
            attempt: record.attempt,
            worker: self.worker.clone(),
            token: self.token,
            epoch: self.epoch,
            ttl: self.ttl,
        }
    }
}

/// A leader's decision who runs a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Who.
    pub worker: WorkerId,
    /// In which term of the leader.
    pub epoch: Epoch,
    /// When.
    pub assigned_at: Timestamp,
}

/// Whether a worker that was cut off is finding out if it may go on (seed 004, 1.2). The state stays Running:
/// nothing goes back, and nobody takes the task away before the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Continuation {
    /// Nothing is in doubt.
    #[default]
    None,
    /// In doubt until then; its lease lasts at least as long.
    Confirming {
        /// When the worker must have stopped or confirmed.
        check_deadline_at: Timestamp,
    },
}

/// How far a handler says it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f32,
    /// In words.
    pub message: String,
}

impl Progress {
    /// The longest message a record keeps.
    pub const MESSAGE_MAX_BYTES: usize = 1024;

    /// Within its bounds: progress is a courtesy, never a reason to refuse a renewal.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.fraction = if self.fraction.is_nan() { 0.0 } else { self.fraction.clamp(0.0, 1.0) };
        if self.message.len() > Self::MESSAGE_MAX_BYTES {
            self.message = cut(&self.message, Self::MESSAGE_MAX_BYTES);
        }
        self
    }
}
