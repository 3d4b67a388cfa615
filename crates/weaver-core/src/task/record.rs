//! The record: everything a store keeps about one task.

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

/// A task with its state. Only [`crate::lifecycle`] changes the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Namespace and id; assigned by the store when it is enqueued.
    pub key: TaskKey,
    /// What was submitted; never changes.
    pub spec: Arc<TaskSpec>,
    /// Changed only by a [`Transition`](crate::lifecycle::Transition).
    pub state: TaskState,
    /// Why it is retried, dead or cancelled; `None` in other states.
    pub cause: Option<Cause>,
    /// Grows with every transition, and only then: the fencing token of its leases.
    pub version: Version,
    /// Grows with every renewal, report of progress and continuation of a lease; never with a transition.
    pub renewals: u64,
    /// How often a handler was started.
    pub executions: u32,
    /// How often a handler failed or timed out; dead at `max_attempts`.
    pub failures: u32,
    /// How often its worker was lost; dead above `max_losses`.
    pub losses: u32,
    /// How often it was leased or assigned.
    pub attempt: u32,
    /// When it is or was due: its creation, its `run_at`, or the next attempt after a failure.
    pub ready_at: Timestamp,
    /// Which clock `ready_at` is compared with.
    #[serde(default, skip_serializing_if = "ReadyBy::is_span")]
    pub ready_by: ReadyBy,
    /// When it was enqueued, by the store's clock.
    pub created_at: Timestamp,
    /// When its last transition was applied, by the store's clock.
    pub updated_at: Timestamp,
    /// When the first attempt started; `None` until then.
    pub first_started_at: Option<Timestamp>,
    /// When it reached a terminal state; `None` until then.
    pub finished_at: Option<Timestamp>,
    /// The error of the last failed attempt, cut to [`ERROR_MAX_BYTES`](crate::outcome::ERROR_MAX_BYTES).
    pub last_error: Option<Arc<str>>,
    /// The lease of the worker that runs it. On a cancelled task: the *cancellation hold* of a handler that
    /// has not confirmed that it stopped (G11).
    pub lease: Option<HeldLease>,
    /// The worker to which a leader assigned it; kept while it runs.
    pub assignment: Option<Assignment>,
    /// Whether its worker is confirming that it may continue (seed 004).
    pub continuation: Continuation,
    /// What the handler returned; only of a task that succeeded.
    #[serde(with = "bytes_text::optional")]
    pub result: Option<Bytes>,
    /// The progress its handler reported in this attempt. Boxed: few handlers report any.
    pub progress: Option<Box<Progress>>,
    /// The last [`ATTEMPTS_KEPT`](crate::task::ATTEMPTS_KEPT) attempts that ended.
    pub attempts: Attempts,
}

impl TaskRecord {
    /// When it is due, if it waits for a time (seed 001).
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

    /// The worker that has it: that runs it, or to which it is assigned.
    pub fn holder(&self) -> Option<&WorkerId> {
        match self.state {
            TaskState::Running => self.lease.as_ref().map(|held| &held.worker),
            TaskState::Assigned => self.assignment.as_ref().map(|given| &given.worker),
            _ => None,
        }
    }

    /// The id that people and other clients know: as another client wrote it, or the number.
    pub fn shown_id(&self) -> String {
        match &self.spec.origin().external_id {
            Some(name) => name.to_string(),
            None => self.key.id.to_string(),
        }
    }

    /// The cancellation hold: the lease of a cancelled task whose handler has not confirmed that it stopped.
    pub fn hold(&self) -> Option<Lease> {
        match (&self.lease, self.state) {
            // The cancellation moved the version once past the lease's.
            (Some(held), TaskState::Cancelled) => Some(held.lease(self, Version(self.version.0 - 1))),
            _ => None,
        }
    }

    /// Whether it has a cancellation [`hold`](Self::hold).
    pub fn has_hold(&self) -> bool {
        self.state == TaskState::Cancelled && self.lease.is_some()
    }

    /// Whether it counts against its queue's concurrency limit: [`admission::occupies_slot`].
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

    /// Whether it is due, if it waits: a delay or backoff by the store's own time, a `run_at` by the wall
    /// clock.
    pub fn is_due(&self, now: StoreNow) -> bool {
        self.ready_by.is_due(self.ready_at, now)
    }

    /// Whether its `expires_at` has passed before its first start. It names an instant: `now` is the wall
    /// clock.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        !self.state.is_terminal() && admission::is_expired(self.is_unstarted(), now, self.spec.expires_at)
    }

    /// Whether no handler was ever started for it.
    pub fn is_unstarted(&self) -> bool {
        admission::is_unstarted(self.executions)
    }

    /// Whether it waits, is due and has not expired; its queue and its serial key may still block it.
    pub fn is_startable(&self, now: StoreNow) -> bool {
        self.state.is_waiting() && self.is_due(now) && !self.is_expired(now.wall)
    }
}

/// Which clock decides that a waiting task is due. The memory and embedded stores have two (ADR-0043); in a
/// store with one clock for everything it is always [`Span`](ReadyBy::Span).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadyBy {
    /// Its `ready_at` came from a duration: a delay, a backoff, or none at all. The store's own time counts,
    /// so that a jump of the wall clock neither shortens nor prolongs it.
    #[default]
    Span,
    /// Its `ready_at` is a requested instant (`run_at`). The wall clock counts.
    Instant,
}

impl ReadyBy {
    fn is_span(&self) -> bool {
        *self == Self::Span
    }

    /// Whether `ready_at` has passed by the clock that counts.
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
    /// The worker that holds it.
    pub worker: WorkerId,
    /// The token by which the holder proves it.
    pub token: LeaseToken,
    /// The leader's epoch it started under; 0 for pull.
    pub epoch: Epoch,
    /// When the lease was granted, by the store's clock.
    pub started_at: Timestamp,
    /// When it expires unless renewed, by the store's clock.
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

/// A leader's decision which worker runs a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The only worker that may start it.
    pub worker: WorkerId,
    /// The leader's epoch when it decided.
    pub epoch: Epoch,
    /// When it was applied, by the store's clock.
    pub assigned_at: Timestamp,
}

/// Whether a worker that was cut off is confirming that it may continue (seed 004, 1.2). The state stays
/// Running, and the lease does not expire before the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Continuation {
    /// The worker may continue.
    #[default]
    None,
    /// The worker is confirming; the lease lasts at least until the deadline.
    Confirming {
        /// By then the worker must have stopped or confirmed.
        check_deadline_at: Timestamp,
    },
}

/// The progress that a handler reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The completed part, from 0 to 1.
    pub fraction: f32,
    /// For people; at most [`MESSAGE_MAX_BYTES`](Self::MESSAGE_MAX_BYTES) bytes.
    pub message: String,
}

impl Progress {
    /// The longest message a record keeps.
    pub const MESSAGE_MAX_BYTES: usize = 1024;

    /// Clamps the fraction and cuts the message: invalid progress is no reason to refuse a renewal.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.fraction = if self.fraction.is_nan() { 0.0 } else { self.fraction.clamp(0.0, 1.0) };
        if self.message.len() > Self::MESSAGE_MAX_BYTES {
            self.message = cut(&self.message, Self::MESSAGE_MAX_BYTES);
        }
        self
    }
}
