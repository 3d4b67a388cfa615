//! Seed 000 (Queue Store): the `status` of a queue item.
//!
//! It tells a client that waits for the end whether work has begun: QUEUED until the first start, then
//! RUNNING through every backoff until the end, as RUNNING→QUEUED is forbidden. Weaver's own state is an
//! additional attribute of the item.

use crate::projection::{Addition, addition};
use crate::task::{TaskRecord, TaskState};

words! {
    /// The `status` of a queue item.
    Status, "status" {
        /// Not started yet: waiting, or assigned to a worker that has not started it.
        Queued = "QUEUED",
        /// Started at least once and not ended: running, or waiting for a retry.
        Running = "RUNNING",
        /// The handler returned without an error.
        Complete = "COMPLETE",
        /// Failed permanently: Weaver's state is dead.
        Error = "ERROR",
        /// Cancelled by a user, a schedule's policy, its handler or its expiry.
        Cancelled = "CANCELLED",
    }
}

/// The seed's table of allowed transitions.
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
    "assigned dispatch, which the seed does not have: every worker it was assigned to disappeared before \
     starting it, until `max_losses` was exceeded. It never ran and was not cancelled",
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
            // Only started tasks are in this state; this way the word does not depend on the counter.
            TaskState::Running => Self::Running,
            // A retry that waits, is assigned or orphaned stays RUNNING: going back to QUEUED is forbidden.
            // An orphan that never started and was released is still QUEUED.
            TaskState::RetryScheduled
            | TaskState::Assigned
            | TaskState::Orphaned
            | TaskState::Queued
            | TaskState::Scheduled => {
                if has_started {
                    Self::Running
                } else {
                    Self::Queued
                }
            }
        }
    }
}
