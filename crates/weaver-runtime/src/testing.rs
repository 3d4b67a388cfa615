//! For tests of handlers: run one task inline, drain a queue, inspect what was enqueued. No worker, no
//! waiting; time is virtual.
//!
//! ```
//! use std::time::Duration;
//! use weaver_core::task::{NewTask, TaskState};
//! use weaver_runtime::testing::TestQueue;
//! use weaver_runtime::{Ctx, Registry, TaskError};
//!
//! async fn welcome(name: String, ctx: Ctx) -> Result<(), TaskError> {
//!     let reminder = NewTask::new("remind").json(&name)?;
//!     ctx.enqueue(reminder.delay(Duration::from_secs(7 * 24 * 3600))).await?;
//!     Ok(())
//! }
//!
//! async fn remind(_name: String, _ctx: Ctx) -> Result<(), TaskError> {
//!     Ok(())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let registry = Registry::new().handle("welcome", welcome)?.handle("remind", remind)?;
//! let queue = TestQueue::new();
//! queue.client().enqueue(NewTask::new("welcome").json("Ada")?).await?;
//!
//! let ended = queue.drain(&registry).await; // the week passes at once
//! assert!(ended.iter().all(|task| task.state == TaskState::Succeeded));
//! queue.assert_enqueued("remind", |payload| payload == "Ada").await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod drain;

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Order, Store, TaskQuery};
use weaver_core::queue::QueueExt;
use weaver_core::queue::memory::{InMemoryQueue, MemoryOptions};
use weaver_core::task::{NewTask, TaskRecord};

use crate::client::Client;
use crate::ctx::{Ctx, LogLimits, WorkerEnv};
use crate::execute::execute;
use crate::registry::Registry;
use crate::source::{LocalSource, WorkSource};

/// Tasks that a failed assertion lists.
const LISTED_MAX: usize = 50;
/// Payload shown by a failed assertion.
const PAYLOAD_SHOWN_CHARS: usize = 200;
/// The in-memory store does not fail.
const STORE: &str = "the in-memory store answers";

/// An in-memory store on a clock that is advanced by hand. Clones share one store.
#[derive(Clone)]
pub struct TestQueue {
    clock: ManualClock,
    store: Arc<dyn Store>,
    leases: Arc<AtomicU64>,
}

impl TestQueue {
    /// Empty, at 2026-01-01. Its retention is a hundred years, so that a test can inspect finished tasks and
    /// their idempotency keys however far it advanced the clock.
    pub fn new() -> Self {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let retention_count = usize::MAX;
        Self::with_options(MemoryOptions { retention: CENTURY, retention_count, ..MemoryOptions::default() })
    }

    /// Empty, with your retention and limits.
    pub fn with_options(options: MemoryOptions) -> Self {
        let clock = ManualClock::default();
        let store = Arc::new(InMemoryQueue::with_options(Arc::new(clock.clone()), options));
        Self { clock, store, leases: Arc::default() }
    }

    /// The in-memory store behind it.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// The clock of the store.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// A client of the store.
    pub fn client(&self) -> Client {
        Client::new(self.store(), Arc::new(self.clock.clone()))
    }

    /// Runs every task of every namespace and queue to its end, one after the other in the order a worker
    /// would take them, and returns those that ended, in order. When nothing is due, the clock is moved to
    /// when something is: a retry, a start, the expiry of an abandoned lease. Stops when time can bring
    /// nothing more; a task in a paused queue stays there.
    ///
    /// A handler that waits for this clock or for another task never returns here, and timeouts do not apply:
    /// run a [`Worker`](crate::Worker) for those.
    ///
    /// # Panics
    /// After 100,000 executions: a handler enqueues or snoozes without end.
    pub async fn drain(&self, registry: &Registry) -> Vec<TaskRecord> {
        drain::drain(self, registry).await
    }

