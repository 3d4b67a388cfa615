//! Seed 004 (JobRun): the `state` of a run, which describes the current attempt.
//!
//! Going back is forbidden within one attempt: where a word is followed by an earlier one, `attempt` has
//! grown. An attempt that ended has its own closing word in `job_run_attempts`, also where the run continues.

use crate::projection::{Addition, addition};
use crate::task::{AttemptOutcome, Cause, Continuation, TaskRecord, TaskState};

words! {
    /// The `state` of a run, and the closing word of an attempt.
    State, "state" {
        /// Not assigned to any worker yet.
        Pending = "PENDING",
        /// Assigned to a worker by the leader; not started.
        Assigned = "ASSIGNED",
        /// A worker runs its handler.
        Running = "RUNNING",
        /// The handler returned without an error.
        Succeeded = "SUCCEEDED",
        /// Failed permanently: the handler returned an error.
        Failed = "FAILED",
        /// Failed permanently: the handler timed out, or its lease expired.
        TimedOut = "TIMED_OUT",
        /// Cancelled by a user, a schedule's policy or its handler.
        Canceled = "CANCELED",
        /// The worker it was assigned to disappeared.
        Orphaned = "ORPHANED",
        /// Added by Weaver: the attempt is closed, another one follows.
        RetryScheduled = "RETRY_SCHEDULED",
    }
}

words! {
    /// Whether a worker that was cut off is confirming that it may continue; the `state` stays RUNNING.
    ContinuationState, "continuation_state" {
        /// The worker may continue.
        None = "NONE",
        /// The worker is confirming: the leader assigns the run to no other worker before the deadline.
        Confirming = "CONFIRMING",
    }
}

/// The seed's table of allowed transitions.
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
    addition(State::Pending, State::Canceled, "a run that has not started can be cancelled (as in seed 000)"),
    addition(State::Orphaned, State::Canceled, "a user must be able to cancel a run that has no worker"),
    addition(State::Pending, State::Running, "pull dispatch is assign and start in one write"),
    addition(
        State::Orphaned,
        State::TimedOut,
        "its `max_losses` is exceeded: it is abandoned instead of assigned forever",
    ),
    addition(
        State::Orphaned,
        State::RetryScheduled,
        "there has been no leader for long: any worker may pull it",
    ),
    addition(
        State::Running,
        State::RetryScheduled,
        "the attempt is closed and another one follows after the backoff",
    ),
    addition(
        State::RetryScheduled,
        State::Running,
        "the next attempt by pull dispatch; `attempt` has grown, so nothing goes back",
    ),
    addition(
        State::RetryScheduled,
        State::Assigned,
        "the next attempt by assignment (the seed's 4.2: retry with attempt + 1)",
    ),
    addition(State::RetryScheduled, State::Canceled, "a run that waits for a retry can be cancelled"),
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
            // A lost worker missed its deadline; whether the handler failed is unknown.
            (TaskState::Dead, Some(Cause::TimedOut | Cause::Lost)) => Self::TimedOut,
            (TaskState::Dead, _) => Self::Failed,
            (TaskState::Cancelled, _) => Self::Canceled,
        }
    }

    /// The closing word of an ended attempt, whether or not the run continues.
    pub const fn closing(outcome: AttemptOutcome) -> Self {
        match outcome {
            AttemptOutcome::Succeeded => Self::Succeeded,
            AttemptOutcome::Failed => Self::Failed,
            AttemptOutcome::TimedOut | AttemptOutcome::Lost => Self::TimedOut,
            // Released or snoozed: stopped early without a failure.
            AttemptOutcome::Released | AttemptOutcome::Snoozed | AttemptOutcome::Cancelled => Self::Canceled,
            AttemptOutcome::Orphaned => Self::Orphaned,
        }
    }
}

impl ContinuationState {
    /// The word for a record's continuation.
    pub const fn of(continuation: Continuation) -> Self {
        match continuation {
            Continuation::None => Self::None,
            Continuation::Confirming { .. } => Self::Confirming,
        }
    }
}
