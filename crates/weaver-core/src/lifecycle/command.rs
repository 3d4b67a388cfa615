//! Commands on a task, and why they are refused.

use std::time::Duration;

use crate::id::{Epoch, LeaseToken, ProcessId};
use crate::lease::Lease;
use crate::lifecycle::table::Verb;
use crate::name::WorkerId;
use crate::outcome::Outcome;
use crate::task::TaskState;
use crate::time::Timestamp;

/// A command on a task: input of [`decide`](crate::lifecycle::decide).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A worker pulls it: assign and start in one step.
    Lease(Grant),
    /// A leader assigns it to a worker.
    Assign {
        /// The only worker that may start it.
        worker: WorkerId,
        /// The leader's epoch, copied into the lease when the worker starts it.
        epoch: Epoch,
    },
    /// The worker it was assigned to starts it.
    Start(Grant),
    /// It is taken from the worker it was assigned to, which has not started it.
    Orphan(OrphanCause),
    /// Without a leader, an orphaned task is released: any worker may pull it.
    ReleaseOrphan,
    /// An orphaned task that was lost more than `max_losses` times is ended.
    AbandonOrphan,
    /// A worker reports the end of an attempt.
    Finish {
        /// The lease it ran under; it must still be the valid one.
        lease: Lease,
        /// What the handler returned, or why it did not.
        outcome: Outcome,
    },
    /// The store found it overdue.
    Expire(OverdueReason),
    /// The process that holds its lease is known to have ended, with every process that it started: the
    /// attempt is lost, as when the lease expires.
    HolderEnded {
        /// Only leases of this process are ended.
        process: ProcessId,
    },
    /// A user cancels it.
    Cancel,
    /// A schedule's policy cancels it in favour of a newer run.
    Replace,
    /// A user makes a waiting task due now.
    RunNow,
}

/// The terms on which a worker starts a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The worker that becomes the holder of the lease.
    pub worker: WorkerId,
    /// The token by which later calls prove that they hold the lease.
    pub token: LeaseToken,
    /// How long the lease lasts, within the bounds of [`crate::lease`].
    pub ttl: Duration,
}

/// Why an assignment is taken from a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrphanCause {
    /// The worker's heartbeat expired.
    Silent,
    /// The worker drains or stops.
    Drained,
    /// The worker was detached from the cluster.
    Detached,
    /// The worker deregistered, or was never heard of.
    Left,
    /// The worker is alive and did not start it within `start_within_seconds`.
    NotStarted,
    /// A person asked for another worker.
    Requested,
}

impl OrphanCause {
    /// Every cause.
    pub const ALL: [Self; 6] =
        [Self::Silent, Self::Drained, Self::Detached, Self::Left, Self::NotStarted, Self::Requested];
}

impl std::fmt::Display for OrphanCause {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Silent => "its heartbeat expired",
            Self::Drained => "it drains",
            Self::Detached => "it was detached",
            Self::Left => "it left",
            Self::NotStarted => "it was not started in time",
            Self::Requested => "it was reassigned by hand",
        })
    }
}

/// What is overdue about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OverdueReason {
    /// Lease expiry: the worker did not renew it in time, so the attempt is lost.
    Lease,
    /// Its `expires_at` passed before the first start.
    ExpiresAt,
    /// Its cancellation hold: the handler did not confirm that it stopped before its lease expired.
    Hold,
}

/// Why the state machine does not allow a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Terminal is final (G4).
    #[error("it has already ended ({state}); `retry` enqueues a new task like it")]
    Ended {
        /// The terminal state in which it stays.
        state: TaskState,
    },
    /// Only a task that has ended can be retried as a new one.
    #[error("it has not ended ({state}): cancel it first, or wait")]
    NotEnded {
        /// The state that it would have to leave first.
        state: TaskState,
    },
    /// The handler returned more than a record keeps.
    #[error(
        "its result is {bytes} bytes: the limit is {max_bytes}; store it elsewhere and return a reference"
    )]
    ResultTooLarge {
        /// Size of the result in bytes.
        bytes: usize,
        /// The limit in bytes, [`RESULT_MAX_BYTES`](crate::outcome::RESULT_MAX_BYTES).
        max_bytes: usize,
    },
    /// The state machine has no such transition from this state.
    #[error("it cannot {verb} while it is {from}")]
    NotAllowed {
        /// The state in which it was found.
        from: TaskState,
        /// The transition that this state does not allow.
        verb: Verb,
    },
    /// Nothing starts before its `ready_at` (G6).
    #[error("it is not due until {ready_at}")]
    NotDue {
        /// The earliest start, by the store's clock.
        ready_at: Timestamp,
    },
    /// It did not start before its `expires_at`.
    #[error("it expired at {expires_at}, before its first start")]
    Expired {
        /// The latest first start, by the wall clock.
        expires_at: Timestamp,
    },
    /// It has not expired, or has started.
    #[error("it has not expired: it has started, or `expires_at` has not passed")]
    NotExpired,
    /// Fencing: the lease expired, or the task was cancelled or leased again (G2).
    #[error("the lease is no longer valid: it expired, or the task was cancelled; stop the handler")]
    LeaseLost,
    /// Another process holds its lease than the one that ended.
    #[error("worker {worker} holds its lease, and its process is not the one that ended")]
    HeldElsewhere {
        /// The worker that holds the lease.
        worker: WorkerId,
    },
    /// It is assigned to another worker.
    #[error("it is assigned to {worker}: only that worker may start it")]
    AssignedElsewhere {
        /// The worker it is assigned to.
        worker: WorkerId,
    },
    /// An orphaned task that was lost more than `max_losses` times is abandoned, not assigned again.
    #[error("its workers were lost more than {max_losses} times (max_losses): it can only be abandoned")]
    LossBudgetSpent {
        /// The `max_losses` of its spec.
        max_losses: u32,
    },
    /// An orphaned task that was lost at most `max_losses` times is assigned again, not abandoned.
    #[error("its workers were lost {losses} times, of {max_losses} allowed: assign it again")]
    LossBudgetLeft {
        /// How many workers were lost with it so far.
        losses: u32,
        /// The `max_losses` of its spec.
        max_losses: u32,
    },
}
