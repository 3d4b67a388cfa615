//! Running → RetryScheduled(released): the worker shuts down and releases the task. Due at once, charges
//! nothing.

use std::time::Duration;

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::task::{AttemptOutcome, Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    let to = TaskState::RetryScheduled;
    let mut transition = Transition::new(record, Verb::Release, to, Some(Cause::Released));
    transition.ready_after = Some(Duration::ZERO);
    transition.attempt_ended = Some(AttemptOutcome::Released);
    transition.holder = HolderChange::Clear;
    Ok(transition)
}
