//! A store whose calls take no virtual time: each is carried out to its end on a runtime of its own, while the world's thread
//! waits for it. So a world on paused time can use a store on the network, and its seeds mean what they mean elsewhere.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use weaver_core::clock::{Clock, Sleep};
use weaver_core::error::Result;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::limits::Limits;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{
    Admin, Ahead, Beat, Counts, Cursor, Directive, Document, DocumentKey, DocumentWrite, Documents, Expect,
    GroupSummary, Journal, JournalPage, Page, PurgeRule, Purged, QueueInfo, QueueSettings, ReadFrom,
    RunnerKey, RunnerRecord, Runners, Scope, Seq, StreamKey, TaskQuery, Tasks, TrimBefore,
};
use weaver_core::queue::{Committed, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::{Monotonic, Timestamp};
use weaver_dynamodb::{DynamoOptions, DynamoStore};

use super::lagging::Lagging;
use super::proxy::{Fault, Proxy, Request};
use super::remembering::Remembering;

/// How often a waiter looks, as the store itself does.
const POLL: Duration = Duration::from_secs(1);

/// The world's time as the store sees it: it stands still during a call.
#[derive(Debug, Default)]
struct Mirror(Mutex<(Timestamp, Duration)>);

impl Clock for Mirror {
    fn now(&self) -> Timestamp {
        self.0.lock().0
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.0.lock().1)
    }

    fn sleep_until(&self, _deadline: Monotonic) -> Sleep {
        // No call of the store sleeps but `wait`, which is made of looks here.
        Box::pin(std::future::pending())
    }
}

/// The store, one step at a time.
pub(crate) struct Stepped {
    store: Arc<DynamoStore>,
    clock: Arc<dyn Clock>,
    mirror: Arc<Mirror>,
    changed: Notify,
    _line: Option<Proxy>,
}

/// What the bad line does to a request: of a hundred writes it loses three answers and three requests, and three are throttled.
fn fault(seed: u64, number: u64, operation: &str) -> Fault {
    if matches!(operation, "Query" | "GetItem" | "BatchGetItem") {
        return Fault::None;
    }
    // As good as dice: neighbours have nothing in common.
    let mut bits = (seed << 32 | number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    match (bits ^ (bits >> 31)) % 100 {
        0..3 => Fault::AnswerLost,
        3..6 => Fault::Unheard,
        6..9 => Fault::Refused("ProvisionedThroughputExceededException"),
        _ => Fault::None,
    }
}

/// Where requests are sent from.
fn io() -> &'static Runtime {
    static IO: OnceLock<Runtime> = OnceLock::new();
    IO.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("a runtime can be had")
    })
}

/// Carries a future out while the caller's thread stands still.
fn carry_out<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    io().spawn(async move { sender.send(future.await) });
    receiver.recv().expect("the call comes to its end")
}

impl Stepped {
    /// A store in a database of its own, on the world's clock, behind indexes that lag and, if asked for, a bad line whose faults
    /// are drawn from the seed.
    pub(crate) fn open(clock: Arc<dyn Clock>, seed: u64, has_bad_line: bool) -> Self {
        let mirror = Arc::new(Mirror::default());
        *mirror.0.lock() = (clock.now(), clock.monotonic().0);
        let time: Arc<dyn Clock> = mirror.clone();
        let (store, line) = carry_out(async move {
            let database = super::database();
            let db = super::connect(&database).await;
            let (db, line) = if has_bad_line {
                let sent = AtomicU64::new(0);
                let plan = move |request: &Request<'_>| {
                    fault(seed, sent.fetch_add(1, Ordering::Relaxed), request.operation)
                };
                let line = Proxy::before(&database, plan).await;
                (line.connection(&database).open().expect("the proxy is local"), Some(line))
            } else {
                (db, None)
            };
            let db = Lagging::new(Remembering::new(db), Arc::clone(&time));
            (Arc::new(DynamoStore::new(Arc::new(db), time, DynamoOptions::default())), line)
        });
        Self { store, clock, mirror, changed: Notify::new(), _line: line }
    }

    fn step<T, F>(&self, call: impl FnOnce(Arc<DynamoStore>) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        *self.mirror.0.lock() = (self.clock.now(), self.clock.monotonic().0);
        carry_out(call(Arc::clone(&self.store)))
    }

    /// The same for a call after which somebody who waits may find something.
    fn change<T, F>(&self, call: impl FnOnce(Arc<DynamoStore>) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let answer = self.step(call);
        self.changed.notify_waiters();
        answer
    }
}

