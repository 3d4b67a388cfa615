//! What a random walk does. Steps are small plain data, so that a failure prints as something a person can
//! retell; whatever depends on the walk so far (which task, which lease) is a number counted back from the
//! newest.

use std::time::Duration;

use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::NewTask;
use weaver_core::time::Timestamp;

use crate::harness::{namespace, queue, seconds};

/// One step of a walk.
#[derive(Debug, Clone)]
pub enum Step {
    /// Enqueues a batch.
    Enqueue(Vec<TaskPlan>),
    /// Leases with a fresh token.
    Lease(LeasePlan),
    /// Repeats an earlier lease call.
    LeaseAgain(u8),
    /// Decides ends of leases, on what was leased; commits them unless told to wait.
    Finish {
        /// Which lease, and how it ends.
        ends: Vec<(u8, End)>,
        /// Whether they are committed at once.
        commit: bool,
    },
    /// Decides moves of tasks, on what is stored; commits them unless told to wait.
    Command {
        /// Which task, and what is asked of it.
        moves: Vec<(u8, Move)>,
        /// Whether they are committed at once.
        commit: bool,
    },
    /// Commits moves that were decided some time ago, or commits moves again.
    Commit(Vec<u8>, Under),
    /// Renews leases, valid ones or not.
    Renew(Vec<(u8, RenewPlan)>),
    /// Confirms that handlers have stopped, whether they were told to or not.
    ConfirmStopped(Vec<u8>),
    /// Pauses, resumes or limits a queue.
    SetQueue {
        /// In which namespace.
        namespace: u8,
        /// Which one.
        queue: u8,
        /// Whether it is paused.
        paused: bool,
        /// Its limit.
        max_running: Option<u32>,
    },
    /// Decides what to do about everything that is overdue; commits it unless told to wait.
    Maintain {
        /// Whether it is committed at once.
        commit: bool,
    },
    /// Removes finished tasks of a namespace.
    Purge {
        /// Which one.
        namespace: u8,
        /// How long they must have been finished.
        finished_for_s: u8,
    },
    /// A new leader takes over.
    Elect,
    /// Time passes.
    Advance {
        /// So much of it.
        by_s: u8,
    },
}

/// As whom to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// As anybody.
    NoLeader,
    /// As the leader, if there is one.
    Leader,
    /// As the one before, if there was one.
    DeposedLeader,
}

/// A task to enqueue, out of few possibilities, so that tasks meet.
#[derive(Debug, Clone)]
pub struct TaskPlan {
    /// Which namespace.
    pub namespace: u8,
    /// Which queue.
    pub queue: u8,
    /// Which type.
    pub task_type: u8,
    /// Which priority.
    pub priority: u8,
    /// Due after so long.
    pub delay_s: Option<u8>,
    /// Which serial key.
    pub serial: Option<u8>,
    /// Which idempotency key.
    pub unique: Option<u8>,
    /// The run of a job definition for this instant.
    pub scheduled_for_s: Option<u8>,
    /// Its budget of losses.
    pub max_losses: u32,
    /// Its budget of failures.
    pub max_attempts: u32,
    /// Expires after so long.
    pub expires_s: Option<u8>,
    /// Retried always after the same delay, instead of by the default policy.
    pub retry_s: Option<u8>,
}

impl TaskPlan {
    /// The task, if it is `now`.
    pub fn task(&self, now: Timestamp) -> NewTask {
        let mut task = NewTask::new(type_name(self.task_type))
            .namespace(namespace_at(self.namespace))
            .queue(queue_at(self.queue))
            .priority(self.priority)
            .max_losses(self.max_losses)
            .max_attempts(self.max_attempts);
        if let Some(delay) = self.delay_s {
            task = task.delay(seconds(delay.into()));
        }
        if let Some(number) = self.serial {
            task = task.serial_key(format!("serial-{number}"));
        }
        if let Some(number) = self.unique {
            task = task.idempotency_key(format!("unique-{number}"));
        }
        if let Some(instant) = self.scheduled_for_s {
            let instant = Timestamp::MIN.saturating_add(seconds(instant.into()));
            task = task.job_definition_id("job").scheduled_for(instant);
        }
        if let Some(span) = self.expires_s {
            task = task.expires_at(now.saturating_add(seconds(span.into())));
        }
        if let Some(delay) = self.retry_s {
            task = task.retry(RetryPolicy::Fixed { delay: seconds(delay.into()) });
        }
        task
    }
}

