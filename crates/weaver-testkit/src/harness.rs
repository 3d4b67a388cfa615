//! The test harness: a store under test, its clock, and helpers for common steps; and workers on it.

pub mod steps;
mod workers;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{DocumentKey, RunnerKey, Store};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::queue::{Committed, Enqueued};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;

pub use workers::{Notes, Patience, Running, WorkerHarness};

/// A fresh, empty store on a manual clock.
#[async_trait]
pub trait TestStore: Send + Sync {
    /// The store under test; another instance after [`corrupt`](Self::corrupt).
    fn store(&self) -> Arc<dyn Store>;
    /// Moves the store's clock forward.
    async fn advance(&self, by: Duration);
    /// Current time of the store's clock.
    async fn now(&self) -> Timestamp;
    /// Makes a stored record unreadable by changing its stored form. The store may be reopened for it: no
    /// other reference may exist. False if this store cannot have such a record; nothing is changed then.
    async fn corrupt(&self, record: &CorruptedRecord, how: Corruption) -> bool;
}

/// Selects the record that a test makes unreadable.
#[derive(Debug, Clone)]
pub enum CorruptedRecord {
    /// A task of any state.
    Task(TaskKey),
    /// The settings of a queue.
    QueueSettings(Namespace, QueueName),
    /// The last heartbeat of a worker.
    Runner(RunnerKey),
    /// A document of any kind.
    Document(DocumentKey),
}

/// How a record is made unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corruption {
    /// Its contents cannot be decoded; indexes and counts that are stored separately stay intact.
    Undecodable,
    /// It has a format number of a newer Weaver.
    UnknownFormat,
}

/// A fresh in-memory store on a manual clock.
pub fn in_memory() -> Box<dyn TestStore> {
    Box::new(InMemory::new(ManualClock::default()))
}

struct InMemory {
    clock: ManualClock,
    queue: Arc<InMemoryQueue>,
}

impl InMemory {
    fn new(clock: ManualClock) -> Self {
        let queue = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        Self { clock, queue }
    }
}

#[async_trait]
impl TestStore for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        self.queue.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn corrupt(&self, _record: &CorruptedRecord, _how: Corruption) -> bool {
        // It stores records, not bytes.
        false
    }
}

/// A future that a factory or a test returns.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Makes a fresh store for each test.
pub type Factory = Arc<dyn Fn() -> Boxed<Box<dyn TestStore>> + Send + Sync>;

/// Argument of every conformance test: the store and helpers.
#[derive(Clone)]
pub struct Harness {
    test_store: Arc<dyn TestStore>,
    /// The store under test.
    pub store: Arc<dyn Store>,
    tokens: Arc<AtomicU64>,
}

impl Harness {
    /// Opens a fresh store.
    pub async fn open(factory: &Factory) -> Self {
        Self::on(factory().await.into())
    }

    fn on(test_store: Arc<dyn TestStore>) -> Self {
        Self { store: test_store.store(), test_store, tokens: Arc::default() }
    }

    /// Makes a stored record unreadable; the store may be a new instance afterwards. False if this store
    /// cannot have such a record.
    pub async fn corrupt(self, record: CorruptedRecord, how: Corruption) -> (Self, bool) {
        let Self { test_store, store, tokens } = self;
        drop(store);
        let done = test_store.corrupt(&record, how).await;
        (Self { store: test_store.store(), test_store, tokens }, done)
    }

    /// Moves the store's clock forward.
    pub async fn advance(&self, by: Duration) {
        self.test_store.advance(by).await;
    }

    /// Current time of the store's clock.
    pub async fn now(&self) -> Timestamp {
        self.test_store.now().await
    }

    /// A token no other lease call of this test has used.
    pub fn token(&self) -> LeaseToken {
        LeaseToken(1 + u128::from(self.tokens.fetch_add(1, Ordering::Relaxed)))
    }

    /// A lease request by worker `w` on queue `default` of namespace `default` for up to `max` tasks, all of
    /// which may be fragile, for 30 s.
    pub fn request(&self, max: u32) -> LeaseRequest {
        let worker = worker("w");
        LeaseRequest {
            max,
            slots: max,
            ..LeaseRequest::new(Namespace::default(), QueueName::default(), worker, self.token())
        }
    }

