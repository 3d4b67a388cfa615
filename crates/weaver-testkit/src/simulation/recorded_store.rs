//! Records the calls of one caller. It is *inside* the fault decorator, so that it sees what was really
//! executed, and it is where a worker crashes right after a call.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::ports::Store;
use weaver_core::queue::{Committed, CommittedAndLeased, Enqueued, LeaderEpoch};
use weaver_core::task::{NewTask, TaskRecord};

use crate::intercept::{Answer, Call, Intercept, Intercepted};
use crate::simulation::history::{Grant, Recorder, What};
use crate::simulation::worker_life::KillSwitch;
use crate::simulation::zombie_worker::Copies;

/// A store whose calls are recorded.
pub(super) type RecordedStore = Intercepted<CallRecorder>;

/// Records the calls of one caller.
pub(super) struct CallRecorder {
    by: String,
    recorder: Recorder,
    dies: Option<Death>,
    copies: Option<Copies>,
    calls: Mutex<HashMap<&'static str, u64>>,
}

/// The call after which the caller crashes.
pub(super) struct Death {
    pub(super) method: &'static str,
    pub(super) number: u64,
    pub(super) switch: KillSwitch,
}

impl RecordedStore {
    pub(super) fn new(by: &str, store: Arc<dyn Store>, recorder: Recorder) -> Self {
        let caller =
            CallRecorder { by: by.to_owned(), recorder, dies: None, copies: None, calls: Mutex::default() };
        Self::of(store, caller)
    }

    /// For a worker that may crash, and some of whose calls are replayed.
    pub(super) fn with_faults(mut self, dies: Option<Death>, copies: Copies) -> Self {
        (self.by.dies, self.by.copies) = (dies, Some(copies));
        self
    }
}

#[async_trait]
impl Intercept for CallRecorder {
    async fn around(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        let (method, store) = (call.method(), store.as_ref());
        if matches!(call, Call::Commit { .. } | Call::CommitAndLease { .. } | Call::Renew { .. }) {
            self.copies.iter().for_each(|copies| copies.keep(|| call.clone()));
        }
        let answer = match call {
            Call::EnqueueBatch { tasks } => Answer::EnqueueBatch(self.enqueue(tasks, store).await?),
            Call::Lease { request } => Answer::Lease(self.lease(request, store).await?),
            Call::Commit { transitions, leader } => {
                Answer::Commit(self.commit(transitions, leader, store).await?)
            }
            Call::CommitAndLease { transitions, request } => {
                // In two calls: a record may be moved by both, and each change is recorded.
                let committed = self.commit(transitions, None, store).await?;
                let leased = self.lease(request, store).await;
                Answer::CommitAndLease(CommittedAndLeased { committed, leased })
            }
            Call::Renew { renewals } => Answer::Renew(self.renew(renewals, store).await?),
            Call::ConfirmStopped { leases } => {
                self.confirm_stopped(leases, store).await?;
                Answer::ConfirmStopped(())
            }
            Call::PutQueue { namespace, queue, settings, expect } => {
                let version = store.put_queue(&namespace, &queue, settings, expect).await?;
                self.recorder.write(What::QueueSet(namespace, queue, settings));
                return Ok(Answer::PutQueue(version));
            }
            Call::Overdue { .. } => call.send(store).await?,
            other => return other.send(store).await,
        };
        self.done(method).await;
        Ok(answer)
    }
}

impl CallRecorder {
    /// The known and the current state of a record.
    async fn read_back(
        &self,
        key: &TaskKey,
        store: &dyn Store,
    ) -> (Option<Box<TaskRecord>>, Option<Box<TaskRecord>>) {
        let found = store.get_tasks(std::slice::from_ref(key)).await.expect("the store answers");
        let now = found.into_iter().next().flatten();
        (self.recorder.learn(key, now.as_ref()), now.map(Box::new))
    }

    /// The call was executed; a caller that crashes now never gets the answer.
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

    async fn enqueue(&self, tasks: Vec<NewTask>, store: &dyn Store) -> Result<Vec<Result<Enqueued>>> {
        let limits = store.limits();
        let requested: Vec<_> = tasks.iter().map(|task| task.clone().validate(&limits)).collect();
        let answers = store.enqueue_batch(tasks).await?;
        for (requested, answer) in requested.into_iter().zip(&answers) {
            if let (Ok(requested), Ok(answer)) = (requested, answer) {
                let (_, record) = self.read_back(&answer.key, store).await;
                let (by, answer) = (self.by.clone(), answer.clone());
                self.recorder.write(What::Enqueued { by, requested, answer, record });
            }
        }
        Ok(answers)
    }

    async fn lease(&self, request: LeaseRequest, store: &dyn Store) -> Result<Vec<Leased>> {
        let answers = store.lease(request.clone()).await?;
        let mut grants = Vec::new();
        for leased in &answers {
            let (before, after) = self.read_back(&leased.lease.key, store).await;
            let (lease, given) = (leased.lease.clone(), Box::new(leased.record.clone()));
            grants.push(Grant { lease, before, given, after });
        }
        self.recorder.write(What::Leased { request, grants });
        Ok(answers)
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
        store: &dyn Store,
    ) -> Result<Vec<Committed>> {
        let mut answers = Vec::new();
        for batch in without_repetitions(transitions, |transition| &transition.key) {
            let made = store.commit(batch.clone(), leader.clone()).await?;
            for (transition, answer) in batch.into_iter().zip(&made) {
                let (before, after) = self.read_back(&transition.key, store).await;
                let (by, transition, answer) = (self.by.clone(), Box::new(transition), answer.clone());
                self.recorder.write(What::Committed { by, transition, answer, before, after });
            }
            answers.extend(made);
        }
        Ok(answers)
    }

    async fn renew(&self, renewals: Vec<Renewal>, store: &dyn Store) -> Result<Vec<Renewed>> {
        let mut answers = Vec::new();
        for batch in without_repetitions(renewals, |renewal| &renewal.lease.key) {
            let leases: Vec<_> = batch.iter().map(|renewal| renewal.lease.clone()).collect();
            let made = store.renew(batch).await?;
            for (lease, answer) in leases.into_iter().zip(&made) {
                let (before, after) = self.read_back(&lease.key, store).await;
                self.recorder.write(What::Renewed { lease, answer: *answer, before, after });
            }
            answers.extend(made);
        }
        Ok(answers)
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>, store: &dyn Store) -> Result<()> {
        store.confirm_stopped(leases.clone()).await?;
        for lease in leases {
            let (before, after) = self.read_back(&lease.key, store).await;
            self.recorder.write(What::Stopped { by: self.by.clone(), lease, before, after });
        }
        Ok(())
    }
}

/// Splits a batch before each repeated task, so that each change can be attributed to one member. Members are
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