/// A lease call.
#[derive(Debug, Clone)]
pub struct LeasePlan {
    /// Which namespace.
    pub namespace: u8,
    /// Which queues; all if empty.
    pub queues: Vec<u8>,
    /// Which type; any if not given.
    pub task_type: Option<u8>,
    /// How many at most.
    pub max: u32,
    /// How many fragile ones at most.
    pub slots: u32,
    /// For how long.
    pub ttl_s: u8,
}

impl LeasePlan {
    /// The queues asked for.
    pub fn queues(&self) -> Vec<QueueName> {
        let numbers = if self.queues.is_empty() { vec![0, 1] } else { self.queues.clone() };
        numbers.into_iter().map(queue_at).collect()
    }

    /// The types asked for.
    pub fn types(&self) -> Option<Vec<TaskType>> {
        let task_type = |number| TaskType::new(type_name(number)).expect("a valid name");
        self.task_type.map(|number| vec![task_type(number)])
    }
}

/// How an execution ends.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// Well.
    Succeed,
    /// With an error, retried by the record's policy.
    Fail,
    /// With an error, retried after this many seconds.
    FailAfter(u8),
    /// With an error that no retry mends.
    FailForGood,
    /// Too late.
    TimeOut,
    /// To be called again.
    Snooze(u8),
    /// For good, by its own wish.
    Cancel,
    /// With the worker.
    Release,
}

impl End {
    /// As a worker reports it.
    pub fn outcome(self) -> Outcome {
        let failed = |retry| Outcome::Failed { error: "as planned".into(), retry };
        match self {
            Self::Succeed => Outcome::Succeeded { result: Some(bytes::Bytes::from_static(b"1")) },
            Self::Fail => failed(Retry::ByPolicy),
            Self::FailAfter(delay) => failed(Retry::After(seconds(delay.into()))),
            Self::FailForGood => failed(Retry::Never),
            Self::TimeOut => Outcome::TimedOut,
            Self::Snooze(delay) => Outcome::Snoozed { delay: seconds(delay.into()) },
            Self::Cancel => Outcome::Cancelled { message: "as planned".into() },
            Self::Release => Outcome::Released,
        }
    }
}

/// What is asked of a task.
#[derive(Debug, Clone, Copy)]
pub enum Move {
    /// A user cancels it.
    Cancel,
    /// A schedule puts another in its place.
    Replace,
    /// A user wants it now.
    RunNow,
    /// A leader gives it to one of its workers.
    Assign(u8),
    /// One of those workers starts it.
    Start(u8),
    /// A leader misses the worker.
    Orphan,
    /// A leader gives it up.
    Bury,
    /// Somebody leases this very task.
    Lease,
}

/// What a renewal carries.
#[derive(Debug, Clone, Copy)]
pub enum RenewPlan {
    /// Nothing else.
    Plain,
    /// Progress.
    Progress(u8),
    /// A doubt whether it may go on, for so many seconds.
    Confirming(u8),
    /// The end of the doubt.
    Continue,
}

/// How many namespaces a walk uses.
pub(super) const NAMESPACES: u8 = 2;
/// How many queues a walk uses in each.
pub(super) const QUEUES: u8 = 2;

pub(super) fn namespace_at(number: u8) -> Namespace {
    namespace(["one", "two"][usize::from(number % NAMESPACES)])
}

pub(super) fn queue_at(number: u8) -> QueueName {
    queue(["left", "right"][usize::from(number % QUEUES)])
}

fn type_name(number: u8) -> &'static str {
    ["a", "b"][usize::from(number % 2)]
}

/// The member that is `back` places before the newest, going round.
pub(super) fn from_newest<T>(items: &[T], back: u8) -> Option<&T> {
    items.len().checked_sub(1).map(|newest| &items[newest - usize::from(back) % items.len()])
}

pub(super) fn span(by_s: u8) -> Duration {
    seconds(by_s.into())
}
