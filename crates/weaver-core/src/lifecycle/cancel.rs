//! Anything that has not ended → Cancelled.
//!
//! A running handler learns of it from its next renewal, which a wake-up brings forward. Until it confirms
//! that it has stopped, its lease stays as the cancellation hold on serial key and slot (G11).

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::outcome::bounded_error;
use crate::task::{AttemptOutcome, CancelReason, Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord, reason: CancelReason) -> Result<Transition, Refused> {
    let to = TaskState::Cancelled;
    let mut transition = Transition::new(record, Verb::Cancel, to, Some(Cause::Cancelled(reason)));
    let running = record.state == TaskState::Running;
    transition.holder = if running { HolderChange::Hold } else { HolderChange::Clear };
    if running || record.state == TaskState::Assigned {
        transition.attempt_ended = Some(AttemptOutcome::Cancelled);
    }
    Ok(transition)
}

/// The handler cancels its own task: it has stopped, so there is no hold.
pub(super) fn decide_by_handler(record: &TaskRecord, message: &str) -> Result<Transition, Refused> {
    let mut transition = decide(record, CancelReason::Handler)?;
    transition.holder = HolderChange::Clear;
    transition.error = Some(bounded_error(message));
    Ok(transition)
}
