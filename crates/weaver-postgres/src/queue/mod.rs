//! The port `Queue`: enqueue, lease, commit, renew, lease expiry, changes, wait.

mod changes;
mod commit;
mod enqueue;
mod one_by_one;
mod open_leases;
mod renew;
mod wait;
mod write;

use std::time::Duration;

use async_trait::async_trait;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{OverdueReason, Transition};
use weaver_core::limits::Limits;
use weaver_core::queue::{
    Committed, CommittedAndLeased, EnqueueAudit, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake,
    commit_then_lease,
};
use weaver_core::task::{NewTask, TaskState, validate_batch};

pub(crate) use changes::Follower;
pub use enqueue::WakeUp;
pub(crate) use open_leases::OpenLeases;

use crate::PostgresStore;
use crate::error::StoreFault;
use crate::row::RUN_FORMAT;
use crate::types::{Token, micros};

/// Rounds of a lease call whose runs were all unreadable.
const CLAIMS_MAX: usize = 8;

/// The result of one round of a lease call.
struct Claimed {
    leased: Vec<Leased>,
    /// Whether it leased unreadable runs as well and released them.
    released: bool,
}

#[async_trait]
impl Queue for PostgresStore {
    fn limits(&self) -> Limits {
        Limits { retention: Some(self.options.retention), ..self.options.limits }
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        let tasks = validate_batch(tasks, &self.options.limits)?;
        Ok(self.enqueue_valid(tasks, None).await?)
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
        let tasks = validate_batch(tasks, &self.options.limits)?;
        Ok(self.enqueue_valid(tasks, Some(&audit)).await?)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        request.validate()?;
        for _ in 1..CLAIMS_MAX {
            // Everything was unreadable and released: there may be readable runs behind them.
            match self.retry_transient(|| self.claim(&request)).await? {
                Claimed { leased, released } if leased.is_empty() && released => {}
                Claimed { leased, .. } => return Ok(leased),
            }
        }
        Ok(self.retry_transient(|| self.claim(&request)).await?.leased)
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        self.options.limits.check_batch("transitions", transitions.len())?;
        Ok(self.commit_all(transitions, leader).await?)
    }

    fn commits_and_leases_at_once(&self) -> bool {
        // One statement for both was 0.8 × as fast as two connections that work at the same time (ADR 0049).
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
        self.options.limits.check_batch("renewals", renewals.len())?;
        Ok(self.renew_all(renewals).await?)
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.options.limits.check_batch("leases", leases.len())?;
        Ok(self.retry_transient(|| self.end_holds(&leases)).await?)
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        self.maintain_if_due().await;
        Ok(self.find_overdue(limit).await?)
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        Ok(self.read_changes(after, limit).await?)
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        Ok(self.wait_for(interest, timeout).await?)
    }
}

impl PostgresStore {
    async fn claim(&self, request: &LeaseRequest) -> Result<Claimed, StoreFault> {
        let mut queues: Vec<&str> = request.queues.iter().map(|queue| queue.as_str()).collect();
        queues.sort_unstable();
        queues.dedup();
        let types: Option<Vec<&str>> =
            request.types.as_ref().map(|types| types.iter().map(|name| name.as_str()).collect());
        let rows = self
            .sql
            .claim
            .query()
            .bind(request.namespace.as_str())
            .bind(queues)
            .bind(types)
            .bind(request.worker.as_str())
            .bind(Token(request.token))
            .bind(micros(request.ttl))
            .bind(i32::try_from(request.max).unwrap_or(i32::MAX))
            .bind(i32::try_from(request.slots).unwrap_or(i32::MAX))
            .bind(RUN_FORMAT)
            .bind(self.skipped(&request.namespace))
            .bind(self.open_leases.take_over())
            .bind(i16::from(request.dispatch().number()))
            .fetch_all(&self.connections)
            .await?;
        let mut leased = Vec::with_capacity(rows.len());
        let (records, undecodable) = self.records(&rows);
        for record in records {
            let foreign = record.key.namespace != request.namespace
                || record.lease.as_ref().is_some_and(|held| held.worker != request.worker);
            if foreign {
                return Err(Invalid::new("token", Problem::TokenTaken).into());
            }
            if let Some(lease) = record.current_lease() {
                leased.push(Leased { lease, record });
            }
        }
        self.open_leases.granted(request.token, leased.len());
        leased.sort_by_key(|each| (each.record.spec.priority, each.record.ready_at, each.record.key.id));
        if !leased.is_empty() {
            self.hints.moved();
        }
        let released = !undecodable.is_empty();
        if released {
            self.release(request, undecodable).await?;
        }
        Ok(Claimed { leased, released })
    }

    /// Releases leased runs that cannot be read, without charging an attempt, so that they do not stay
    /// running. If this fails, the call fails; repeated with the same token, it finds them again.
    async fn release(&self, request: &LeaseRequest, ids: Vec<i64>) -> Result<(), StoreFault> {
        let release = || async {
            let release = self.sql.release.query().bind(request.namespace.as_str());
            let release = release.bind(Token(request.token)).bind(&ids).bind(RUN_FORMAT);
            Ok(release.execute(&self.connections).await.map(|_| ())?)
        };
        self.retry_transient(release).await?;
        self.hints.moved();
        Ok(())
    }

    async fn end_holds(&self, leases: &[Lease]) -> Result<(), StoreFault> {
        let namespaces: Vec<&str> = leases.iter().map(|lease| lease.key.namespace.as_str()).collect();
        let ids: Vec<i64> = leases.iter().map(|lease| lease.key.id.0 as i64).collect();
        let versions: Vec<i64> = leases.iter().map(|lease| lease.version.0 as i64).collect();
        let tokens: Vec<Token> = leases.iter().map(|lease| Token(lease.token)).collect();
        let any: bool = self
            .sql
            .confirm_stopped
            .scalar()
            .bind(namespaces)
            .bind(ids)
            .bind(versions)
            .bind(tokens)
            .fetch_one(&self.connections)
            .await?;
        if any {
            self.hints.work_ready();
        }
        Ok(())
    }

    async fn find_overdue(&self, limit: u32) -> Result<Vec<Overdue>, StoreFault> {
        let overdue = self.sql.overdue.query().bind(i64::from(limit)).bind(RUN_FORMAT);
        let overdue = overdue.bind(self.skipped_everywhere());
        let rows = overdue.fetch_all(&self.connections).await?;
        let overdue = self.records(&rows).0.into_iter().map(|record| {
            let why = match record.state {
                TaskState::Running => OverdueReason::Lease,
                TaskState::Cancelled => OverdueReason::Hold,
                _ => OverdueReason::ExpiresAt,
            };
            Overdue { record, reason: why }
        });
        Ok(overdue.collect())
    }
}
