//! Scheduled, RetryScheduled → itself, due now, on a user's request.

use std::time::Duration;

use crate::lifecycle::{Refused, Transition, Verb};
use crate::task::{TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    if !matches!(record.state, TaskState::Scheduled | TaskState::RetryScheduled) {
        return Err(Refused::NotAllowed { from: record.state, verb: Verb::RunNow });
    }
    let mut transition = Transition::new(record, Verb::RunNow, record.state, record.cause);
    transition.ready_after = Some(Duration::ZERO);
    Ok(transition)
}
