//! Running → RetryScheduled(timed out) or Dead(timed out): the handler took longer than the task's timeout.
//! It is charged like a failure.

use crate::lifecycle::fail::{charge, next_delay};
use crate::lifecycle::{Refused, Transition, Verb};
use crate::outcome::Retry;
use crate::task::{AttemptOutcome, Cause, TaskRecord};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    let error = match record.spec.timeout {
        Some(timeout) => format!("timed out after {timeout:?}"),
        None => "timed out".to_owned(),
    };
    let delay = next_delay(record, Retry::ByPolicy);
    Ok(charge(record, Verb::TimeOut, Cause::TimedOut, AttemptOutcome::TimedOut, &error, delay))
}
