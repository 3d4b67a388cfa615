//! A decided move: what a store writes if the record is still what it was decided on.

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

/// A move that was decided and not yet made. It carries no instant: delays are spans from, and stamps are set
/// at, the moment the store applies it, by the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a transition does nothing until a store commits it"]
pub struct Transition {
    /// The task.
    pub key: TaskKey,
    /// The state it was decided on.
    pub from: TaskState,
    /// The version it was decided on. The store writes only if the record still has it.
    pub expected_version: Version,
    /// For the expiry of a lease, the renewals it was decided on: one more renewal and nothing has expired.
    pub expected_renewals: Option<u64>,
    /// For the end of an attempt, the leader's epoch it started under (0: it was pulled). The store compares
    /// it with the one in the lease, never with the current leader's.
    pub expected_epoch: Option<Epoch>,
    /// What moves it.
    pub verb: Verb,
    /// Where to.
    pub to: TaskState,
    /// Why.
    pub cause: Option<Cause>,
    /// Due this long after it is applied (a task that waits already: not later than it was); `None`: due when
    /// it was.
    pub ready_after: Option<Duration>,
    /// The counters afterwards.
    pub counters: Counters,
    /// Who has it afterwards.
    pub holder: HolderChange,
    /// How the attempt under way ended, if it did.
    pub attempt_ended: Option<AttemptOutcome>,
    /// What that attempt reported.
    pub error: Option<Arc<str>>,
    /// What the task returned.
    pub result: Option<Bytes>,
}

/// The counters of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// How often a handler was started.
    pub executions: u32,
    /// How often one failed or timed out.
    pub failures: u32,
    /// How often a worker vanished.
    pub losses: u32,
    /// How often it was leased or assigned.
    pub attempt: u32,
}

/// What becomes of the lease and the assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HolderChange {
    /// They stay as they are.
    Keep,
    /// Neither is left.
    Nobody,
    /// The assignment ends; the lease stays as the *hold* of a handler that has yet to stop (G11).
    Hold,
    /// A worker gets a lease.
    Lease {
        /// Who.
        worker: WorkerId,
        /// Its proof.
        token: LeaseToken,
        /// The epoch it starts under; 0 for pull.
        epoch: Epoch,
        /// For how long.
        ttl: Duration,
    },
    /// A leader gives it to a worker.
    Assign {
        /// Who.
        worker: WorkerId,
        /// In which term.
        epoch: Epoch,
    },
}

impl Transition {
    /// A move that changes the state and charges what its verb charges. The files of this module add the
    /// rest.
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

    /// Whether it takes a waiting task into somebody's hands. A store then looks again, in the same write,
    /// whether the task is due, its queue open, its key free and a slot left.
    pub fn admits(&self) -> bool {
        self.from.is_waiting() && matches!(self.to, TaskState::Assigned | TaskState::Running)
    }

    /// Whether the record is what this was decided on.
    pub fn fits(&self, record: &TaskRecord) -> bool {
        record.key == self.key
            && record.version == self.expected_version
            && record.state == self.from
            && self.expected_renewals.is_none_or(|renewals| renewals == record.renewals)
            && self.expected_epoch == record.lease.as_ref().map(|held| held.epoch)
    }

    /// Whether the record shows that this very move was made before: its report got lost and it was sent
    /// again.
    pub fn is_already_applied(&self, record: &TaskRecord) -> bool {
        if record.key != self.key || record.version <= self.expected_version {
            return false;
        }
        if record.version == self.expected_version.next() {
            return record.state == self.to && record.cause == self.cause && self.holder_fits(record);
        }
        // The task has moved on since. Its attempts tell whether it did so through this end.
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
            HolderChange::Keep | HolderChange::Nobody | HolderChange::Hold => true,
        }
    }

    /// Makes the move. `now` is the store's clock. The caller has checked that it [`fits`](Self::fits).
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
            // The instant has come, or does not matter any more: from here on the store's own time counts, by
            // which it may lie ahead. A task that is taken is due by that time too, should it be given back.
            record.ready_by = ReadyBy::Span;
            if self.to == TaskState::Running || self.to == TaskState::Assigned {
                record.ready_at = record.ready_at.min(now);
            }
        }
        if let Some(delay) = self.ready_after {
            let ready_at = now.saturating_add(delay);
            // Whoever waits already and is made due does not lose its place in line.
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

/// Writes the attempt under way into the record's history, before lease and assignment are gone.
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
        HolderChange::Nobody => {
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
