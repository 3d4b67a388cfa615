//! Creates the record of a new task: Queued if it is due at once, Scheduled if it is due later.

use crate::admission;
use crate::error::{Invalid, Problem};
use crate::id::{TaskId, TaskKey, Version};
use crate::store_clock::StoreNow;
use crate::task::{Attempts, Continuation, ReadyBy, Start, TaskRecord, TaskState, ValidTask};
use crate::time::Timestamp;

/// The record of a new task, in a store with one clock. Fails only if its delay leads past
/// [`Timestamp::MAX`].
pub fn admit(task: ValidTask, id: TaskId, now: Timestamp) -> Result<TaskRecord, Invalid> {
    let record = admit_at(task, id, now.into())?;
    Ok(TaskRecord { ready_by: ReadyBy::Span, ..record })
}

/// The same in a store that tells durations from instants ([`StoreNow`]). A `run_at` that has passed by the
/// wall clock counts as a delay of zero, like no `run_at`: the task is due at once.
pub fn admit_at(task: ValidTask, id: TaskId, now: StoreNow) -> Result<TaskRecord, Invalid> {
    let StoreNow { steady: now, wall } = now;
    let (ready_at, ready_by) = match task.start {
        Start::At(instant) if !admission::is_due(instant, wall) => (instant, ReadyBy::Instant),
        Start::Now | Start::At(_) => (now, ReadyBy::Span),
        Start::After(delay) => {
            let overflow = || Invalid::new("delay", Problem::TimeOverflow { latest: Timestamp::MAX });
            (now.checked_add(delay).ok_or_else(overflow)?, ReadyBy::Span)
        }
    };
    let is_later = ready_by == ReadyBy::Instant || !admission::is_due(ready_at, now);
    let state = if is_later { TaskState::Scheduled } else { TaskState::Queued };
    Ok(TaskRecord {
        key: TaskKey::new(task.namespace, id).named(task.spec.origin().external_id.as_ref()),
        spec: task.spec,
        state,
        cause: None,
        version: Version(1),
        renewals: 0,
        executions: 0,
        failures: 0,
        losses: 0,
        attempt: 0,
        ready_at,
        ready_by,
        created_at: now,
        updated_at: now,
        first_started_at: None,
        finished_at: None,
        last_error: None,
        lease: None,
        assignment: None,
        continuation: Continuation::None,
        result: None,
        progress: None,
        attempts: Attempts::default(),
    })
}
