//! The port `Queue`: the calls are in files of their own.

use std::time::Duration;

use async_trait::async_trait;
use weaver_core::error::Result;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::limits::Limits;
use weaver_core::ports::Journal;
use weaver_core::queue::{
    Committed, CommittedAndLeased, EnqueueAudit, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake,
    commit_then_lease,
};
use weaver_core::task::NewTask;

use crate::store::DynamoStore;

/// An item holds at most 400 KB; this leaves space for the other attributes.
const PAYLOAD_MAX_BYTES: usize = 256 * 1024;
/// Each member of a batch is at least one request.
const BATCH_MAX: usize = 1000;

#[async_trait]
impl Queue for DynamoStore {
    fn limits(&self) -> Limits {
        Limits {
            max_payload_bytes: PAYLOAD_MAX_BYTES,
            max_batch: BATCH_MAX,
            retention: Some(self.options.retention),
        }
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        self.enqueue_all(tasks).await
    }

    fn audits_in_the_transaction(&self) -> bool {
        // A transaction has at most 10 items here, and a stream's entries have a counter of their own (ADR
        // 0022).
        false
    }

    async fn enqueue_audited(
        &self,
        tasks: Vec<NewTask>,
        audit: EnqueueAudit,
    ) -> Result<Vec<Result<Enqueued>>> {
        audit.validate()?;
        let answers = self.enqueue_all(tasks).await?;
        for (stream, body) in audit.entries(&answers) {
            self.append_entries(&stream, &[body]).await?;
        }
        Ok(answers)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        request.validate()?;
        self.lease_tasks(&request).await
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        self.limits().check_batch("transitions", transitions.len())?;
        self.commit_all(transitions, leader).await
    }

    fn commits_and_leases_at_once(&self) -> bool {
        false
    }

    async fn commit_and_lease(
        &self,
        transitions: Vec<Transition>,
        request: LeaseRequest,
    ) -> Result<CommittedAndLeased> {
        commit_then_lease(self, transitions, request).await
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.limits().check_batch("renewals", renewals.len())?;
        self.renew_all(renewals).await
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.limits().check_batch("leases", leases.len())?;
        self.confirm_all(leases).await
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        self.find_overdue(limit).await
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        self.poll_other_writers().await?;
        Ok(self.change_log.lock().read(after, limit as usize))
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        self.wait_for(interest, timeout).await
    }
}
