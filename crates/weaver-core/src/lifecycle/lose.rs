//! Running → RetryScheduled(lost) or Dead(lost): the lease ran out, so its worker has vanished. Dead on loss
//! number `max_losses + 1`; until then due at once, as nothing says that the task itself is at fault.

use std::time::Duration;

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::outcome::bounded_error;
use crate::task::{AttemptOutcome, Cause, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    if record.state != TaskState::Running {
        return Err(Refused::NotAllowed { from: record.state, verb: Verb::Lose });
    }
    let last = record.losses >= record.spec.max_losses;
    let to = if last { TaskState::Dead } else { TaskState::RetryScheduled };
    let mut transition = Transition::new(record, Verb::Lose, to, Some(Cause::Lost));
    // A renewal that arrives between the finding and this write saves the lease.
    transition.expected_renewals = Some(record.renewals);
    transition.ready_after = (!last).then_some(Duration::ZERO);
    transition.attempt_ended = Some(AttemptOutcome::Lost);
    transition.holder = HolderChange::Nobody;
    // A record that runs without a lease was damaged from outside. No worker can renew or finish it: it is
    // lost like one whose lease expired, or it would run for ever (G3).
    transition.error = Some(match &record.lease {
        Some(held) => bounded_error(&format!("worker {} was lost: its lease ran out", held.worker)),
        None => bounded_error("it was running without a lease; maintenance released it"),
    });
    Ok(transition)
}
