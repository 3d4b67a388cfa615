//! What can be asked of a task, and why it is refused.

use std::time::Duration;

use crate::id::{Epoch, LeaseToken};
use crate::lease::Lease;
use crate::lifecycle::table::Verb;
use crate::name::WorkerId;
use crate::outcome::Outcome;
use crate::task::TaskState;
use crate::time::Timestamp;

/// Something that may happen to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A worker pulls it: assign and start in one step.
    Lease(Grant),
    /// A leader gives it to a worker.
    Assign {
        /// To whom.
        worker: WorkerId,
        /// In which term.
        epoch: Epoch,
    },
    /// The worker it was assigned to starts it.
    Start(Grant),
    /// A leader finds that the worker it was assigned to is gone.
    Orphan,
    /// A leader gives up an orphan whose budget of losses is spent.
    Bury,
    /// A worker reports the end of an execution.
    Finish {
        /// The lease it ran under.
        lease: Lease,
        /// How it ended.
        outcome: Outcome,
    },
    /// The store found it overdue.
    Expire(OverdueWhy),
    /// A user cancels it.
    Cancel,
    /// A schedule's policy cancels it in favour of a newer run.
    Replace,
    /// A user wants it now rather than when it is due.
    RunNow,
}

/// The terms on which a worker starts a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who starts it.
    pub worker: WorkerId,
    /// The worker's proof.
    pub token: LeaseToken,
    /// How long the lease lasts, within the bounds of [`crate::lease`].
    pub ttl: Duration,
}

/// What is overdue about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OverdueWhy {
    /// Its lease ran out: the worker is lost.
    Lease,
    /// Its `expires_at` passed before the first start.
    ExpiresAt,
    /// It was cancelled, and the handler has not confirmed that it stopped before its lease ran out.
    Hold,
}

/// Why the state machine does not allow a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Terminal is final (G4).
    #[error("it has ended ({state}) and will not move again; `retry` makes a new task like it")]
    Ended {
        /// How it ended.
        state: TaskState,
    },
    /// Only what has ended can be run again.
    #[error("it has not ended ({state}): cancel it first, or wait")]
    NotEnded {
        /// Where it is.
        state: TaskState,
    },
    /// The handler returned more than a record keeps.
    #[error(
        "its result is {bytes} bytes: the limit is {max_bytes}; store it elsewhere and return a reference"
    )]
    ResultTooLarge {
        /// How much it returned.
        bytes: usize,
        /// How much is kept.
        max_bytes: usize,
    },
    /// There is no such move from this state.
    #[error("it cannot {verb} while it is {from}")]
    NotAllowed {
        /// Where it is.
        from: TaskState,
        /// What was asked.
        verb: Verb,
    },
    /// Not before time (G6).
    #[error("it is not due before {ready_at}")]
    NotDue {
        /// When it is.
        ready_at: Timestamp,
    },
    /// It should have started earlier.
    #[error("it expired at {expires_at}, before its first start")]
    Expired {
        /// When.
        expires_at: Timestamp,
    },
    /// It has not expired, or has started.
    #[error("it has not expired: it has started, or `expires_at` has not passed")]
    NotExpired,
    /// The lease was lost, cancelled or superseded (G2).
    #[error("the lease is no longer valid: somebody else decides about this task now")]
    LeaseLost,
    /// It was given to somebody else.
    #[error("it is assigned to {worker}: only that worker may start it")]
    AssignedElsewhere {
        /// To whom.
        worker: WorkerId,
    },
    /// An orphan that was lost once too often is buried, not assigned again.
    #[error("its budget of {max_losses} losses is spent: it can only be given up")]
    LossBudgetSpent {
        /// The budget.
        max_losses: u32,
    },
    /// An orphan with budget left is assigned again, not buried.
    #[error("{losses} of {max_losses} losses are spent: it can be assigned again")]
    LossBudgetLeft {
        /// Spent.
        losses: u32,
        /// In all.
        max_losses: u32,
    },
}
