//! Seed 001 (Rust task queue): `TaskState`, the words of the queue. Five of them are Weaver's own states; the
//! states the seed has not (it leaves assignment and delayed first starts out of its scope) read as the
//! nearest it has.

use crate::projection::{Addition, addition};
use crate::task::TaskState;

words! {
    /// The seed's `TaskState`, with our `Cancelled`.
    State, "state" {
        /// Waiting for a start, or given to a worker that has yet to start it.
        Queued = "Queued",
        /// A handler runs.
        Running = "Running",
        /// Ended well.
        Succeeded = "Succeeded",
        /// Waiting until `next_run_at` for another start.
        RetryScheduled = "RetryScheduled",
        /// Ended badly.
        Dead = "Dead",
        /// Our addition: the seed has no way to stop a task.
        Cancelled = "Cancelled",
    }
}

/// The seed's moves. It writes no table; these are the steps of its worker flow (dequeue, then Running, then
/// one of three) and its rule that a `RetryScheduled` task is dequeued again from `next_run_at` on.
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
        "people, schedules and `expires_at` stop tasks (seed 000 has it)",
    ),
    addition(State::Running, State::Cancelled, "people, schedules and handlers stop tasks (seed 000 has it)"),
    addition(
        State::RetryScheduled,
        State::Cancelled,
        "waiting for a retry is no protection from being stopped",
    ),
    addition(
        State::RetryScheduled,
        State::Queued,
        "a leader gave a due retry to a worker: it waits for no time any more, only for that worker to start it",
    ),
    addition(
        State::Queued,
        State::Dead,
        "every worker a leader gave it to vanished before starting it, until its budget of losses was spent",
    ),
];

/// Whether a state may follow another, by the seed's flow or our additions.
pub fn allows(from: State, to: State) -> bool {
    ALLOWED.contains(&(from, to)) || ADDITIONS.iter().any(|more| (more.from, more.to) == (from, to))
}

impl State {
    /// The seed's word for a state of Weaver's.
    pub const fn project(state: TaskState) -> Self {
        match state {
            // Scheduled is not RetryScheduled, though both wait for a time: that word says that an attempt
            // was made, and counts of it are read as a sign of trouble. `next_run_at` tells when it is due.
            TaskState::Queued | TaskState::Scheduled => Self::Queued,
            // Somebody is to start it, nobody has: Running would claim an execution that may never happen.
            TaskState::Assigned | TaskState::Orphaned => Self::Queued,
            TaskState::Running => Self::Running,
            TaskState::RetryScheduled => Self::RetryScheduled,
            TaskState::Succeeded => Self::Succeeded,
            TaskState::Dead => Self::Dead,
            TaskState::Cancelled => Self::Cancelled,
        }
    }
}