    /// All tasks in all states, oldest first.
    pub async fn enqueued(&self) -> Vec<TaskRecord> {
        let mut records = Vec::new();
        for namespace in self.source().namespaces().await.expect(STORE) {
            let query = TaskQuery { order: Order::OldestFirst, limit: PAGE_MAX, ..TaskQuery::new(namespace) };
            let mut cursor = None;
            loop {
                let page = self.store.list_tasks(TaskQuery { cursor, ..query.clone() }).await.expect(STORE);
                records.extend(page.items);
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        records.sort_by_key(|record| record.key.id);
        records
    }

    /// Asserts that a task of this type with such a payload was enqueued, whatever its state now; returns the
    /// first one.
    ///
    /// # Panics
    /// If there is none; lists the tasks there are.
    #[track_caller]
    pub fn assert_enqueued<'a>(
        &'a self,
        task_type: &'a str,
        payload_fits: impl Fn(serde_json::Value) -> bool + 'a,
    ) -> impl Future<Output = TaskRecord> + 'a {
        // `#[track_caller]` does not reach into an `async fn`.
        let caller = Location::caller();
        async move {
            let records = self.enqueued().await;
            let fits = |record: &&TaskRecord| {
                let envelope = &record.spec.envelope;
                envelope.task_type.as_str() == task_type && envelope.decode().is_ok_and(&payload_fits)
            };
            match records.iter().find(fits) {
                Some(record) => record.clone(),
                None => panic!("{caller}: no `{task_type}` task with such a payload. {}", list(&records)),
            }
        }
    }

    fn source(&self) -> LocalSource {
        LocalSource::new(self.store())
    }

    fn context(&self, leased: Leased, registry: &Registry) -> Ctx {
        let env = WorkerEnv {
            source: Arc::new(self.source()),
            clock: Arc::new(self.clock.clone()),
            values: registry.values(),
            log_limits: LogLimits::default(),
        };
        let ctx = Ctx::new(leased, Arc::new(env));
        ctx.start(self.clock.monotonic());
        ctx
    }

    /// Leases the next due task of these queues.
    async fn lease(&self, namespace: Namespace, queues: Vec<QueueName>) -> Option<Leased> {
        // Away from the small numbers that tests use as tokens.
        let token = LeaseToken(u128::MAX - u128::from(self.leases.fetch_add(1, Ordering::Relaxed)));
        let worker = WorkerId::new("test").expect("it is a name");
        let request = LeaseRequest::new(namespace, QueueName::default(), worker, token);
        self.store.dequeue_ready(LeaseRequest { queues, ..request }).await.expect(STORE)
    }
}

impl Default for TestQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for TestQueue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "TestQueue({})", self.clock.now())
    }
}

/// Runs a task's handler once, inline and ignoring its delay, and returns its outcome. Nothing is retried,
/// and what the handler enqueues is discarded: to see that, enqueue on a [`TestQueue`] and
/// [`drain`](TestQueue::drain) it.
///
/// # Panics
/// If the task is invalid, or its `expires_at` is before 2026-01-01, where this clock starts.
pub async fn run_inline(registry: &Registry, task: NewTask) -> Outcome {
    let queue = TestQueue::new();
    let key = match queue.store.enqueue(task).await {
        Ok(enqueued) => enqueued.key,
        Err(error) => panic!("the task cannot be enqueued: {error}"),
    };
    let record = queue.store.get_task(&key).await.expect(STORE);
    if record.next_run_at().is_some() {
        queue.store.run_now(&key).await.expect(STORE);
    }
    match queue.lease(key.namespace, vec![record.spec.queue.clone()]).await {
        Some(leased) => execute(registry, &queue.context(leased, registry)).await,
        None => panic!("the task cannot start: its `expires_at` has passed at {}", queue.clock.now()),
    }
}

fn list(records: &[TaskRecord]) -> String {
    if records.is_empty() {
        return "Nothing was enqueued at all.".to_owned();
    }
    let mut text = format!("{} enqueued:", records.len());
    for TaskRecord { key, spec, state, .. } in records.iter().take(LISTED_MAX) {
        let (envelope, queue) = (&spec.envelope, &spec.queue);
        let payload = String::from_utf8_lossy(&envelope.payload);
        let payload: String = payload.chars().take(PAYLOAD_SHOWN_CHARS).collect();
        text += &format!("\n  {key} `{}` ({state}, queue `{queue}`): {payload}", envelope.task_type);
    }
    if records.len() > LISTED_MAX {
        text += &format!("\n  … and {} more", records.len() - LISTED_MAX);
    }
    text
}
