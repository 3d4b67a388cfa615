//! Convenience methods for users, with seed 001's names: each is a few port calls and one decision.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::explain::{Explanation, explain};
use crate::id::TaskKey;
use crate::lease::{Lease, LeaseRequest, Leased};
use crate::lifecycle::{self, Command, Ended, Refused, Transition, decide};
use crate::name::Namespace;
use crate::outcome::Outcome;
use crate::ports::{Page, PurgeRule, Purged, Scope, StateCounts, Store, TaskQuery};
use crate::queue::finish::{EndReport, finish};
use crate::queue::{Committed, Enqueued};
use crate::retry::DelayFunction;
use crate::task::{AttemptRecord, NewTask, TaskRecord, TaskState};
use crate::time::Timestamp;

/// Optimistic-concurrency retries.
const TRIES_MAX: usize = 8;

/// The status of a task (seed 001).
#[derive(Debug, Clone, PartialEq)]
pub struct TaskStatus {
    /// Its stored state: a due task is still `Scheduled` or `RetryScheduled`.
    pub state: TaskState,
    /// How often it was leased or assigned.
    pub attempt: u32,
    /// How often it failed or timed out.
    pub failures: u32,
    /// Failed attempts before it is dead.
    pub max_attempts: u32,
    /// The error of the last failed attempt.
    pub last_error: Option<Arc<str>>,
    /// When it is due, if it waits for a time.
    pub next_run_at: Option<Timestamp>,
    /// When it was enqueued, by the store's clock.
    pub created_at: Timestamp,
    /// When its last transition was applied, by the store's clock.
    pub updated_at: Timestamp,
    /// What the handler returned, if it succeeded.
    pub result: Option<Bytes>,
}

impl From<TaskRecord> for TaskStatus {
    fn from(record: TaskRecord) -> Self {
        Self {
            state: record.state,
            attempt: record.attempt,
            failures: record.failures,
            max_attempts: record.spec.max_attempts,
            next_run_at: record.next_run_at(),
            last_error: record.last_error,
            created_at: record.created_at,
            updated_at: record.updated_at,
            result: record.result,
        }
    }
}

/// What users do with a store, one task at a time.
///
/// ```
/// # use std::sync::Arc;
/// # use weaver_core::prelude::*;
/// # use weaver_core::clock::ManualClock;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let queue = InMemoryQueue::new(Arc::new(ManualClock::default()));
/// let key = queue.enqueue(NewTask::new("greet").json("Ada")?).await?.key;
///
/// let (namespace, name) = (Namespace::default(), QueueName::default());
/// let request = LeaseRequest::new(namespace, name, WorkerId::new("w1")?, LeaseToken(1));
/// let leased = queue.dequeue_ready(request).await?.expect("a task is due");
/// queue.mark_succeeded(&leased, None).await?;
/// assert_eq!(queue.get_status(&key).await?.state, TaskState::Succeeded);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[async_trait]
pub trait QueueExt: Store {
    /// Enqueues one task; returns the existing one if a unique key is taken (G8).
    async fn enqueue(&self, task: NewTask) -> Result<Enqueued> {
        let mut answers = self.enqueue_batch(vec![task]).await.map_err(without_index)?;
        answers.pop().unwrap_or_else(|| Err(no_answer()))
    }

    /// Leases the next due task, if there is one. The `max` of the request is ignored.
    async fn dequeue_ready(&self, request: LeaseRequest) -> Result<Option<Leased>> {
        Ok(self.lease(LeaseRequest { max: 1, ..request }).await?.pop())
    }

    /// Reports success, with the result to store.
    async fn mark_succeeded(&self, leased: &Leased, result: Option<Bytes>) -> Result<()> {
        self.mark(leased, Outcome::Succeeded { result }).await
    }

    /// Reports a failure: the task is retried by its policy, or dead if no attempts are left.
    async fn mark_failed(&self, leased: &Leased, error: &str) -> Result<()> {
        self.mark(leased, Outcome::failed(error)).await
    }

    /// The same with the user's own delay function, given the number of failures and the error.
    async fn mark_failed_with(&self, leased: &Leased, error: &str, delay: &DelayFunction) -> Result<()> {
        self.mark(leased, lifecycle::failed_with(&leased.record, error, delay)).await
    }

    /// Reports any outcome of a task by [`finish`]: [`Error::Stale`] if the lease was lost or the task
    /// cancelled, [`Error::Refused`] if its result is too large to keep.
    async fn mark(&self, leased: &Leased, outcome: Outcome) -> Result<()> {
        let key = leased.lease.key.clone();
        let answer = finish(self, &[Marked { leased, outcome }]).await?.pop().ok_or_else(no_answer)?;
        match answer {
            Ended::Recorded { .. } => Ok(()),
            Ended::Lost => Err(Error::Stale { key }),
            Ended::ResultTooLarge { bytes, max_bytes } => {
                Err(Error::Refused { key, refused: Refused::ResultTooLarge { bytes, max_bytes } })
            }
        }
    }

