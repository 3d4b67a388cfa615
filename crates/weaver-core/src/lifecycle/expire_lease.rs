//! Lease expiry, Running → RetryScheduled(lost) or Dead(lost): the worker did not renew its lease in time.
//!
//! Dead on loss number `max_losses + 1`. Until then due at once, without backoff: nothing says that the task
//! itself is at fault.

use std::time::Duration;

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::outcome::bounded_error;
use crate::task::{AttemptOutcome, Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
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
    // A record that runs without a lease was changed from outside. No worker can renew or finish it, so it is
    // lost like one whose lease expired; otherwise it would stay Running forever (G3).
    transition.error = Some(match &record.lease {
        Some(held) => bounded_error(&format!("lease expired: worker {} did not renew it", held.worker)),
        None => bounded_error("running without a lease; maintenance ended the attempt as lost"),
    });
    Ok(transition)
}
