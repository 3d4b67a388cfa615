//! Names of causes, outcomes and states as columns store them, and their parsing.

use std::sync::Arc;

use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::projection::job_run::State;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, TaskState};

use crate::error::StoreFault;

/// A cause as the column `cause` stores it.
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

pub(crate) fn cause_of(word: &str) -> Result<Cause, StoreFault> {
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
        other => return Err(StoreFault::unreadable(format!("cause `{other}`"))),
    })
}

/// An attempt's outcome as the column `outcome` stores it.
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

pub(crate) fn outcome_of(word: &str) -> Result<AttemptOutcome, StoreFault> {
    Ok(match word {
        "succeeded" => AttemptOutcome::Succeeded,
        "failed" => AttemptOutcome::Failed,
        "timed_out" => AttemptOutcome::TimedOut,
        "lost" => AttemptOutcome::Lost,
        "released" => AttemptOutcome::Released,
        "snoozed" => AttemptOutcome::Snoozed,
        "cancelled" => AttemptOutcome::Cancelled,
        "orphaned" => AttemptOutcome::Orphaned,
        other => return Err(StoreFault::unreadable(format!("outcome `{other}`"))),
    })
}

/// A task's state from the seed's word, which does not tell queued from scheduled.
pub(crate) fn state_of(word: &str, scheduled: bool) -> Result<TaskState, StoreFault> {
    let word: State = word.parse().map_err(|_| StoreFault::unreadable(format!("state `{word}`")))?;
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

/// Interns the last name of each kind: most rows of an answer share their names.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    namespace: Option<Namespace>,
    queue: Option<QueueName>,
    task_type: Option<TaskType>,
    worker: Option<WorkerId>,
}

macro_rules! interned {
    ($name:ident, $type:ty) => {
        pub(crate) fn $name(&mut self, text: &str) -> Result<$type, StoreFault> {
            match &self.$name {
                Some(name) if name.as_str() == text => Ok(name.clone()),
                _ => {
                    let name = <$type>::new(Arc::<str>::from(text)).map_err(StoreFault::unreadable)?;
                    Ok(self.$name.insert(name).clone())
                }
            }
        }
    };
}

impl Interner {
    interned!(namespace, Namespace);
    interned!(queue, QueueName);
    interned!(task_type, TaskType);
    interned!(worker, WorkerId);
}
