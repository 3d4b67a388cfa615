//! A store on a runtime of its own, in a world whose time is virtual. Each call is carried out to its end while the world's
//! thread stands still, so that it takes no virtual time and nothing happens in between, which is what the checks go by. So
//! a world can use a store behind a network, and its seeds mean what they mean elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
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
    RunnerKey, RunnerRecord, Runners, Scope, Seq, Store, StreamKey, TaskQuery, Tasks, TrimBefore,
    UnreadableRecords,
};
use weaver_core::quarantine::{Discarded, Quarantined, RawTask};
use weaver_core::queue::{Committed, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::{Monotonic, Timestamp};

/// How often a waiter looks, in virtual time, when nothing happens here.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Tells the store what time it is in the world, before each call.
pub type TellTime =
    Box<dyn Fn(Timestamp, Monotonic) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A store on a runtime of its own.
pub struct Elsewhere {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    runtime: Handle,
    tell_time: TellTime,
    /// Something was written: the store's own hints come on real time.
    changed: Notify,
}

/// Carries a future out on a runtime while the caller's thread stands still.
pub fn carry_out<T: Send + 'static>(runtime: &Handle, future: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    // Nobody waits for the answer if the test has failed.
    runtime.spawn(async move { drop(sender.send(future.await)) });
    receiver.recv().expect("the call comes to its end")
}

impl Elsewhere {
    /// A store, on the world's clock.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, runtime: Handle, tell_time: TellTime) -> Self {
        Self { store, clock, runtime, tell_time, changed: Notify::new() }
    }

    fn step<T, F>(&self, call: impl FnOnce(Arc<dyn Store>) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        // Asked here: on any other thread the world's clock shows real time.
        let told = (self.tell_time)(self.clock.now(), self.clock.monotonic());
        let called = call(Arc::clone(&self.store));
        carry_out(&self.runtime, async move {
            told.await;
            called.await
        })
    }

    /// The same for a call after which somebody who waits may find something.
    fn change<T, F>(&self, call: impl FnOnce(Arc<dyn Store>) -> F) -> T
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
impl Queue for Elsewhere {
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
                () = self.clock.sleep_until(deadline.min(now.saturating_add(LOOKS_EVERY))) => {}
            }
        }
    }
}

#[async_trait]
impl Tasks for Elsewhere {
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
impl Admin for Elsewhere {
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
impl UnreadableRecords for Elsewhere {
    async fn list_quarantined(
        &self,
        namespace: Option<&Namespace>,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>> {
        let namespace = namespace.cloned();
        self.step(|store| async move { store.list_quarantined(namespace.as_ref(), cursor, limit).await })
    }

    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>> {
        let keys = keys.to_vec();
        self.step(|store| async move { store.find_quarantined(&keys).await })
    }

    async fn raw_task(&self, key: &TaskKey) -> Result<Option<RawTask>> {
        let key = key.clone();
        self.step(|store| async move { store.raw_task(&key).await })
    }

    async fn discard_task(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded> {
        let (key, expected) = (key.clone(), expected.clone());
        self.change(|store| async move { store.discard_task(&key, &expected).await })
    }
}

#[async_trait]
impl Runners for Elsewhere {
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
impl Documents for Elsewhere {
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
impl Journal for Elsewhere {
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
