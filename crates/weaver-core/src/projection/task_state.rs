//! Seed 001 (Rust task queue): `TaskState`, the words of the queue.
//!
//! Five of them are Weaver's own states. The states that the seed does not have (assignment and delayed first
//! starts are out of its scope) map to the nearest one.

use crate::projection::{Addition, addition};
use crate::task::{TaskRecord, TaskState};

words! {
    /// The seed's `TaskState`, with our `Cancelled`.
    State, "state" {
        /// Waiting for a start, or assigned to a worker that has not started it.
        Queued = "Queued",
        /// A worker runs its handler.
        Running = "Running",
        /// The handler returned without an error.
        Succeeded = "Succeeded",
        /// Waiting until `next_run_at` for a retry.
        RetryScheduled = "RetryScheduled",
        /// Failed permanently: no attempts are left.
        Dead = "Dead",
        /// Added by Weaver: the seed cannot cancel a task.
        Cancelled = "Cancelled",
    }
}

/// The seed's transitions. It has no table; these are the steps of its worker flow (dequeue, then Running,
/// then one of three) and its rule that a `RetryScheduled` task is dequeued again from `next_run_at` on.
pub const ALLOWED: &[(State, State)] = &[
    (State::Queued, State::Running),
    (State::Running, State::Succeeded),
    (State::Running, State::RetryScheduled),
    (State::Running, State::Dead),
    (State::RetryScheduled, State::Running),
];

/// What Weaver adds to it.
pub const ADDITIONS: &[Addition<State>] = &[
    addition(
        State::Queued,
        State::Cancelled,
        "users, schedules and `expires_at` cancel tasks (as in seed 000)",
    ),
    addition(State::Running, State::Cancelled, "users, schedules and handlers cancel tasks (as in seed 000)"),
    addition(State::RetryScheduled, State::Cancelled, "a task that waits for a retry can be cancelled"),
    addition(
        State::RetryScheduled,
        State::Queued,
        "a leader assigned a due retry to a worker: it waits only for that worker to start it",
    ),
    addition(
        State::Queued,
        State::RetryScheduled,
        "an orphaned retry was released, because there has been no leader for long",
    ),
    addition(
        State::Queued,
        State::Dead,
        "every worker it was assigned to disappeared before starting it, until `max_losses` was exceeded",
    ),
];

/// Whether a state may follow another, by the seed's flow or our additions.
pub fn allows(from: State, to: State) -> bool {
    ALLOWED.contains(&(from, to)) || ADDITIONS.iter().any(|more| (more.from, more.to) == (from, to))
}

impl State {
    /// The word for a record.
    pub const fn of(record: &TaskRecord) -> Self {
        Self::project(record.state, record.executions > 0)
    }

    /// The seed's word for a task in this state that was started before, or was not.
    pub const fn project(state: TaskState, has_started: bool) -> Self {
        match state {
            // Scheduled is not RetryScheduled, though both wait for a time: that word says that an attempt
            // was made, and operators read its count as failures. `next_run_at` says when it is due.
            TaskState::Queued | TaskState::Scheduled => Self::Queued,
            // Not started yet: Running would claim an attempt that may never begin.
            TaskState::Assigned | TaskState::Orphaned => Self::Queued,
            TaskState::Running => Self::Running,
            // An orphan that was released without ever having started waits for its first start.
            TaskState::RetryScheduled if !has_started => Self::Queued,
            TaskState::RetryScheduled => Self::RetryScheduled,
            TaskState::Succeeded => Self::Succeeded,
            TaskState::Dead => Self::Dead,
            TaskState::Cancelled => Self::Cancelled,
        }
    }
}
