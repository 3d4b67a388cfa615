//! Assigned → Orphaned: the worker it was assigned to disappeared. That counts as a loss, started or not
//! (G5).

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::task::{AttemptOutcome, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    if record.state != TaskState::Assigned {
        return Err(Refused::NotAllowed { from: record.state, verb: Verb::Orphan });
    }
    let mut transition = Transition::new(record, Verb::Orphan, TaskState::Orphaned, None);
    transition.attempt_ended = Some(AttemptOutcome::Orphaned);
    transition.holder = HolderChange::Clear;
    Ok(transition)
}
