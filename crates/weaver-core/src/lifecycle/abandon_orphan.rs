//! Orphaned → Dead(lost): its workers were lost more than `max_losses` times.

use crate::lifecycle::{Refused, Transition, Verb};
use crate::task::{Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    if record.state != TaskState::Orphaned {
        return Err(Refused::NotAllowed { from: record.state, verb: Verb::AbandonOrphan });
    }
    let max_losses = record.spec.max_losses;
    if record.losses <= max_losses {
        return Err(Refused::LossBudgetLeft { losses: record.losses, max_losses });
    }
    Ok(Transition::new(record, Verb::AbandonOrphan, TaskState::Dead, Some(Cause::Lost)))
}
