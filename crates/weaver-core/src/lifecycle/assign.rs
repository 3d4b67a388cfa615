//! Queued, Scheduled, RetryScheduled, Orphaned → Assigned: a leader assigns a due task to a worker
//! (seed 004).

use crate::id::Epoch;
use crate::lifecycle::lease::check_due;
use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::name::WorkerId;
use crate::store_clock::StoreNow;
use crate::task::{TaskRecord, TaskState};

pub(super) fn decide(
    record: &TaskRecord,
    worker: WorkerId,
    epoch: Epoch,
    now: StoreNow,
) -> Result<Transition, Refused> {
    let orphaned = record.state == TaskState::Orphaned;
    if !record.state.is_waiting() && !orphaned {
        return Err(Refused::NotAllowed { from: record.state, verb: Verb::Assign });
    }
    if orphaned && record.losses > record.spec.max_losses {
        return Err(Refused::LossBudgetSpent { max_losses: record.spec.max_losses });
    }
    check_due(record, now)?;
    let mut transition = Transition::new(record, Verb::Assign, TaskState::Assigned, None);
    transition.holder = HolderChange::Assign { worker, epoch };
    Ok(transition)
}