    /// Enqueues one task, which must be new.
    pub async fn enqueue(&self, task: NewTask) -> TaskKey {
        let enqueued = self.enqueue_or_find(task).await;
        assert!(!enqueued.existing, "{} existed before", enqueued.key);
        enqueued.key
    }

    /// Enqueues one task, which may be deduplicated.
    pub async fn enqueue_or_find(&self, task: NewTask) -> Enqueued {
        let mut answers = self.store.enqueue_batch(vec![task]).await.expect("the task is valid");
        assert_eq!(answers.len(), 1);
        answers.remove(0).expect("the task is stored")
    }

    /// Leases up to `max` tasks of queue `default` as worker `w`.
    pub async fn lease(&self, max: u32) -> Vec<Leased> {
        self.lease_as(self.request(max)).await
    }

    /// Leases as the request says; the request must be valid.
    pub async fn lease_as(&self, request: LeaseRequest) -> Vec<Leased> {
        self.store.lease(request).await.expect("the lease call is valid")
    }

    /// Leases exactly one task of queue `default` as worker `w`.
    pub async fn lease_one(&self) -> Leased {
        let mut leased = self.lease(1).await;
        assert_eq!(leased.len(), 1, "a task should be due");
        leased.remove(0)
    }

    /// Leases everything that is due, in order, and returns the keys.
    pub async fn lease_keys(&self, max: u32) -> Vec<TaskKey> {
        self.lease(max).await.into_iter().map(|leased| leased.lease.key).collect()
    }

    /// Decides the outcome of a leased task and commits it.
    pub async fn finish(&self, leased: &Leased, outcome: Outcome) -> Committed {
        self.store.commit(vec![end_of(leased, outcome)], None).await.expect("the store answers").remove(0)
    }

    /// Reports success; the store must apply it.
    pub async fn succeed(&self, leased: &Leased) {
        let answer = self.finish(leased, Outcome::DONE).await;
        assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");
    }

    /// Reads the record, decides a command on it and commits that.
    pub async fn command(&self, key: &TaskKey, command: Command) -> Committed {
        let record = self.record(key).await;
        let transition = decide(&record, command, self.now().await).expect("the command is allowed");
        self.store.commit(vec![transition], None).await.expect("the store answers").remove(0)
    }

    /// Reads a task that must exist.
    pub async fn record(&self, key: &TaskKey) -> TaskRecord {
        self.find(key).await.unwrap_or_else(|| panic!("{key} should exist"))
    }

    /// Reads a task that may not exist.
    pub async fn find(&self, key: &TaskKey) -> Option<TaskRecord> {
        self.store.get_tasks(std::slice::from_ref(key)).await.expect("the store answers").remove(0)
    }

    /// Runs maintenance as a worker does: expires overdue leases and tasks and ends cancellation holds.
    /// Returns their number.
    pub async fn maintain(&self) -> usize {
        let overdue = self.store.overdue(1000).await.expect("the store answers");
        let count = overdue.len();
        let now = self.now().await;
        for item in overdue {
            if let Some(hold) = item.record.hold() {
                self.store.confirm_stopped(vec![hold]).await.expect("the store answers");
                continue;
            }
            let transition = decide(&item.record, Command::Expire(item.reason), now).expect("it is overdue");
            let answer =
                self.store.commit(vec![transition], None).await.expect("the store answers").remove(0);
            assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");
        }
        count
    }

    /// Spawns a future on the test's runtime.
    #[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        tokio::spawn(future)
    }
}

/// Decides the outcome of a leased task, without committing it.
pub fn end_of(leased: &Leased, outcome: Outcome) -> Transition {
    let command = Command::Finish { lease: leased.lease.clone(), outcome };
    decide(&leased.record, command, leased.record.updated_at).expect("the lease was valid")
}

/// Parses the name of a worker; panics if it is invalid.
pub fn worker(name: &str) -> WorkerId {
    WorkerId::try_from(name).expect("a valid name")
}

/// Parses the name of a namespace; panics if it is invalid.
pub fn namespace(name: &str) -> Namespace {
    Namespace::try_from(name).expect("a valid name")
}

/// Parses the name of a queue; panics if it is invalid.
pub fn queue(name: &str) -> QueueName {
    QueueName::try_from(name).expect("a valid name")
}

/// The simplest task: type `t`, payload `null`, queue `default`, namespace `default`.
pub fn task() -> NewTask {
    NewTask::new("t")
}

/// Short for [`Duration::from_secs`] in tests.
pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
