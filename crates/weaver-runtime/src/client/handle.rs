//! A handle on an enqueued task: status, cancellation, result.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use weaver_core::clock::Clock;
use weaver_core::error::{Error, Result};
use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::id::TaskKey;
use weaver_core::ports::Store;
use weaver_core::queue::{Enqueued, Interest, QueueExt, TaskStatus};
use weaver_core::task::{Cause, TaskRecord, TaskState};
use weaver_core::time::Monotonic;

/// The record is read again this often, even without a change event.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// Changes per call.
const CHANGES_MAX: u32 = 256;

/// A task that was enqueued. Dropping it does nothing to the task. Cheap to clone.
#[derive(Clone)]
pub struct TaskHandle {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    enqueued: Enqueued,
}

impl TaskHandle {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, enqueued: Enqueued) -> Self {
        Self { store, clock, enqueued }
    }

    /// Namespace and id of the task.
    pub fn key(&self) -> &TaskKey {
        &self.enqueued.key
    }

    /// Whether the enqueue found an existing task with the same idempotency key (G8).
    pub fn existing(&self) -> bool {
        self.enqueued.existing
    }

    /// Reads its state, attempt and progress.
    pub async fn status(&self) -> Result<TaskStatus> {
        self.store.get_status(self.key()).await
    }

    /// Cancels it, running or not. Refused if it has ended.
    pub async fn cancel(&self) -> Result<()> {
        self.store.cancel(self.key()).await
    }

    /// Waits until it has ended, in any final state. An error is the store's, not the task's: wait again.
    ///
    /// Every wait reads the whole stream of changes. To follow thousands of tasks,
    /// [`subscribe`](crate::subscribe) once.
    pub async fn wait(&self) -> Result<TaskRecord> {
        loop {
            if let Some(record) = self.wait_until(None).await? {
                return Ok(record);
            }
        }
    }

    /// Waits until it has ended, but no longer than this: then `None`.
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<Option<TaskRecord>> {
        self.wait_until(Some(self.clock.monotonic().saturating_add(timeout))).await
    }

    /// Waits until it has ended and decodes its result from JSON; a task without a result has `null`.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, NoResult> {
        let record = self.wait().await?;
        let TaskRecord { key, cause, last_error, failures, .. } = record;
        match record.state {
            TaskState::Succeeded => {
                let json = record.result.as_deref().unwrap_or(b"null");
                serde_json::from_slice(json).map_err(|error| NoResult::Undecodable {
                    key,
                    bytes: json.len(),
                    reason: error.to_string(),
                })
            }
            TaskState::Cancelled => Err(NoResult::Cancelled { key, cause, last_error }),
            _ => Err(NoResult::Failed { key, cause, last_error, failures }),
        }
    }

    async fn wait_until(&self, deadline: Option<Monotonic>) -> Result<Option<TaskRecord>> {
        // The cursor first, the record second: an end in between is then still ahead in the stream.
        let mut place = match self.store.changes(None, CHANGES_MAX).await? {
            Changes::Next { next, .. } | Changes::Resync { next } => next,
        };
        loop {
            let record = self.store.get_task(self.key()).await?;
            if record.state.is_terminal() {
                return Ok(Some(record));
            }
            let now = self.clock.monotonic();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(None);
            }
            let poll_at = now.saturating_add(POLL_EVERY);
            let until = deadline.map_or(poll_at, |deadline| deadline.min(poll_at));
            self.until_recheck(&mut place, until).await?;
        }
    }

    /// Returns when the task has ended, when events were missed, or at `until`.
    async fn until_recheck(&self, place: &mut ChangeCursor, until: Monotonic) -> Result<()> {
        let is_end = |change: &Change| change.key == *self.key() && change.state.is_terminal();
        loop {
            match self.store.changes(Some(*place), CHANGES_MAX).await? {
                Changes::Resync { next } => {
                    *place = next;
                    return Ok(());
                }
                Changes::Next { items, next } => {
                    *place = next;
                    if items.iter().any(is_end) {
                        return Ok(());
                    }
                    // A full page: more may follow at once.
                    if items.len() >= CHANGES_MAX as usize {
                        continue;
                    }
                }
            }
            let left = until.0.saturating_sub(self.clock.monotonic().0);
            if left.is_zero() {
                return Ok(());
            }
            // The store's timeout is only a hint: this clock decides when the time is over.
            let changes = self.store.wait(Interest::Changes { after: *place }, left);
            tokio::select! {
                biased;
                wake = changes => wake.map(|_| ())?,
                () = self.clock.sleep_until(until) => return Ok(()),
            }
        }
    }
}

impl std::fmt::Debug for TaskHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "TaskHandle({})", self.key())
    }
}

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoResult {
    /// The task is dead: it failed permanently.
    #[error("task {key} is dead ({}){}", CauseText(.cause), Detail(.last_error))]
    Failed {
        /// Namespace and id of the task.
        key: TaskKey,
        /// Why it is dead: failures, lost attempts, expiry.
        cause: Option<Cause>,
        /// The error of its last failed attempt.
        last_error: Option<Arc<str>>,
        /// How many of its attempts failed.
        failures: u32,
    },
    /// The task was cancelled by a caller or by its handler.
    #[error("task {key} was cancelled ({}){}", CauseText(.cause), Detail(.last_error))]
    Cancelled {
        /// Namespace and id of the task.
        key: TaskKey,
        /// Who or what cancelled it.
        cause: Option<Cause>,
        /// The handler's message, or the error of its last failed attempt.
        last_error: Option<Arc<str>>,
    },
    /// It succeeded with a result that is not a `T`.
    #[error(
        "the result of task {key} ({bytes} bytes) could not be decoded: {reason}; use the handler's return type"
    )]
    Undecodable {
        /// Namespace and id of the task.
        key: TaskKey,
        /// Length of its result.
        bytes: usize,
        /// What the JSON decoder reported.
        reason: String,
    },
    /// The store could not be read; nothing is known about the task.
    #[error(transparent)]
    Store(#[from] Error),
}

struct CauseText<'a>(&'a Option<Cause>);

impl std::fmt::Display for CauseText<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(cause) => write!(out, "{cause}"),
            None => out.write_str("no cause recorded"),
        }
    }
}

struct Detail<'a>(&'a Option<Arc<str>>);

impl std::fmt::Display for Detail<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(error) => write!(out, ": {error}"),
            None => Ok(()),
        }
    }
}
