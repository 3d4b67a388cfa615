//! Assigned → Orphaned: the assignment is taken from its worker, which has not started it.
//!
//! A worker that fell silent counts as a loss (G5), except to a task that runs once: it has not begun, so
//! nothing was done twice (ADR-0024). A worker that drained, was detached, left, or did not start it in time
//! charges nothing.

use crate::lifecycle::{HolderChange, OrphanCause, Refused, Transition, Verb};
use crate::outcome::bounded_error;
use crate::task::{AttemptOutcome, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord, cause: OrphanCause) -> Result<Transition, Refused> {
    let is_loss = cause == OrphanCause::Silent && !record.spec.runs_once();
    let verb = if is_loss { Verb::Orphan } else { Verb::Recall };
    let given = match &record.assignment {
        Some(given) if record.state == TaskState::Assigned => given,
        _ => return Err(Refused::NotAllowed { from: record.state, verb }),
    };
    let mut transition = Transition::new(record, verb, TaskState::Orphaned, None);
    transition.attempt_ended = Some(AttemptOutcome::Orphaned);
    transition.holder = HolderChange::Clear;
    transition.error = Some(bounded_error(&format!("worker {} did not start it: {cause}", given.worker)));
    Ok(transition)
}
