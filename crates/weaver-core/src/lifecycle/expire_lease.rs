//! Lease expiry, Running → RetryScheduled(lost) or Dead(lost): the worker did not renew its lease in time, or
//! its process is known to have ended.
//!
//! Dead on loss number `max_losses + 1`. Until then due at once, without backoff: nothing says that the task
//! itself is at fault.

use std::time::Duration;

use crate::id::ProcessId;
use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::outcome::bounded_error;
use crate::task::{AttemptOutcome, Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    // A record that runs without a lease was changed from outside. No worker can renew or finish it, so it is
    // lost like one whose lease expired; otherwise it would stay Running forever (G3).
    let error = match &record.lease {
        Some(held) => format!("lease expired: worker {} did not renew it", held.worker),
        None => "running without a lease; maintenance ended the attempt as lost".to_owned(),
    };
    lost(record, &error)
}

/// The same before the lease expires, only for a lease of that process.
pub(super) fn decide_ended(record: &TaskRecord, process: ProcessId) -> Result<Transition, Refused> {
    match &record.lease {
        Some(held) if record.state == TaskState::Running && held.token.process() != process => {
            Err(Refused::HeldElsewhere { worker: held.worker.clone() })
        }
        Some(held) => lost(record, &format!("the process of worker {} ended without a report", held.worker)),
        None => Err(Refused::NotAllowed { from: record.state, verb: Verb::ExpireLease }),
    }
}

fn lost(record: &TaskRecord, error: &str) -> Result<Transition, Refused> {
    if record.state != TaskState::Running {
        return Err(Refused::NotAllowed { from: record.state, verb: Verb::ExpireLease });
    }
    let last = record.losses >= record.spec.max_losses;
    let to = if last { TaskState::Dead } else { TaskState::RetryScheduled };
    let mut transition = Transition::new(record, Verb::ExpireLease, to, Some(Cause::Lost));
    // A renewal between reading the record and this write keeps the lease.
    transition.expected_renewals = Some(record.renewals);
    transition.ready_after = (!last).then_some(Duration::ZERO);
    transition.attempt_ended = Some(AttemptOutcome::Lost);
    transition.holder = HolderChange::Clear;
    transition.error = Some(bounded_error(error));
    Ok(transition)
}
