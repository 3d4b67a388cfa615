//! Running → RetryScheduled(failed) or Dead(failed): the handler returned an error.
//!
//! Dead on failure number `max_attempts`, on a fatal error, and when the policy allows no retry.

use std::time::Duration;

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::outcome::{Retry, bounded_error};
use crate::retry::DELAY_MAX;
use crate::task::{AttemptOutcome, Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord, error: &str, retry: Retry) -> Result<Transition, Refused> {
    let delay = next_delay(record, retry);
    Ok(charge(record, Verb::Fail, Cause::Failed, AttemptOutcome::Failed, error, delay))
}

/// The delay before the next start, or `None` if this failure is the last.
pub(super) fn next_delay(record: &TaskRecord, retry: Retry) -> Option<Duration> {
    delay_after(record, record.failures.saturating_add(1), retry)
}

/// The delay after failure number `failures`, or `None` if it is the last.
pub(super) fn delay_after(record: &TaskRecord, failures: u32, retry: Retry) -> Option<Duration> {
    if failures >= record.spec.max_attempts {
        return None;
    }
    match retry {
        Retry::Never => None,
        Retry::After(delay) => Some(delay.min(DELAY_MAX)),
        Retry::ByPolicy => record.spec.retry.delay(record.key.id, failures),
    }
}

/// Ends the attempt and charges a failure; a timeout differs only in verb, cause and error text.
pub(super) fn charge(
    record: &TaskRecord,
    verb: Verb,
    cause: Cause,
    outcome: AttemptOutcome,
    error: &str,
    delay: Option<Duration>,
) -> Transition {
    let to = if delay.is_some() { TaskState::RetryScheduled } else { TaskState::Dead };
    let mut transition = Transition::new(record, verb, to, Some(cause));
    transition.ready_after = delay;
    transition.attempt_ended = Some(outcome);
    transition.holder = HolderChange::Clear;
    transition.error = Some(bounded_error(error));
    transition
}
