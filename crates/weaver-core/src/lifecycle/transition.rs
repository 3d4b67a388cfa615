//! A decided transition: what a store writes if the record still has the version it was decided on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::id::{Epoch, LeaseToken, TaskKey, Version};
use crate::lifecycle::table::{self, Verb};
use crate::name::WorkerId;
use crate::task::{
    Assignment, AttemptOutcome, AttemptRecord, Cause, Continuation, HeldLease, ReadyBy, TaskRecord, TaskState,
};
use crate::time::Timestamp;

/// A transition that was decided and not yet applied. It carries no instant: when the store applies it, it
/// sets the timestamps and adds the delays by its own clock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a transition does nothing until a store commits it"]
pub struct Transition {
    /// The only record it may be applied to.
    pub key: TaskKey,
    /// The state it was decided on.
    pub from: TaskState,
    /// The version it was decided on. The store writes only if the record still has it.
    pub expected_version: Version,
    /// For lease expiry, the renewals it was decided on: with one more renewal the lease has not expired.
    pub expected_renewals: Option<u64>,
    /// For the end of an attempt, the leader's epoch it started under (0: it was pulled). The store compares
    /// it with the one in the lease, never with the current leader's.
    pub expected_epoch: Option<Epoch>,
    /// The token of the lease it was decided under; `None`: no worker held it.
    pub expected_token: Option<LeaseToken>,
    /// The command, as the table of allowed transitions names it.
    pub verb: Verb,
    /// The state after it is applied.
    pub to: TaskState,
    /// Why the task waits for a retry, died or was cancelled; `None` in other states.
    pub cause: Option<Cause>,
    /// Due this long after it is applied (a task that waits already: not later than before); `None`: its due
    /// time does not change.
    pub ready_after: Option<Duration>,
    /// The record's counters after it is applied.
    pub counters: Counters,
    /// Which worker holds it afterwards.
    pub holder: HolderChange,
    /// How the current attempt ended, if this ends it.
    pub attempt_ended: Option<AttemptOutcome>,
    /// The error of that attempt, bounded to [`ERROR_MAX_BYTES`](crate::outcome::ERROR_MAX_BYTES).
    pub error: Option<Arc<str>>,
    /// The handler's result, at most [`RESULT_MAX_BYTES`](crate::outcome::RESULT_MAX_BYTES).
    pub result: Option<Bytes>,
}

/// The counters of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// How often a handler was started.
    pub executions: u32,
    /// How often a handler failed or timed out; dead at `max_attempts`.
    pub failures: u32,
    /// How often its worker was lost; dead above `max_losses`.
    pub losses: u32,
    /// How often it was leased or assigned.
    pub attempt: u32,
}

/// What a transition does to the lease and the assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HolderChange {
    /// Both stay as they are.
    Keep,
    /// Both are removed: no worker holds it.
    Clear,
    /// The assignment is removed; the lease stays as the *cancellation hold* of a handler that has not
    /// stopped yet (G11).
    Hold,
    /// A worker gets a lease.
    Lease {
        /// The worker that becomes the holder.
        worker: WorkerId,
        /// The token by which the holder proves it.
        token: LeaseToken,
        /// The leader's epoch it starts under; 0 for pull.
        epoch: Epoch,
        /// How long each renewal lasts.
        ttl: Duration,
    },
    /// A leader assigns it to a worker.
    Assign {
        /// The only worker that may start it.
        worker: WorkerId,
        /// The leader's epoch when it decided.
        epoch: Epoch,
    },
}

impl Transition {
    /// A transition that changes the state and charges what its verb charges. The files of this module add
    /// the rest.
    pub(super) fn new(record: &TaskRecord, verb: Verb, to: TaskState, cause: Option<Cause>) -> Self {
        debug_assert!(
            table::allows(record.state, verb, to, cause),
            "{} -{verb:?}-> {to} {cause:?} is not in the table",
            record.state
        );
        let charge = verb.charge();
        Self {
            key: record.key.clone(),
            from: record.state,
            expected_version: record.version,
            expected_renewals: None,
            expected_epoch: record.lease.as_ref().map(|held| held.epoch),
            expected_token: record.lease.as_ref().map(|held| held.token),
            verb,
            to,
            cause,
            ready_after: None,
            counters: Counters {
                executions: record.executions + charge.executions,
                failures: record.failures + charge.failures,
                losses: record.losses + charge.losses,
                attempt: record.attempt + charge.attempt,
            },
            holder: HolderChange::Keep,
            attempt_ended: None,
            error: None,
            result: None,
        }
    }

    /// Whether it leases or assigns a waiting task. A store then checks again, in the same write, that the
    /// task is due, its queue not paused, its serial key free and a slot left.
    pub fn admits(&self) -> bool {
        self.from.is_waiting() && matches!(self.to, TaskState::Assigned | TaskState::Running)
    }

