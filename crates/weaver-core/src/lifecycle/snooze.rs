//! Running → RetryScheduled(snoozed): the handler asks to be called again later. Charges nothing.

use std::time::Duration;

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::retry::DELAY_MAX;
use crate::task::{AttemptOutcome, Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord, delay: Duration) -> Result<Transition, Refused> {
    let to = TaskState::RetryScheduled;
    let mut transition = Transition::new(record, Verb::Snooze, to, Some(Cause::Snoozed));
    transition.ready_after = Some(delay.min(DELAY_MAX));
    transition.attempt_ended = Some(AttemptOutcome::Snoozed);
    transition.holder = HolderChange::Clear;
    Ok(transition)
}
