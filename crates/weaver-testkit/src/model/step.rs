//! Steps of a random walk.
//!
//! They are small plain data, so that a failure prints readably. References to earlier tasks and leases are
//! numbers counted back from the newest.

use std::time::Duration;

use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{Dispatch, NewTask};
use weaver_core::time::Timestamp;

use crate::harness::{namespace, queue, seconds};

/// One step of a walk.
#[derive(Debug, Clone)]
pub enum Step {
    /// Enqueues a batch of tasks.
    Enqueue(Vec<TaskPlan>),
    /// Leases with a fresh token.
    Lease(LeasePlan),
    /// Repeats an earlier lease call.
    LeaseAgain(u8),
    /// Decides outcomes on the leased records; commits them at once or later.
    Finish {
        /// Leases, counted back, and their outcomes.
        ends: Vec<(u8, End)>,
        /// Whether they are committed in this step.
        commit: bool,
    },
    /// Decides commands on the stored records; commits them at once or later.
    Command {
        /// Tasks, counted back, and the commands.
        moves: Vec<(u8, Move)>,
        /// Whether they are committed in this step.
        commit: bool,
    },
    /// Commits transitions that were decided earlier, or commits them again.
    Commit(Vec<u8>, Under),
    /// Renews leases, valid ones or not.
    Renew(Vec<(u8, RenewPlan)>),
    /// Confirms that handlers have stopped, cancelled or not.
    ConfirmStopped(Vec<u8>),
    /// Pauses, resumes or limits a queue.
    SetQueue {
        /// Index of the namespace.
        namespace: u8,
        /// Index of the queue.
        queue: u8,
        /// Whether it is paused.
        paused: bool,
        /// Concurrency limit; none for unlimited.
        max_running: Option<u32>,
        /// Whether a leader assigns its tasks.
        assigns: bool,
    },
    /// Decides the expiry of everything overdue; commits it at once or later.
    Maintain {
        /// Whether it is committed in this step.
        commit: bool,
    },
    /// Removes finished tasks of a namespace.
    Purge {
        /// Index of the namespace.
        namespace: u8,
        /// Minimum age of finished tasks, in seconds.
        finished_for_s: u8,
    },
    /// A new leader takes over.
    Elect,
    /// Advances the store's clock.
    Advance {
        /// Seconds to advance by.
        by_s: u8,
    },
}

/// The leader to commit as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// Without a leader epoch.
    NoLeader,
    /// With the current epoch, if there is a leader.
    Leader,
    /// With the previous epoch, if there was one.
    DeposedLeader,
}

/// A task to enqueue, from a small domain, so that tasks interact.
#[derive(Debug, Clone)]
pub struct TaskPlan {
    /// Index of the namespace.
    pub namespace: u8,
    /// Index of the queue.
    pub queue: u8,
    /// Index of the task type.
    pub task_type: u8,
    /// Priority, 0 to 9.
    pub priority: u8,
    /// Delay before it is due, in seconds.
    pub delay_s: Option<u8>,
    /// Index of the serial key, if any.
    pub serial: Option<u8>,
    /// Index of the idempotency key, if any.
    pub unique: Option<u8>,
    /// Planned instant, for a scheduled run.
    pub scheduled_for_s: Option<u8>,
    /// Budget of lost attempts.
    pub max_losses: u32,
    /// Budget of failed attempts.
    pub max_attempts: u32,
    /// Expires after this many seconds unless started.
    pub expires_s: Option<u8>,
    /// Whether a leader assigns it, whatever its queue says.
    pub assigns: Option<bool>,
    /// Fixed retry delay instead of the default policy, in seconds.
    pub retry_s: Option<u8>,
}

impl TaskPlan {
    /// Builds the task relative to `now`.
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
        if let Some(assigns) = self.assigns {
            task = task.dispatch(dispatch(assigns));
        }
        if let Some(delay) = self.retry_s {
            task = task.retry(RetryPolicy::Fixed { delay: seconds(delay.into()) });
        }
        task
    }
}

/// Arguments of a lease call.
#[derive(Debug, Clone)]
pub struct LeasePlan {
    /// Index of the namespace.
    pub namespace: u8,
    /// Indexes of the queues; all if empty.
    pub queues: Vec<u8>,
    /// Index of the type; any if none.
    pub task_type: Option<u8>,
    /// Maximum number of tasks.
    pub max: u32,
    /// Maximum number of fragile tasks.
    pub slots: u32,
    /// Lease duration in seconds.
    pub ttl_s: u8,
    /// Whether it also takes tasks that a leader assigns.
    pub assign_fallback: bool,
}

impl LeasePlan {
    /// Names of the requested queues.
    pub fn queues(&self) -> Vec<QueueName> {
        let numbers = if self.queues.is_empty() { vec![0, 1] } else { self.queues.clone() };
        numbers.into_iter().map(queue_at).collect()
    }

    /// Names of the requested types.
    pub fn types(&self) -> Option<Vec<TaskType>> {
        let task_type = |number| TaskType::new(type_name(number)).expect("a valid name");
        self.task_type.map(|number| vec![task_type(number)])
    }
}

/// Outcome of an attempt.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// The task succeeds without a result.
    Succeed,
    /// Fails; retried by the record's policy.
    Fail,
    /// Fails; retried after this many seconds.
    FailAfter(u8),
    /// Fails fatally, without a retry.
    FailForGood,
    /// The attempt exceeds its timeout.
    TimeOut,
    /// Snoozes for this many seconds.
    Snooze(u8),
    /// The handler cancels its own task.
    Cancel,
    /// The worker releases the task unfinished.
    Release,
}

impl End {
    /// Converts it to the outcome that a worker reports.
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

/// A command on a task.
#[derive(Debug, Clone, Copy)]
pub enum Move {
    /// A user cancels the task.
    Cancel,
    /// A schedule replaces it with a newer task.
    Replace,
    /// A user makes it due immediately.
    RunNow,
    /// A leader assigns it to a worker.
    Assign(u8),
    /// The assigned worker starts it.
    Start(u8),
    /// It is taken from its worker, for one of the causes.
    Orphan(u8),
    /// It is released without a leader.
    ReleaseOrphan,
    /// A leader abandons an orphan.
    AbandonOrphan,
    /// A lease of exactly this task.
    Lease,
}

/// Payload of a renewal.
#[derive(Debug, Clone, Copy)]
pub enum RenewPlan {
    /// Only the lease itself.
    Plain,
    /// Reports this progress with the renewal.
    Progress(u8),
    /// Asks for confirmation to continue, within this many seconds.
    Confirming(u8),
    /// Confirms that it may continue.
    Continue,
}

/// The dispatch of a task or queue.
pub(super) fn dispatch(assigns: bool) -> Dispatch {
    if assigns { Dispatch::Assign } else { Dispatch::Pull }
}

/// Namespaces of a walk.
pub(super) const NAMESPACES: u8 = 2;
/// Queues of each namespace.
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

/// The member `back` places before the newest, wrapping around.
pub(super) fn from_newest<T>(items: &[T], back: u8) -> Option<&T> {
    items.len().checked_sub(1).map(|newest| &items[newest - usize::from(back) % items.len()])
}

pub(super) fn span(by_s: u8) -> Duration {
    seconds(by_s.into())
}
