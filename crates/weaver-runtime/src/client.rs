//! Enqueuing tasks, and waiting for their results.

mod handle;

use std::sync::Arc;

pub use handle::{NoResult, TaskHandle};
use weaver_core::clock::Clock;
use weaver_core::error::{Error, Result};
use weaver_core::id::TaskKey;
use weaver_core::name::SharedText;
use weaver_core::ports::Store;
use weaver_core::queue::{Enqueued, QueueExt};
use weaver_core::task::NewTask;

/// Enqueues tasks on a store in this process. Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// # use weaver_core::prelude::*;
/// use weaver_runtime::{Client, SystemClock};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let clock = Arc::new(SystemClock::new());
/// let client = Client::new(Arc::new(InMemoryQueue::new(clock.clone())), clock);
/// let task = client.enqueue(NewTask::new("send_email").json("ada@example.org")?).await?;
/// println!("accepted as {}", task.key());
/// // With a worker running: `let sent: usize = task.result().await?;`
/// # task.cancel().await?;
/// # task.wait().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client of a store; `clock` times its waits.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Enqueues a task. Returns when the task is as durable as the store can make it (G1).
    pub async fn enqueue(&self, task: NewTask) -> Result<TaskHandle> {
        let task_type = task.task_type_text().clone();
        let enqueued = self.store.enqueue(task).await?;
        Ok(self.accepted(&task_type, enqueued))
    }

    /// Enqueues many tasks in one call. If one is invalid, nothing is stored; the error names it.
    ///
    /// A store may still fail for some members and not for others: then the first such error is returned, and
    /// the rest *is* enqueued. Tasks with an idempotency key can be
    /// enqueued again.
    pub async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<TaskHandle>> {
        let task_types: Vec<_> = tasks.iter().map(|task| task.task_type_text().clone()).collect();
        let answers = self.store.enqueue_batch(tasks).await?;
        if answers.len() != task_types.len() {
            let reason = "the store returned fewer results than tasks".to_owned();
            return Err(Error::Unavailable { reason });
        }
        // All of them, before the first error is returned: every stored task is logged.
        let handles = task_types.iter().zip(answers);
        let handles: Vec<_> =
            handles.map(|(task_type, answer)| Ok(self.accepted(task_type, answer?))).collect();
        handles.into_iter().collect()
    }

    /// A handle on a task that was enqueued before, by any client.
    pub fn handle(&self, key: TaskKey) -> TaskHandle {
        self.handle_of(Enqueued { key, existing: true })
    }

    /// The store it was made with.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn accepted(&self, task_type: &SharedText, enqueued: Enqueued) -> TaskHandle {
        let (namespace, id) = (&enqueued.key.namespace, enqueued.key.shown_id());
        let task_type = task_type.as_str();
        if enqueued.existing {
            tracing::debug!(task_id = %id, task_type, %namespace, "Duplicate: the existing task is kept");
        } else {
            tracing::info!(task_id = %id, task_type, %namespace, "Enqueued");
        }
        self.handle_of(enqueued)
    }

    fn handle_of(&self, enqueued: Enqueued) -> TaskHandle {
        TaskHandle::new(Arc::clone(&self.store), Arc::clone(&self.clock), enqueued)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Client").finish_non_exhaustive()
    }
}