    /// Commits one transition; [`Error::Stale`] if the task has changed since it was decided.
    async fn make(&self, transition: Transition) -> Result<()> {
        let key = transition.key.clone();
        match self.commit(vec![transition], None).await?.pop().ok_or_else(no_answer)? {
            Committed::Applied { .. } | Committed::AlreadyApplied => Ok(()),
            Committed::Stale | Committed::Blocked(_) => Err(Error::Stale { key }),
        }
    }

    /// Reads a task; [`Error::NotFound`] or [`Error::Quarantined`] if it cannot.
    async fn get_task(&self, key: &TaskKey) -> Result<TaskRecord> {
        let found = self.get_tasks(std::slice::from_ref(key)).await?.pop().flatten();
        match found {
            Some(record) => Ok(record),
            None => Err(absent(self, key).await?),
        }
    }

    /// Reads the status of a task; fails like [`get_task`](QueueExt::get_task).
    async fn get_status(&self, key: &TaskKey) -> Result<TaskStatus> {
        Ok(self.get_task(key).await?.into())
    }

    /// How many tasks of a namespace are in each state.
    async fn counts_by_state(&self, namespace: &Namespace) -> Result<StateCounts> {
        Ok(self.counts(Scope::Namespace(namespace.clone())).await?.values)
    }

    /// Cancels a task in any state. Refused if it has ended.
    async fn cancel(&self, key: &TaskKey) -> Result<()> {
        self.change(key, Command::Cancel).await
    }

    /// Makes a waiting task due now. Refused unless it waits for a time.
    async fn run_now(&self, key: &TaskKey) -> Result<()> {
        self.change(key, Command::RunNow).await
    }

    /// Reads a task, decides a command and commits it; retries if the task changed in between.
    async fn change(&self, key: &TaskKey, command: Command) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let record = self.get_task(key).await?;
            let transition = decide(&record, command.clone(), record.updated_at)
                .map_err(|refused| Error::Refused { key: key.clone(), refused })?;
            match self.make(transition).await {
                Err(Error::Stale { .. }) => {}
                answer => return answer,
            }
        }
        Err(Error::Stale { key: key.clone() })
    }

    /// Retries a finished task as a new one, which names the old one in `retry_of` and has neither its unique
    /// keys nor its expiry. Refused while the task has not ended.
    async fn retry(&self, key: &TaskKey) -> Result<Enqueued> {
        let record = self.get_task(key).await?;
        let task = lifecycle::retry_as_new(&record)
            .map_err(|refused| Error::Refused { key: key.clone(), refused })?;
        self.enqueue(task).await
    }

    /// Lists tasks, like [`Tasks::list_tasks`](crate::ports::Tasks::list_tasks).
    async fn list(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        self.list_tasks(query).await
    }

    /// The last attempts of a task that ended, oldest first.
    async fn history(&self, key: &TaskKey) -> Result<Vec<AttemptRecord>> {
        Ok(self.get_task(key).await?.attempts.to_vec())
    }

    /// Explains why a task is in its state, and what keeps it from starting.
    async fn explain(&self, key: &TaskKey) -> Result<Explanation> {
        explain(self, key).await
    }

    /// Removes the tasks of a namespace that ended at least this long ago, in batches, until none is left;
    /// returns how many were removed.
    async fn purge(&self, namespace: &Namespace, finished_for: Duration) -> Result<u64> {
        const BATCH: u32 = 1000;
        let mut count = 0;
        loop {
            let rule =
                PurgeRule { namespace: Some(namespace.clone()), queue: None, state: None, finished_for };
            let purged: Purged = self.purge_tasks(rule, BATCH).await?;
            count += u64::from(purged.count);
            if !purged.more {
                return Ok(count);
            }
        }
    }
}

#[async_trait]
impl<T: Store + ?Sized> QueueExt for T {}

/// An end reported by the holder of the lease.
struct Marked<'a> {
    leased: &'a Leased,
    outcome: Outcome,
}

impl EndReport for Marked<'_> {
    fn lease(&self) -> &Lease {
        &self.leased.lease
    }

    fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    fn leased_record(&self) -> Option<&TaskRecord> {
        Some(&self.leased.record)
    }
}

/// The error for a task that was not found: there is none, or this process cannot read it.
pub(crate) async fn absent<S: Store + ?Sized>(store: &S, key: &TaskKey) -> Result<Error> {
    let finding = store.find_quarantined(std::slice::from_ref(key)).await?.pop().flatten();
    Ok(match finding {
        Some(finding) => Error::Quarantined { key: key.clone(), reason: finding.reason },
        None => Error::NotFound { key: key.clone() },
    })
}

fn no_answer() -> Error {
    Error::Unavailable { reason: "the store answered fewer members than the batch has".to_owned() }
}

/// The caller enqueued a single task: the position in the batch would mean nothing to it.
fn without_index(error: Error) -> Error {
    match error {
        Error::Invalid(invalid) => Error::Invalid(crate::error::Invalid { index: None, ..invalid }),
        other => other,
    }
}
