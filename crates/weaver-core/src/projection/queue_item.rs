//! Seed 000 (Queue Store): the `status` of a queue item. It tells somebody who waits for the end whether work
//! has begun: QUEUED until the first start, then RUNNING through every retry wait until the end, as
//! RUNNING→QUEUED is forbidden. Weaver's own state is an additional attribute of the item.

use crate::projection::{Addition, addition};
use crate::task::{TaskRecord, TaskState};

words! {
    /// The `status` of a queue item.
    Status, "status" {
        /// Not started yet: waiting, or in the hands of a worker that has yet to start it.
        Queued = "QUEUED",
        /// Started at least once and not at its end: running, or waiting for its next start.
        Running = "RUNNING",
        /// Ended well.
        Complete = "COMPLETE",
        /// Ended badly.
        Error = "ERROR",
        /// Ended because somebody or something said so.
        Cancelled = "CANCELLED",
    }
}

/// The seed's table of allowed moves.
pub const ALLOWED: &[(Status, Status)] = &[
    (Status::Queued, Status::Running),
    (Status::Queued, Status::Cancelled),
    (Status::Running, Status::Complete),
    (Status::Running, Status::Error),
    (Status::Running, Status::Cancelled),
];

/// What Weaver adds to it.
pub const ADDITIONS: &[Addition<Status>] = &[addition(
    Status::Queued,
    Status::Error,
    "assigned dispatch, which the seed has not: every worker a leader gave it to vanished before starting it, until its \
     budget of losses was spent. It never ran and nobody cancelled it",
)];

/// Whether a `status` may follow another, by the seed's table or our additions.
pub fn allows(from: Status, to: Status) -> bool {
    ALLOWED.contains(&(from, to)) || ADDITIONS.iter().any(|more| (more.from, more.to) == (from, to))
}

impl Status {
    /// The `status` of a record.
    pub fn of(record: &TaskRecord) -> Self {
        Self::project(record.state, record.executions > 0)
    }

    /// The `status` of a task in this state that was started before, or was not.
    pub const fn project(state: TaskState, has_started: bool) -> Self {
        match state {
            TaskState::Succeeded => Self::Complete,
            TaskState::Dead => Self::Error,
            TaskState::Cancelled => Self::Cancelled,
            // Nobody is in these without a start; said here so that the word does not depend on the counter.
            TaskState::Running | TaskState::RetryScheduled => Self::Running,
            // A retry that is assigned or orphaned stays RUNNING: going back to QUEUED is forbidden.
            TaskState::Assigned | TaskState::Orphaned | TaskState::Queued | TaskState::Scheduled => {
                if has_started {
                    Self::Running
                } else {
                    Self::Queued
                }
            }
        }
    }
}
