//! The port `Queue`.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use weaver_core::error::Result;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::limits::Limits;
use weaver_core::ports::StreamKey;
use weaver_core::queue::{
    Committed, CommittedAndLeased, EnqueueAudit, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake,
};
use weaver_core::task::{NewTask, validate_batch};

use crate::EmbeddedStore;
use crate::fault::StoreFault;
use crate::ports::check_limit;

impl EmbeddedStore {
    async fn enqueue(
        &self,
        tasks: Vec<NewTask>,
        audit: Option<EnqueueAudit>,
    ) -> Result<Vec<Result<Enqueued>>> {
        let tasks = validate_batch(tasks, &self.options.limits)?;
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |work| {
            if audit.is_some() {
                // Reads first: an unreadable stream refuses the call before a task is written.
                for namespace in tasks.iter().map(|task| &task.namespace).collect::<HashSet<_>>() {
                    work.append(&StreamKey::audit(namespace.clone()), &[])?;
                }
            }
            let mut answers = Vec::with_capacity(tasks.len());
            for task in tasks {
                answers.push(match work.enqueue(task) {
                    Ok(enqueued) => Ok(enqueued),
                    Err(StoreFault::Refused(error)) => Err(error),
                    Err(broken) => return Err(broken),
                });
            }
            for (stream, body) in audit.iter().flat_map(|audit| audit.entries(&answers)) {
                work.append(&stream, &[body])?;
            }
            Ok(answers)
        })
        .await
    }
}

#[async_trait]
impl Queue for EmbeddedStore {
    fn limits(&self) -> Limits {
        self.options.limits
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        self.enqueue(tasks, None).await
    }

    fn audits_in_the_transaction(&self) -> bool {
        true
    }

    async fn enqueue_audited(
        &self,
        tasks: Vec<NewTask>,
        audit: EnqueueAudit,
    ) -> Result<Vec<Result<Enqueued>>> {
        audit.validate()?;
        self.enqueue(tasks, Some(audit)).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        request.validate()?;
        self.write(move |work| work.lease(&request)).await
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        self.options.limits.check_batch("transitions", transitions.len())?;
        self.write(move |work| work.commit(transitions, leader.as_ref())).await
    }

    fn commits_and_leases_at_once(&self) -> bool {
        true
    }

    async fn commit_and_lease(
        &self,
        transitions: Vec<Transition>,
        request: LeaseRequest,
    ) -> Result<CommittedAndLeased> {
        self.options.limits.check_batch("transitions", transitions.len())?;
        request.validate()?;
        self.write(move |work| {
            let committed = work.commit(transitions, None)?;
            let leased = match work.lease(&request) {
                Err(StoreFault::Refused(error)) => Err(error),
                leased => Ok(leased?),
            };
            Ok(CommittedAndLeased { committed, leased })
        })
        .await
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.options.limits.check_batch("renewals", renewals.len())?;
        self.write(move |work| renewals.into_iter().map(|renewal| work.renew(renewal)).collect()).await
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.options.limits.check_batch("leases", leases.len())?;
        self.write(move |work| leases.iter().try_for_each(|lease| work.confirm_stopped(lease))).await
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        check_limit(limit)?;
        self.read_memory(move |work| work.overdue(limit as usize)).await
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        check_limit(limit)?;
        Ok(self.shared.change_log.lock().read(after, limit as usize))
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        self.wait_for(interest, timeout).await
    }
}
