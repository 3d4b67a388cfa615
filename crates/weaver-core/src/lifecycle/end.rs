//! Decides a worker's report of an attempt's end.
//!
//! The report becomes a transition to commit, or it is answered without a write: it was recorded before, its
//! lease was lost, or its result is too large. Pure; the protocol around it (read, decide, commit, read back)
//! is [`queue::finish`](crate::queue::finish).

use std::time::Duration;

use crate::lease::Lease;
use crate::lifecycle::{Command, Refused, Transition, decide, fail, was_committed};
use crate::outcome::{Outcome, Retry};
use crate::task::{AttemptOutcome, CancelReason, Cause, TaskRecord, TaskState};

/// The answer to a reported end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The end is recorded, by this report or by an earlier one with the same content.
    Recorded {
        /// The state to which this end led.
        state: TaskState,
        /// How long until the task is due, if it is to run again; `None` too for an end recorded earlier
        /// whose task has moved on since.
        due_after: Option<Duration>,
    },
    /// Fencing: the lease was lost or the task cancelled, and the report changed nothing.
    Lost,
    /// The result is too large to keep, and nothing is recorded: report a failure instead.
    ResultTooLarge {
        /// Size of the result in bytes.
        bytes: usize,
        /// The limit in bytes, [`RESULT_MAX_BYTES`](crate::outcome::RESULT_MAX_BYTES).
        max_bytes: usize,
    },
}

/// What to do about a reported end.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "an end that is neither committed nor answered is lost"]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are `Commit`, and moved at once: a box would cost each"
)]
pub enum EndDecision {
    /// The lease is valid: commit this.
    Commit(Transition),
    /// Answer this without a write.
    Answer(Ended),
}

/// Decides a reported end on a record of its task: the one that was leased, or one read since.
///
/// Only the lease's own worker may report: besides token, version and epoch, which [`decide`] compares, the
/// worker's id must be the one in the record.
pub fn decide_end(record: &TaskRecord, lease: &Lease, outcome: &Outcome) -> EndDecision {
    if let Some(answer) = recorded_before(record, lease, outcome) {
        return EndDecision::Answer(answer);
    }
    if record.lease.as_ref().is_some_and(|held| held.worker != lease.worker) {
        return EndDecision::Answer(Ended::Lost);
    }
    let command = Command::Finish { lease: lease.clone(), outcome: outcome.clone() };
    // No outcome depends on the time; this is the latest store time known here.
    match decide(record, command, record.updated_at) {
        Ok(transition) => EndDecision::Commit(transition),
        Err(Refused::ResultTooLarge { bytes, max_bytes }) => {
            EndDecision::Answer(Ended::ResultTooLarge { bytes, max_bytes })
        }
        Err(_) => EndDecision::Answer(Ended::Lost),
    }
}

/// The answer to a report whose end the record already shows: the earlier response was lost, or the handler
/// ended the task in its own transaction.
pub(crate) fn recorded_before(record: &TaskRecord, lease: &Lease, outcome: &Outcome) -> Option<Ended> {
    if *outcome == Outcome::Committed && was_committed(record, lease) {
        return Some(Ended::Recorded { state: TaskState::Succeeded, due_after: None });
    }
    if record.key != lease.key || !shows_end(record, lease, outcome) {
        return None;
    }
    if record.version != lease.version.next() {
        // Only a task that was to run again moves on.
        return Some(Ended::Recorded { state: TaskState::RetryScheduled, due_after: None });
    }
    let waits = record.state == TaskState::RetryScheduled;
    let due_after = waits.then(|| record.ready_at.since(record.updated_at));
    Some(Ended::Recorded { state: record.state, due_after })
}

/// Whether this very end was recorded before. A store recognises a repeated commit by
/// [`Transition::is_already_applied`]; this is the same rule for a caller that no longer has the record it
/// decided on.
fn shows_end(record: &TaskRecord, lease: &Lease, outcome: &Outcome) -> bool {
    let mut attempts = record.attempts.iter();
    let Some(attempt) = attempts.find(|attempt| attempt.fence == lease.version) else { return false };
    if attempt.worker != lease.worker || attempt.outcome != attempt_outcome(outcome) {
        return false;
    }
    let moved_on = record.version != lease.version.next();
    match outcome {
        // A fatal failure is a different end than one that was retried.
        Outcome::Failed { retry, .. } if moved_on => *retry != Retry::Never,
        Outcome::Failed { retry, .. } => leads_to(record, *retry) == record.state,
        Outcome::TimedOut | Outcome::Committed => {
            moved_on || leads_to(record, Retry::ByPolicy) == record.state
        }
        // Cancelled by a user, the attempt ended with the same word, but not by its handler's report.
        Outcome::Cancelled { .. } => record.cause == Some(Cause::Cancelled(CancelReason::Handler)),
        Outcome::Succeeded { .. } | Outcome::Snoozed { .. } | Outcome::Released => true,
    }
}

/// The state after the record's last failure, if the handler asked for this retry.
fn leads_to(record: &TaskRecord, retry: Retry) -> TaskState {
    match fail::delay_after(record, record.failures, retry) {
        Some(_) => TaskState::RetryScheduled,
        None => TaskState::Dead,
    }
}

/// How an attempt of this outcome is recorded. One reported as committed that was not is a failed attempt.
fn attempt_outcome(outcome: &Outcome) -> AttemptOutcome {
    match outcome {
        Outcome::Succeeded { .. } => AttemptOutcome::Succeeded,
        Outcome::Failed { .. } | Outcome::Committed => AttemptOutcome::Failed,
        Outcome::TimedOut => AttemptOutcome::TimedOut,
        Outcome::Snoozed { .. } => AttemptOutcome::Snoozed,
        Outcome::Cancelled { .. } => AttemptOutcome::Cancelled,
        Outcome::Released => AttemptOutcome::Released,
    }
}
