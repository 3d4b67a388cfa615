//! The words columns hold, and the way back.

use std::sync::Arc;

use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::projection::job_run::State;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, TaskState};

use crate::error::Trouble;

/// A cause as a column holds it.
pub(crate) fn cause_word(cause: Cause) -> &'static str {
    match cause {
        Cause::Failed => "failed",
        Cause::TimedOut => "timed_out",
        Cause::Lost => "lost",
        Cause::Released => "released",
        Cause::Snoozed => "snoozed",
        Cause::Cancelled(CancelReason::User) => "user",
        Cause::Cancelled(CancelReason::Handler) => "handler",
        Cause::Cancelled(CancelReason::Expired) => "expired",
        Cause::Cancelled(CancelReason::Replaced) => "replaced",
    }
}

pub(crate) fn cause_of(word: &str) -> Result<Cause, Trouble> {
    Ok(match word {
        "failed" => Cause::Failed,
        "timed_out" => Cause::TimedOut,
        "lost" => Cause::Lost,
        "released" => Cause::Released,
        "snoozed" => Cause::Snoozed,
        "user" => Cause::Cancelled(CancelReason::User),
        "handler" => Cause::Cancelled(CancelReason::Handler),
        "expired" => Cause::Cancelled(CancelReason::Expired),
        "replaced" => Cause::Cancelled(CancelReason::Replaced),
        other => return Err(Trouble::unreadable(format!("cause `{other}`"))),
    })
}

/// An attempt's end as a column holds it.
pub(crate) fn outcome_word(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Succeeded => "succeeded",
        AttemptOutcome::Failed => "failed",
        AttemptOutcome::TimedOut => "timed_out",
        AttemptOutcome::Lost => "lost",
        AttemptOutcome::Released => "released",
        AttemptOutcome::Snoozed => "snoozed",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Orphaned => "orphaned",
    }
}

pub(crate) fn outcome_of(word: &str) -> Result<AttemptOutcome, Trouble> {
    Ok(match word {
        "succeeded" => AttemptOutcome::Succeeded,
        "failed" => AttemptOutcome::Failed,
        "timed_out" => AttemptOutcome::TimedOut,
        "lost" => AttemptOutcome::Lost,
        "released" => AttemptOutcome::Released,
        "snoozed" => AttemptOutcome::Snoozed,
        "cancelled" => AttemptOutcome::Cancelled,
        "orphaned" => AttemptOutcome::Orphaned,
        other => return Err(Trouble::unreadable(format!("outcome `{other}`"))),
    })
}

/// Weaver's state, from the seed's word and what that leaves open.
pub(crate) fn state_of(word: &str, scheduled: bool) -> Result<TaskState, Trouble> {
    let word: State = word.parse().map_err(|_| Trouble::unreadable(format!("state `{word}`")))?;
    Ok(match word {
        State::Pending if scheduled => TaskState::Scheduled,
        State::Pending => TaskState::Queued,
        State::Assigned => TaskState::Assigned,
        State::Running => TaskState::Running,
        State::Succeeded => TaskState::Succeeded,
        State::Failed | State::TimedOut => TaskState::Dead,
        State::Canceled => TaskState::Cancelled,
        State::Orphaned => TaskState::Orphaned,
        State::RetryScheduled => TaskState::RetryScheduled,
    })
}

/// The seed's words for a state of ours.
pub(crate) fn words_of(state: TaskState) -> &'static [&'static str] {
    match state {
        TaskState::Queued | TaskState::Scheduled => &["PENDING"],
        TaskState::Assigned => &["ASSIGNED"],
        TaskState::Orphaned => &["ORPHANED"],
        TaskState::Running => &["RUNNING"],
        TaskState::RetryScheduled => &["RETRY_SCHEDULED"],
        TaskState::Succeeded => &["SUCCEEDED"],
        TaskState::Dead => &["FAILED", "TIMED_OUT"],
        TaskState::Cancelled => &["CANCELED"],
    }
}

/// Names met before: most rows of an answer have the same, and share one text.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    namespace: Option<Namespace>,
    queue: Option<QueueName>,
    task_type: Option<TaskType>,
    worker: Option<WorkerId>,
}

macro_rules! seen {
    ($name:ident, $type:ty) => {
        pub(crate) fn $name(&mut self, text: &str) -> Result<$type, Trouble> {
            match &self.$name {
                Some(name) if name.as_str() == text => Ok(name.clone()),
                _ => {
                    let name = <$type>::new(Arc::<str>::from(text)).map_err(Trouble::unreadable)?;
                    Ok(self.$name.insert(name).clone())
                }
            }
        }
    };
}

impl Seen {
    seen!(namespace, Namespace);
    seen!(queue, QueueName);
    seen!(task_type, TaskType);
    seen!(worker, WorkerId);
}