#[async_trait]
impl Queue for Stepped {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        self.change(|store| async move { store.enqueue_batch(tasks).await })
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        self.step(|store| async move { store.lease(request).await })
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        self.change(|store| async move { store.commit(transitions, leader).await })
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.step(|store| async move { store.renew(renewals).await })
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.change(|store| async move { store.confirm_stopped(leases).await })
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        self.step(|store| async move { store.overdue(limit).await })
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        self.step(|store| async move { store.changes(after, limit).await })
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let look = interest.clone();
            let seen = self.step(|store| async move { store.wait(look, Duration::ZERO).await })?;
            let now = self.clock.monotonic();
            if seen == Wake::Ready || now >= deadline {
                return Ok(seen);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = self.clock.sleep_until(deadline.min(now.saturating_add(POLL))) => {}
            }
        }
    }
}

#[async_trait]
impl Tasks for Stepped {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        let (namespace, ids) = (namespace.clone(), ids.to_vec());
        self.step(|store| async move { store.resolve(&namespace, &ids).await })
    }

    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        let keys = keys.to_vec();
        self.step(|store| async move { store.get_tasks(&keys).await })
    }

    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        let namespace = namespace.clone();
        self.step(|store| async move { store.list_groups(&namespace, cursor, limit).await })
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        self.step(|store| async move { store.list_tasks(query).await })
    }

    async fn counts(&self, scope: Scope) -> Result<Counts> {
        self.step(|store| async move { store.counts(scope).await })
    }

    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
        let key = key.clone();
        self.step(|store| async move { store.ahead_of(&key, cap).await })
    }
}

#[async_trait]
impl Admin for Stepped {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        let namespace = namespace.clone();
        self.step(|store| async move { store.list_queues(&namespace).await })
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        let (namespace, queue) = (namespace.clone(), queue.clone());
        self.change(|store| async move { store.put_queue(&namespace, &queue, settings, expect).await })
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        self.step(|store| async move { store.purge_tasks(rule, limit).await })
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        self.step(|store| async move { store.list_namespaces(cursor, limit).await })
    }
}

#[async_trait]
impl Runners for Stepped {
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        self.step(|store| async move { store.beat(beats).await })
    }

    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
        let key = key.clone();
        self.step(|store| async move { store.direct(&key, directive).await })
    }

    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>> {
        let namespace = namespace.clone();
        self.step(|store| async move { store.list_runners(&namespace, cursor, limit).await })
    }

    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        let key = key.clone();
        self.step(|store| async move { store.stop_runner(&key).await })
    }
}

#[async_trait]
impl Documents for Stepped {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        let key = key.clone();
        self.step(|store| async move { store.get_document(&key).await })
    }

    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        let key = key.clone();
        self.step(|store| async move { store.put_document(&key, body, expect, due).await })
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        let key = key.clone();
        self.step(|store| async move { store.delete_document(&key, expect).await })
    }

    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        self.step(|store| async move { store.write_documents(writes).await })
    }

    async fn list_documents(
        &self,
        namespace: &Namespace,
        kind: &str,
        prefix: &str,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Document>> {
        let (namespace, kind, prefix) = (namespace.clone(), kind.to_owned(), prefix.to_owned());
        self.step(
            |store| async move { store.list_documents(&namespace, &kind, &prefix, cursor, limit).await },
        )
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        let kind = kind.to_owned();
        self.step(|store| async move { store.due_documents(&kind, before, limit).await })
    }
}

#[async_trait]
impl Journal for Stepped {
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
        let (stream, bodies) = (stream.clone(), bodies.to_vec());
        self.step(|store| async move { store.append_entries(&stream, &bodies).await })
    }

    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage> {
        let stream = stream.clone();
        self.step(|store| async move { store.read_entries(&stream, from, limit).await })
    }

    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
        let stream = stream.clone();
        self.step(|store| async move { store.trim_entries(&stream, before).await })
    }
}
