//! PostgreSQL in a world whose time is virtual. Each call is made on a runtime of its own while the whole world waits for
//! it: nothing happens in between, which is what the checks go by. Before it, the server's clock is set to the world's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::error::Result;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::limits::Limits;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::*;
use weaver_core::queue::{Committed, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;
use weaver_postgres::PostgresStore;

use super::Schema;

/// How often a waiting worker looks, in virtual time, when nothing happens.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

/// A store in a world.
pub(crate) struct Bridge {
    shared: Arc<Inside>,
    clock: Arc<dyn Clock>,
    /// Something was written: the hints of the store itself are on real time.
    written: Notify,
}

struct Inside {
    // Before the runtime: its tasks end while there is one.
    store: PostgresStore,
    schema: Schema,
    runtime: Arc<Runtime>,
}

impl Bridge {
    pub(crate) fn open(runtime: &Arc<Runtime>, clock: Arc<dyn Clock>) -> Self {
        let schema = Schema::new();
        // Asked here: on any other thread the world's clock shows real time.
        let start = clock.now();
        let open = async {
            let waits = Arc::new(weaver_runtime::SystemClock::new());
            let store = PostgresStore::open(schema.options(), waits).await.expect("the schema can be made");
            schema.stop_clock(store.pool(), start).await;
            store
        };
        let runtime = Arc::clone(runtime);
        // Not from within the world's runtime, which must not block.
        let store = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(open)).join());
        let store = store.expect("the store opens");
        Self { shared: Arc::new(Inside { store, schema, runtime }), clock, written: Notify::new() }
    }

    pub(crate) fn drop_schema(&self) {
        let shared = Arc::clone(&self.shared);
        std::thread::scope(|scope| {
            scope.spawn(|| shared.runtime.block_on(shared.schema.drop(shared.store.pool())));
        });
    }

    fn call<T, F>(&self, make: impl FnOnce(Arc<Inside>) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send,
    {
        let (shared, now) = (Arc::clone(&self.shared), self.clock.now());
        let (sender, receiver) = std::sync::mpsc::channel();
        self.shared.runtime.spawn(async move {
            let set = format!("UPDATE weaver.test_clock SET at = '{now}' WHERE at < '{now}'");
            let set = sqlx::query(shared.schema.sql(&set)).execute(shared.store.pool());
            set.await.expect("the clock can be set");
            // Nobody waits for the answer if the test has failed.
            let _ = sender.send(make(shared).await);
        });
        receiver.recv().expect("the call does not panic")
    }
}

macro_rules! pass_on {
    ($self:ident.$method:ident($($argument:ident),*)) => {
        $self.call(move |inside| async move { inside.store.$method($($argument),*).await })
    };
}

/// Passes a call on, and then wakes whoever waits.
macro_rules! write_on {
    ($self:ident.$method:ident($($argument:ident),*)) => {{
        let answer = pass_on!($self.$method($($argument),*));
        $self.written.notify_waiters();
        answer
    }};
}

#[async_trait]
impl Queue for Bridge {
    fn limits(&self) -> Limits {
        self.shared.store.limits()
    }
    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        write_on!(self.enqueue_batch(tasks))
    }
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        pass_on!(self.lease(request))
    }
    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        write_on!(self.commit(transitions, leader))
    }
    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        pass_on!(self.renew(renewals))
    }
    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        write_on!(self.confirm_stopped(leases))
    }
    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        pass_on!(self.overdue(limit))
    }
    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        pass_on!(self.changes(after, limit))
    }
    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        loop {
            let (asked, none) = (interest.clone(), Duration::ZERO);
            let found: Result<Wake> = pass_on!(self.wait(asked, none));
            if found? == Wake::Ready {
                return Ok(Wake::Ready);
            }
            let now = self.clock.monotonic();
            if now >= deadline {
                return Ok(Wake::TimedOut);
            }
            tokio::select! {
                () = self.written.notified() => {}
                () = self.clock.sleep_until(now.saturating_add(LOOKS_EVERY).min(deadline)) => {}
            }
        }
    }
}

#[async_trait]
impl Tasks for Bridge {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        self.shared.store.resolve(namespace, ids).await
    }
    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        let keys = keys.to_vec();
        self.call(move |inside| async move { inside.store.get_tasks(&keys).await })
    }
    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        let namespace = namespace.clone();
        self.call(move |inside| async move { inside.store.list_groups(&namespace, cursor, limit).await })
    }
    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        pass_on!(self.list_tasks(query))
    }
    async fn counts(&self, scope: Scope) -> Result<Counts> {
        pass_on!(self.counts(scope))
    }
    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
        let key = key.clone();
        self.call(move |inside| async move { inside.store.ahead_of(&key, cap).await })
    }
}

#[async_trait]
impl Admin for Bridge {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        let namespace = namespace.clone();
        self.call(move |inside| async move { inside.store.list_queues(&namespace).await })
    }
    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        let (namespace, queue) = (namespace.clone(), queue.clone());
        self.call(
            move |inside| async move { inside.store.put_queue(&namespace, &queue, settings, expect).await },
        )
    }
    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        pass_on!(self.purge_tasks(rule, limit))
    }
    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        pass_on!(self.list_namespaces(cursor, limit))
    }
}

#[async_trait]
impl Runners for Bridge {
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        pass_on!(self.beat(beats))
    }
    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
        let key = key.clone();
        self.call(move |inside| async move { inside.store.direct(&key, directive).await })
    }
    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>> {
        let namespace = namespace.clone();
        self.call(move |inside| async move { inside.store.list_runners(&namespace, cursor, limit).await })
    }
    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        let key = key.clone();
        self.call(move |inside| async move { inside.store.stop_runner(&key).await })
    }
}

#[async_trait]
impl Documents for Bridge {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        let key = key.clone();
        self.call(move |inside| async move { inside.store.get_document(&key).await })
    }
    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        let key = key.clone();
        self.call(move |inside| async move { inside.store.put_document(&key, body, expect, due).await })
    }
    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        let key = key.clone();
        self.call(move |inside| async move { inside.store.delete_document(&key, expect).await })
    }
    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        self.call(move |inside| async move { inside.store.write_documents(writes).await })
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
        self.call(move |inside| async move {
            inside.store.list_documents(&namespace, &kind, &prefix, cursor, limit).await
        })
    }
    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        let kind = kind.to_owned();
        self.call(move |inside| async move { inside.store.due_documents(&kind, before, limit).await })
    }
}

#[async_trait]
impl Journal for Bridge {
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
        let (stream, bodies) = (stream.clone(), bodies.to_vec());
        self.call(move |inside| async move { inside.store.append_entries(&stream, &bodies).await })
    }
    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage> {
        let stream = stream.clone();
        self.call(move |inside| async move { inside.store.read_entries(&stream, from, limit).await })
    }
    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
        let stream = stream.clone();
        self.call(move |inside| async move { inside.store.trim_entries(&stream, before).await })
    }
}