    /// Whether the record still is what this was decided on: the condition of the write.
    pub fn fits(&self, record: &TaskRecord) -> bool {
        record.key == self.key
            && record.version == self.expected_version
            && record.state == self.from
            && self.expected_renewals.is_none_or(|renewals| renewals == record.renewals)
            && self.expected_epoch == record.lease.as_ref().map(|held| held.epoch)
            && self.expected_token == record.lease.as_ref().map(|held| held.token)
    }

    /// Whether the record shows that this very transition was applied before: the response was lost, and the
    /// caller retried.
    pub fn is_already_applied(&self, record: &TaskRecord) -> bool {
        if record.key != self.key || record.version <= self.expected_version {
            return false;
        }
        if record.version == self.expected_version.next() {
            return record.state == self.to && record.cause == self.cause && self.holder_fits(record);
        }
        // The task has moved on since. Its attempts show whether it did so through this end.
        let ended_so = |attempt: &AttemptRecord| {
            attempt.fence == self.expected_version && Some(attempt.outcome) == self.attempt_ended
        };
        !self.to.is_terminal() && record.attempts.iter().any(ended_so)
    }

    fn holder_fits(&self, record: &TaskRecord) -> bool {
        match &self.holder {
            HolderChange::Lease { token, .. } => {
                record.lease.as_ref().is_some_and(|held| held.token == *token)
            }
            HolderChange::Assign { worker, epoch } => {
                let same = |given: &Assignment| given.worker == *worker && given.epoch == *epoch;
                record.assignment.as_ref().is_some_and(same)
            }
            HolderChange::Keep | HolderChange::Clear | HolderChange::Hold => true,
        }
    }

    /// Applies it. `now` is the store's clock. The caller has checked that it [`fits`](Self::fits).
    pub fn apply(self, record: &mut TaskRecord, now: Timestamp) {
        debug_assert!(self.fits(record), "{self:?} does not fit {record:?}");
        if let Some(outcome) = self.attempt_ended {
            end_attempt(record, outcome, self.error.clone(), now);
        }
        if self.error.is_some() {
            record.last_error = self.error;
        }
        if self.result.is_some() {
            record.result = self.result;
        }
        record.state = self.to;
        record.cause = self.cause;
        record.version = self.expected_version.next();
        record.updated_at = now;
        record.executions = self.counters.executions;
        record.failures = self.counters.failures;
        record.losses = self.counters.losses;
        record.attempt = self.counters.attempt;
        if record.ready_by == ReadyBy::Instant {
            // The instant has passed, or no longer matters: from here on the store's own time counts, by
            // which it may be in the future. A task that is leased must be due by that time too, should it be
            // released.
            record.ready_by = ReadyBy::Span;
            if self.to == TaskState::Running || self.to == TaskState::Assigned {
                record.ready_at = record.ready_at.min(now);
            }
        }
        if let Some(delay) = self.ready_after {
            let ready_at = now.saturating_add(delay);
            // A waiting task that is made due keeps its place in the order.
            record.ready_at = if self.from.is_waiting() { record.ready_at.min(ready_at) } else { ready_at };
        }
        if self.to.is_terminal() {
            record.finished_at = Some(now);
        }
        if self.from == TaskState::Running {
            record.continuation = Continuation::None;
        }
        apply_holder(record, self.holder, now);
    }
}

/// Adds the current attempt to the record's history, before lease and assignment are removed.
fn end_attempt(record: &mut TaskRecord, outcome: AttemptOutcome, error: Option<Arc<str>>, now: Timestamp) {
    let started_at = record.lease.as_ref().map(|held| held.started_at);
    let worker = match (&record.lease, &record.assignment) {
        (Some(held), _) => held.worker.clone(),
        (None, Some(given)) => given.worker.clone(),
        (None, None) => return,
    };
    record.attempts.push(AttemptRecord {
        attempt: record.attempt,
        worker,
        fence: record.version,
        started_at,
        ended_at: now,
        outcome,
        error,
    });
}

fn apply_holder(record: &mut TaskRecord, change: HolderChange, now: Timestamp) {
    match change {
        HolderChange::Keep => {}
        HolderChange::Clear => {
            record.lease = None;
            record.assignment = None;
        }
        HolderChange::Hold => record.assignment = None,
        HolderChange::Lease { worker, token, epoch, ttl } => {
            record.first_started_at.get_or_insert(now);
            record.progress = None;
            let expires_at = now.saturating_add(ttl);
            record.lease = Some(HeldLease { worker, token, epoch, started_at: now, expires_at, ttl });
        }
        HolderChange::Assign { worker, epoch } => {
            record.assignment = Some(Assignment { worker, epoch, assigned_at: now });
        }
    }
}
