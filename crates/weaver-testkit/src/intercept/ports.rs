//! The ports of an intercepted store: converts each call to data, and the answer back.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::error::Result;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::limits::Limits;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{
    Admin, Ahead, AssignableRequest, Assignments, Beat, Counts, Cursor, Directive, Document, DocumentKey,
    DocumentWrite, Documents, Expect, GroupSummary, Journal, JournalPage, Page, PurgeRule, Purged, QueueInfo,
    QueueSettings, ReadFrom, RunnerKey, RunnerRecord, Runners, Scope, Seq, StreamKey, TaskQuery, Tasks,
    TrimBefore, UnreadableRecords,
};
use weaver_core::quarantine::{Discarded, Quarantined, RawTask};
use weaver_core::queue::{
    Committed, CommittedAndLeased, EnqueueAudit, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake,
};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;

use crate::intercept::{Answer, Call, Intercept, Intercepted};

/// Makes a call, and unwraps the answer from its variant.
macro_rules! forward {
    ($store:ident, $variant:ident { $($fields:tt)* }) => {
        match $store.call(Call::$variant { $($fields)* }).await? {
            Answer::$variant(answer) => Ok(answer),
            other => panic!("the interceptor answers `{}` with {other:?}", stringify!($variant)),
        }
    };
}

#[async_trait]
impl<I: Intercept> Queue for Intercepted<I> {
    fn limits(&self) -> Limits {
        self.by.limits(&self.store)
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        forward!(self, EnqueueBatch { tasks })
    }

    fn audits_in_the_transaction(&self) -> bool {
        self.by.audits_in_the_transaction(&self.store)
    }

    async fn enqueue_audited(
        &self,
        tasks: Vec<NewTask>,
        audit: EnqueueAudit,
    ) -> Result<Vec<Result<Enqueued>>> {
        forward!(self, EnqueueAudited { tasks, audit })
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        forward!(self, Lease { request })
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        forward!(self, Commit { transitions, leader })
    }

    fn commits_and_leases_at_once(&self) -> bool {
        self.by.commits_and_leases_at_once(&self.store)
    }

    async fn commit_and_lease(
        &self,
        transitions: Vec<Transition>,
        request: LeaseRequest,
    ) -> Result<CommittedAndLeased> {
        forward!(self, CommitAndLease { transitions, request })
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        forward!(self, Renew { renewals })
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        forward!(self, ConfirmStopped { leases })
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        forward!(self, Overdue { limit })
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        forward!(self, Changes { after, limit })
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        forward!(self, Wait { interest, timeout })
    }
}

#[async_trait]
impl<I: Intercept> Assignments for Intercepted<I> {
    async fn assignable(&self, requests: Vec<AssignableRequest>) -> Result<Vec<Vec<TaskRecord>>> {
        forward!(self, Assignable { requests })
    }

    async fn assignments(&self, limit: u32) -> Result<Vec<TaskRecord>> {
        forward!(self, Assignments { limit })
    }
}

#[async_trait]
impl<I: Intercept> Tasks for Intercepted<I> {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        forward!(self, Resolve { namespace: namespace.clone(), ids: ids.to_vec() })
    }

    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        forward!(self, GetTasks { keys: keys.to_vec() })
    }

    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        forward!(self, ListGroups { namespace: namespace.clone(), cursor, limit })
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        forward!(self, ListTasks { query })
    }

    async fn counts(&self, scope: Scope) -> Result<Counts> {
        forward!(self, Counts { scope })
    }

    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
        forward!(self, AheadOf { key: key.clone(), cap })
    }
}

#[async_trait]
impl<I: Intercept> Admin for Intercepted<I> {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        forward!(self, ListQueues { namespace: namespace.clone() })
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        forward!(self, PutQueue { namespace: namespace.clone(), queue: queue.clone(), settings, expect })
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        forward!(self, PurgeTasks { rule, limit })
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        forward!(self, ListNamespaces { cursor, limit })
    }
}

#[async_trait]
impl<I: Intercept> Runners for Intercepted<I> {
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        forward!(self, Beat { beats })
    }

    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
        forward!(self, Direct { key: key.clone(), directive })
    }

    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>> {
        forward!(self, ListRunners { namespace: namespace.clone(), cursor, limit })
    }

    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        forward!(self, StopRunner { key: key.clone() })
    }
}

#[async_trait]
impl<I: Intercept> Documents for Intercepted<I> {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        forward!(self, GetDocument { key: key.clone() })
    }

    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        forward!(self, PutDocument { key: key.clone(), body, expect, due })
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        forward!(self, DeleteDocument { key: key.clone(), expect })
    }

    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        forward!(self, WriteDocuments { writes })
    }

    async fn list_documents(
        &self,
        namespace: &Namespace,
        kind: &str,
        prefix: &str,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Document>> {
        forward!(
            self,
            ListDocuments {
                namespace: namespace.clone(),
                kind: kind.to_owned(),
                prefix: prefix.to_owned(),
                cursor,
                limit
            }
        )
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        forward!(self, DueDocuments { kind: kind.to_owned(), before, limit })
    }
}

#[async_trait]
impl<I: Intercept> Journal for Intercepted<I> {
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
        forward!(self, AppendEntries { stream: stream.clone(), bodies: bodies.to_vec() })
    }

    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage> {
        forward!(self, ReadEntries { stream: stream.clone(), from, limit })
    }

    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
        forward!(self, TrimEntries { stream: stream.clone(), before })
    }
}

#[async_trait]
impl<I: Intercept> UnreadableRecords for Intercepted<I> {
    async fn list_quarantined(
        &self,
        namespace: Option<&Namespace>,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>> {
        forward!(self, ListQuarantined { namespace: namespace.cloned(), cursor, limit })
    }

    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>> {
        forward!(self, FindQuarantined { keys: keys.to_vec() })
    }

    async fn raw_task(&self, key: &TaskKey) -> Result<Option<RawTask>> {
        forward!(self, RawTask { key: key.clone() })
    }

    async fn discard_task(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded> {
        forward!(self, DiscardTask { key: key.clone(), expected: expected.clone() })
    }
}
