//! A new task enters: Queued if it may start at once, Scheduled if not before a time.

use crate::error::{Invalid, Problem};
use crate::id::{TaskId, TaskKey, Version};
use crate::task::{Attempts, Continuation, Start, TaskRecord, TaskState, ValidTask};
use crate::time::Timestamp;

/// The record of a new task. Fails only if its delay runs past the end of time.
pub fn admit(task: ValidTask, id: TaskId, now: Timestamp) -> Result<TaskRecord, Invalid> {
    let ready_at = match task.start {
        Start::Now => now,
        Start::At(instant) => instant.max(now),
        Start::After(delay) => now
            .checked_add(delay)
            .ok_or_else(|| Invalid::new("delay", Problem::TimeOverflow { latest: Timestamp::MAX }))?,
    };
    let state = if ready_at > now { TaskState::Scheduled } else { TaskState::Queued };
    Ok(TaskRecord {
        key: TaskKey::new(task.namespace, id),
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
