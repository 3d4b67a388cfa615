//! Anything that has not started → Cancelled(expired): `expires_at` passed before the first start.

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::task::{AttemptOutcome, CancelReason, Cause, TaskRecord, TaskState};
use crate::time::Timestamp;

pub(super) fn decide(record: &TaskRecord, now: Timestamp) -> Result<Transition, Refused> {
    if !record.is_expired(now) {
        return Err(Refused::NotExpired);
    }
    let cause = Some(Cause::Cancelled(CancelReason::Expired));
    let mut transition = Transition::new(record, Verb::Expire, TaskState::Cancelled, cause);
    if record.state == TaskState::Assigned {
        transition.attempt_ended = Some(AttemptOutcome::Cancelled);
    }
    transition.holder = HolderChange::Clear;
    Ok(transition)
}
