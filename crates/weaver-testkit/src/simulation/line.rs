//! One caller's line to the store. It sits *inside* the faults, so that it sees what was really carried out, and it is
//! where a worker dies right after a call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use weaver_core::error::Result;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::limits::Limits;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{
    Admin, Ahead, Beat, Counts, Cursor, Directive, Document, DocumentKey, Expect, GroupSummary, JournalPage,
    Page, PurgeRule, Purged, QueueInfo, QueueSettings, ReadFrom, RunnerKey, RunnerRecord, Scope, Seq, Store,
    StreamKey, TaskQuery, TrimBefore,
};
use weaver_core::queue::{Committed, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;

use crate::simulation::delegate::{delegate_side_ports, delegate_tasks_port};
use crate::simulation::ghost::{Call, Copies};
use crate::simulation::history::{Grant, Recorder, What};
use crate::simulation::life::Switch;

/// A line to the store.
pub(super) struct Line {
    by: String,
    store: Arc<dyn Store>,
    recorder: Recorder,
    dies: Option<Death>,
    copies: Option<Copies>,
    calls: Mutex<HashMap<&'static str, u64>>,
}

/// After which call the caller dies.
pub(super) struct Death {
    pub(super) method: &'static str,
    pub(super) number: u64,
    pub(super) switch: Switch,
}

impl Line {
    pub(super) fn new(by: &str, store: Arc<dyn Store>, recorder: Recorder) -> Self {
        Self { by: by.to_owned(), store, recorder, dies: None, copies: None, calls: Mutex::default() }
    }

    /// Of a worker, which may die, and some of whose calls arrive twice.
    pub(super) fn troubled(self, dies: Option<Death>, copies: Copies) -> Self {
        Self { dies, copies: Some(copies), ..self }
    }

    async fn read(&self, key: &TaskKey) -> Option<TaskRecord> {
        let found =
            self.store.get_tasks(std::slice::from_ref(key)).await.expect("the store in memory answers");
        found.into_iter().next().flatten()
    }

    /// What was known of a record, and what is true now.
    async fn look(&self, key: &TaskKey) -> (Option<Box<TaskRecord>>, Option<Box<TaskRecord>>) {
        let now = self.read(key).await;
        (self.recorder.learn(key, now.as_ref()), now.map(Box::new))
    }

    /// The call was carried out; if its caller dies now, it never hears of it.
    async fn done(&self, method: &'static str) {
        let number = {
            let mut calls = self.calls.lock();
            let number = calls.entry(method).or_default();
            *number += 1;
            *number
        };
        if let Some(death) =
            self.dies.as_ref().filter(|death| (death.method, death.number) == (method, number))
        {
            death.switch.pull();
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Queue for Line {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        let limits = self.store.limits();
        let asked: Vec<_> = tasks.iter().map(|task| task.clone().validate(&limits)).collect();
        let answers = self.store.enqueue_batch(tasks).await?;
        for (asked, answer) in asked.into_iter().zip(&answers) {
            if let (Ok(asked), Ok(answer)) = (asked, answer) {
                let (_, record) = self.look(&answer.key).await;
                let (by, answer) = (self.by.clone(), answer.clone());
                self.recorder.write(What::Enqueued { by, asked, answer, record });
            }
        }
        self.done("enqueue_batch").await;
        Ok(answers)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        let answers = self.store.lease(request.clone()).await?;
        let mut grants = Vec::new();
        for leased in &answers {
            let (before, after) = self.look(&leased.lease.key).await;
            let (lease, given) = (leased.lease.clone(), Box::new(leased.record.clone()));
            grants.push(Grant { lease, before, given, after });
        }
        self.recorder.write(What::Leased { request, grants });
        self.done("lease").await;
        Ok(answers)
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        self.copies.iter().for_each(|copies| copies.keep(|| Call::Commit(transitions.clone())));
        let mut answers = Vec::new();
        for batch in without_repetitions(transitions, |transition| &transition.key) {
            let made = self.store.commit(batch.clone(), leader.clone()).await?;
            for (transition, answer) in batch.into_iter().zip(&made) {
                let (before, after) = self.look(&transition.key).await;
                let (by, transition, answer) = (self.by.clone(), Box::new(transition), answer.clone());
                self.recorder.write(What::Committed { by, transition, answer, before, after });
            }
            answers.extend(made);
        }
        self.done("commit").await;
        Ok(answers)
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.copies.iter().for_each(|copies| copies.keep(|| Call::Renew(renewals.clone())));
        let mut answers = Vec::new();
        for batch in without_repetitions(renewals, |renewal| &renewal.lease.key) {
            let leases: Vec<_> = batch.iter().map(|renewal| renewal.lease.clone()).collect();
            let made = self.store.renew(batch).await?;
            for (lease, answer) in leases.into_iter().zip(&made) {
                let (before, after) = self.look(&lease.key).await;
                self.recorder.write(What::Renewed { lease, answer: *answer, before, after });
            }
            answers.extend(made);
        }
        self.done("renew").await;
        Ok(answers)
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.store.confirm_stopped(leases.clone()).await?;
        for lease in leases {
            let (before, after) = self.look(&lease.key).await;
            self.recorder.write(What::Stopped { by: self.by.clone(), lease, before, after });
        }
        self.done("confirm_stopped").await;
        Ok(())
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        let answer = self.store.overdue(limit).await?;
        self.done("overdue").await;
        Ok(answer)
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        self.store.changes(after, limit).await
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        self.store.wait(interest, timeout).await
    }
}

#[async_trait]
impl Admin for Line {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        self.store.list_queues(namespace).await
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        let version = self.store.put_queue(namespace, queue, settings, expect).await?;
        self.recorder.write(What::QueueSet(namespace.clone(), queue.clone(), settings));
        Ok(version)
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        self.store.purge_tasks(rule, limit).await
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        self.store.list_namespaces(cursor, limit).await
    }
}

/// Cuts a batch before each task that it has already named, so that it is known which member changed what. Members are
/// independent, so nothing else changes.
fn without_repetitions<T>(members: Vec<T>, key: impl Fn(&T) -> &TaskKey) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = vec![Vec::new()];
    for member in members {
        let repeated =
            batches.last().is_some_and(|batch| batch.iter().any(|other| key(other) == key(&member)));
        if repeated {
            batches.push(Vec::new());
        }
        batches.last_mut().expect("there is one at least").push(member);
    }
    batches
}

delegate_tasks_port!(Line, store);
delegate_side_ports!(Line, store);
