//! Orphaned → RetryScheduled(released): there is no leader to assign it again, so any worker may pull it.
//! Due at once, charges nothing; its attempt was closed when it was orphaned.

use std::time::Duration;

use crate::lifecycle::{Refused, Transition, Verb};
use crate::task::{Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    if record.state != TaskState::Orphaned {
        return Err(Refused::NotAllowed { from: record.state, verb: Verb::ReleaseOrphan });
    }
    if record.losses > record.spec.max_losses {
        return Err(Refused::LossBudgetSpent { max_losses: record.spec.max_losses });
    }
    let to = TaskState::RetryScheduled;
    let mut transition = Transition::new(record, Verb::ReleaseOrphan, to, Some(Cause::Released));
    transition.ready_after = Some(Duration::ZERO);
    Ok(transition)
}
