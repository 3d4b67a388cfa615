//! Seed 004 (JobRun): the `state` of a run, about the attempt under way. Going back is forbidden within one
//! attempt: where a word is followed by an earlier one, `attempt` has grown. An attempt that ended is closed
//! with a word of its own in `job_run_attempts`, also where the run goes on.

use crate::projection::{Addition, addition};
use crate::task::{AttemptOutcome, Cause, Continuation, TaskRecord, TaskState};

words! {
    /// The `state` of a run, and the closing word of an attempt.
    State, "state" {
        /// Not given to anybody yet.
        Pending = "PENDING",
        /// Given to a worker by the leader.
        Assigned = "ASSIGNED",
        /// A handler runs.
        Running = "RUNNING",
        /// Ended well.
        Succeeded = "SUCCEEDED",
        /// Ended badly: the handler returned an error.
        Failed = "FAILED",
        /// Ended badly: the handler, or its worker, was not heard of in time.
        TimedOut = "TIMED_OUT",
        /// Ended because somebody or something said so.
        Canceled = "CANCELED",
        /// The worker it was assigned to is gone.
        Orphaned = "ORPHANED",
        /// Our addition: the attempt is closed, another one follows.
        RetryScheduled = "RETRY_SCHEDULED",
    }
}

words! {
    /// Whether a worker that was cut off is finding out if it may go on; the `state` stays RUNNING meanwhile.
    ContinuationState, "continuation_state" {
        /// Nothing is in doubt.
        None = "NONE",
        /// In doubt: the leader gives the run to nobody else before the deadline.
        Confirming = "CONFIRMING",
    }
}

/// The seed's table of allowed moves.
pub const ALLOWED: &[(State, State)] = &[
    (State::Pending, State::Assigned),
    (State::Assigned, State::Running),
    (State::Running, State::Succeeded),
    (State::Running, State::Failed),
    (State::Running, State::TimedOut),
    (State::Assigned, State::Canceled),
    (State::Running, State::Canceled),
    (State::Assigned, State::Orphaned),
    (State::Orphaned, State::Assigned),
];

/// What Weaver adds to it.
pub const ADDITIONS: &[Addition<State>] = &[
    addition(State::Pending, State::Canceled, "a run nobody has begun can be stopped (seed 000 has it)"),
    addition(State::Orphaned, State::Canceled, "a user must be able to stop what no worker is left to stop"),
    addition(State::Pending, State::Running, "pull dispatch is assign and start in one write"),
    addition(
        State::Orphaned,
        State::TimedOut,
        "its budget of losses is spent: it is given up instead of assigned for ever",
    ),
    addition(
        State::Running,
        State::RetryScheduled,
        "the attempt is closed and another one follows, after a delay the run has to wait somewhere for",
    ),
    addition(
        State::RetryScheduled,
        State::Running,
        "the next attempt by pull dispatch; `attempt` has grown, so nothing goes back",
    ),
    addition(
        State::RetryScheduled,
        State::Assigned,
        "the next attempt by assignment (the seed's 4.2: run again, attempt + 1)",
    ),
    addition(
        State::RetryScheduled,
        State::Canceled,
        "waiting for a retry is no protection from being stopped",
    ),
];

/// Whether a `state` may follow another, by the seed's table or our additions.
pub fn allows(from: State, to: State) -> bool {
    ALLOWED.contains(&(from, to)) || ADDITIONS.iter().any(|more| (more.from, more.to) == (from, to))
}

impl State {
    /// The `state` of a record.
    pub fn of(record: &TaskRecord) -> Self {
        Self::project(record.state, record.cause)
    }

    /// The `state` of a task in this state, for this reason.
    pub const fn project(state: TaskState, cause: Option<Cause>) -> Self {
        match (state, cause) {
            (TaskState::Queued | TaskState::Scheduled, _) => Self::Pending,
            (TaskState::Assigned, _) => Self::Assigned,
            (TaskState::Orphaned, _) => Self::Orphaned,
            (TaskState::Running, _) => Self::Running,
            (TaskState::RetryScheduled, _) => Self::RetryScheduled,
            (TaskState::Succeeded, _) => Self::Succeeded,
            // A lost worker is one that was not heard of in time; nobody knows that the handler failed.
            (TaskState::Dead, Some(Cause::TimedOut | Cause::Lost)) => Self::TimedOut,
            (TaskState::Dead, _) => Self::Failed,
            (TaskState::Cancelled, _) => Self::Canceled,
        }
    }

    /// The word an ended attempt is closed with, whether or not the run goes on.
    pub const fn closing(outcome: AttemptOutcome) -> Self {
        match outcome {
            AttemptOutcome::Succeeded => Self::Succeeded,
            AttemptOutcome::Failed => Self::Failed,
            AttemptOutcome::TimedOut | AttemptOutcome::Lost => Self::TimedOut,
            // Given back or put off: stopped before its end, and nobody's fault.
            AttemptOutcome::Released | AttemptOutcome::Snoozed | AttemptOutcome::Cancelled => Self::Canceled,
            AttemptOutcome::Orphaned => Self::Orphaned,
        }
    }
}

impl ContinuationState {
    /// The seed's word for a record's continuation.
    pub const fn of(continuation: Continuation) -> Self {
        match continuation {
            Continuation::None => Self::None,
            Continuation::Confirming { .. } => Self::Confirming,
        }
    }
}
