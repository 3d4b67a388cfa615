//! Every port of the decorated store: pure delegation, so that a fault has one meaning everywhere.

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
    Admin, Ahead, Beat, Counts, Cursor, Directive, Document, DocumentKey, DocumentWrite, Documents, Expect,
    GroupSummary, Journal, JournalPage, Page, PurgeRule, Purged, QueueInfo, QueueSettings, ReadFrom,
    RunnerKey, RunnerRecord, Runners, Scope, Seq, StreamKey, TaskQuery, Tasks, TrimBefore,
};
use weaver_core::queue::{Committed, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;

use crate::faults::FaultyStore;

#[async_trait]
impl Queue for FaultyStore {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        self.call("enqueue_batch", || self.inner.enqueue_batch(tasks.clone())).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        self.call("lease", || self.inner.lease(request.clone())).await
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        self.call("commit", || self.inner.commit(transitions.clone(), leader.clone())).await
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.call("renew", || self.inner.renew(renewals.clone())).await
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.call("confirm_stopped", || self.inner.confirm_stopped(leases.clone())).await
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        self.call("overdue", || self.inner.overdue(limit)).await
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        self.call("changes", || self.inner.changes(after, limit)).await
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        self.call("wait", || self.inner.wait(interest.clone(), timeout)).await
    }
}

#[async_trait]
impl Tasks for FaultyStore {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        self.call("resolve", || self.inner.resolve(namespace, ids)).await
    }

    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        let found = self.read("get_tasks", keys, || self.inner.get_tasks(keys)).await?;
        Ok(found.into_iter().map(|record| record.filter(|record| self.shows(record))).collect())
    }

    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        self.call("list_groups", || self.inner.list_groups(namespace, cursor.clone(), limit)).await
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        let mut page = self.read("list_tasks", &query, || self.inner.list_tasks(query.clone())).await?;
        page.items.retain(|record| self.shows(record));
        Ok(page)
    }

    async fn counts(&self, scope: Scope) -> Result<Counts> {
        self.read("counts", &scope, || self.inner.counts(scope.clone())).await
    }

    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
        self.call("ahead_of", || self.inner.ahead_of(key, cap)).await
    }
}

#[async_trait]
impl Admin for FaultyStore {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        self.call("list_queues", || self.inner.list_queues(namespace)).await
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        self.call("put_queue", || self.inner.put_queue(namespace, queue, settings, expect)).await
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        self.call("purge_tasks", || self.inner.purge_tasks(rule.clone(), limit)).await
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        self.call("list_namespaces", || self.inner.list_namespaces(cursor.clone(), limit)).await
    }
}

#[async_trait]
impl Runners for FaultyStore {
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        self.call("beat", || self.inner.beat(beats.clone())).await
    }

    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
        self.call("direct", || self.inner.direct(key, directive)).await
    }

    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>> {
        self.call("list_runners", || self.inner.list_runners(namespace, cursor.clone(), limit)).await
    }

    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        self.call("stop_runner", || self.inner.stop_runner(key)).await
    }
}

#[async_trait]
impl Documents for FaultyStore {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        self.read("get_document", key, || self.inner.get_document(key)).await
    }

    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        self.call("put_document", || self.inner.put_document(key, body.clone(), expect, due)).await
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        self.call("delete_document", || self.inner.delete_document(key, expect)).await
    }

    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        self.call("write_documents", || self.inner.write_documents(writes.clone())).await
    }

    async fn list_documents(
        &self,
        namespace: &Namespace,
        kind: &str,
        prefix: &str,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Document>> {
        let make = || self.inner.list_documents(namespace, kind, prefix, cursor.clone(), limit);
        self.call("list_documents", make).await
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        self.call("due_documents", || self.inner.due_documents(kind, before, limit)).await
    }
}

#[async_trait]
impl Journal for FaultyStore {
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
        self.call("append_entries", || self.inner.append_entries(stream, bodies)).await
    }

    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage> {
        self.call("read_entries", || self.inner.read_entries(stream, from, limit)).await
    }

    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
        self.call("trim_entries", || self.inner.trim_entries(stream, before)).await
    }
}
