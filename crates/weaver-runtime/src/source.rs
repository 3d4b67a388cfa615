//! Where a worker gets its tasks: a store in this process, or a server over HTTP.

mod ended;
mod leaderless;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::error::Result;
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
pub use weaver_core::lifecycle::Ended;
use weaver_core::lifecycle::{Command, OverdueReason, Transition, decide};
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Beat, Directive, PurgeRule, RunnerKey, Store, StreamKey, TrimBefore};
use weaver_core::queue::finish::{EndReport, finish, finish_and_lease};
use weaver_core::queue::start::start_assigned;
use weaver_core::queue::{Committed, Enqueued, Interest, Overdue, Wake};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::{Monotonic, Timestamp};

use crate::ctx::Ctx;
use crate::process_lock::ProcessLock;
use crate::source::leaderless::Leaderless;

/// Overdue tasks per round of maintenance, and finished tasks per purge statement.
const MAINTAIN_MAX: u32 = 500;
/// One round of this many purges finished tasks past their retention. A worker has a round each second.
const ROUNDS_PER_PURGE: u32 = 60;
/// The most purge statements in one round: retention keeps up with a busy store, and a round does not delay
/// lease expiry for long.
const PURGES_PER_ROUND_MAX: u32 = 10;

/// The calls a worker makes to a store.
///
/// # Contract
/// - As the ports behind it: a batch is answered in the order of its members, and each member is applied
///   completely or not at all.
/// - [`finish`](WorkSource::finish) decides the new state: the worker reports outcomes, never states. It is
///   idempotent.
/// - Any call may be dropped at any `.await`, and repeated.
#[async_trait]
pub trait WorkSource: Send + Sync {
    /// Leases due tasks, at most `request.max`. Empty if none is due; retried with the same token it returns
    /// the leases of the first call.
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>>;
    /// Starts tasks that a leader assigned to the worker, at most `request.max`; its queues and types do not
    /// matter. A task whose start is not applied is not in the answer. Retried with the same token it answers
    /// what the first call started.
    async fn start_assigned(&self, request: LeaseRequest) -> Result<Vec<Leased>>;
    /// Extends leases, up to 1000 per call; carries the handlers' progress.
    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>>;
    /// Reports the outcomes of attempts.
    async fn finish(&self, ends: &[End]) -> Result<Vec<Ended>>;
    /// Whether [`finish_and_lease`](WorkSource::finish_and_lease) is cheaper than its two calls. If not, the
    /// worker makes the two concurrently.
    fn finishes_and_leases_at_once(&self) -> bool;
    /// Reports outcomes and then leases. The outcomes stay recorded if leasing fails. Repeated with the same
    /// token, it answers the same.
    async fn finish_and_lease(&self, ends: &[End], request: LeaseRequest) -> Result<EndedAndLeased>;
    /// Ends the cancellation holds of tasks whose handler has stopped.
    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()>;
    /// Long poll: returns when `interest` may be satisfied, or after `timeout`.
    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake>;
    /// Heartbeats, one per namespace; answered with one directive each.
    async fn heartbeat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>>;
    /// Marks the worker as stopped, so that it is not shown as silent.
    async fn deregister(&self, key: &RunnerKey) -> Result<()>;
    /// Appends entries to a stream (statistics, or the log of the attempt that `lease` is for) and trims
    /// those before `keep`.
    async fn append(
        &self,
        stream: &StreamKey,
        entries: &[Bytes],
        lease: Option<&Lease>,
        keep: Option<TrimBefore>,
    ) -> Result<()>;
    /// Enqueues tasks for handlers; validated as a whole before anything is stored.
    async fn enqueue(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>>;
    /// All namespaces, for workers that serve `*`.
    async fn namespaces(&self) -> Result<Vec<Namespace>>;
    /// One bounded round of maintenance: lease expiry, `expires_at`, cancellation holds, retention, and what a
    /// leader would do if there is none for long. `now` is the worker's clock.
    /// Idempotent, and safe on many workers at once: no leader election is needed.
    async fn maintain(&self, now: Monotonic) -> Result<Maintained>;
}

/// The answers to reported outcomes, and to the lease request that followed them.
pub type EndedAndLeased = (Vec<Ended>, Result<Vec<Leased>>);

/// The outcome of an attempt, as a worker reports it.
#[derive(Debug, Clone)]
pub struct End {
    /// The task and the lease that it ran under.
    pub leased: SharedLeased,
    /// What the handler returned, or why it was stopped.
    pub outcome: Outcome,
}

/// A [`Leased`] inside the context that its handler and the worker's table share, so that the record is not
/// copied.
#[derive(Debug, Clone)]
pub struct SharedLeased(pub(crate) Ctx);

impl Deref for SharedLeased {
    type Target = Leased;

    fn deref(&self) -> &Leased {
        self.0.leased()
    }
}

// Decided on the record as it was leased: the worker has it, so no read is needed.
impl EndReport for End {
    fn lease(&self) -> &Lease {
        &self.leased.lease
    }

    fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    fn leased_record(&self) -> Option<&TaskRecord> {
        Some(&self.leased.record)
    }
}

/// What a round of maintenance changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maintained {
    /// Tasks whose lease expired, or whose process has ended: their attempt is lost.
    pub lost: u32,
    /// Tasks that reached `expires_at` before their first start.
    pub expired: u32,
    /// Cancellation holds that ended without the worker's confirmation.
    pub holds: u32,
    /// Finished tasks deleted because their retention has passed.
    pub purged: u32,
}

/// The [`WorkSource`] of a store in this process.
#[derive(Clone)]
pub struct LocalSource {
    store: Arc<dyn Store>,
    retention: Option<Duration>,
    /// Rounds of maintenance until the next purge. Shared by the clones, which are one worker.
    rounds_to_purge: Arc<AtomicU32>,
    process_lock: Option<Arc<ProcessLock>>,
    leaderless: Arc<Leaderless>,
}

impl LocalSource {
    /// Finished tasks are purged after the store's retention
    /// ([`Limits::retention`](weaver_core::limits::Limits::retention)): 30 days on PostgreSQL and DynamoDB;
    /// the in-memory and the embedded store purge on their own.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let retention = store.limits().retention;
        Self::purging(store, retention)
    }

    /// Finished tasks are purged after this long, whatever retention the store has.
    pub fn with_retention(store: Arc<dyn Store>, retention: Duration) -> Self {
        Self::purging(store, Some(retention))
    }

    /// This worker does not purge finished tasks: other workers or another program do.
    pub fn without_retention(store: Arc<dyn Store>) -> Self {
        Self::purging(store, None)
    }

    fn purging(store: Arc<dyn Store>, retention: Option<Duration>) -> Self {
        Self {
            store,
            retention,
            rounds_to_purge: Arc::default(),
            process_lock: None,
            leaderless: Arc::default(),
        }
    }

    /// Leases of processes of this machine that have ended are lost at the next round of maintenance, and not
    /// only when they expire: of those that took such a lock, and made their lease tokens
    /// [with it](ProcessLock::tokens).
    #[must_use]
    pub fn with_process_lock(self, lock: Arc<ProcessLock>) -> Self {
        Self { process_lock: Some(lock), ..self }
    }

    fn with_fallback(&self, request: LeaseRequest) -> LeaseRequest {
        LeaseRequest { assign_fallback: request.assign_fallback || self.leaderless.may_pull(), ..request }
    }

    /// The store it was made with.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Purges tasks that finished this long ago: once a minute, and in every round while there is more.
    async fn purge(&self, finished_for: Duration) -> Result<u32> {
        let waited = self.rounds_to_purge.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |rounds| {
            Some(rounds.checked_sub(1).unwrap_or(ROUNDS_PER_PURGE - 1))
        });
        if waited.is_ok_and(|rounds| rounds > 0) {
            return Ok(0);
        }
        let mut count = 0;
        for _ in 0..PURGES_PER_ROUND_MAX {
            let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for };
            let purged = self.store.purge_tasks(rule, MAINTAIN_MAX).await?;
            count += purged.count;
            if !purged.more {
                return Ok(count);
            }
        }
        self.rounds_to_purge.store(0, Ordering::Relaxed);
        Ok(count)
    }

    async fn expire(&self, overdue: Vec<Overdue>) -> Result<Maintained> {
        let mut done = Maintained::default();
        let (mut holds, mut transitions) = (Vec::new(), Vec::new());
        for Overdue { record, reason: why } in overdue {
            match why {
                OverdueReason::Hold => holds.extend(record.hold()),
                why => match decide(&record, Command::Expire(why), overdue_since(&record)) {
                    Ok(transition) => transitions.push((why, transition)),
                    Err(refused) => tracing::debug!(task = %record.key, %refused, "no longer overdue"),
                },
            }
        }
        done.holds = u32::try_from(holds.len()).unwrap_or(u32::MAX);
        let confirmed = if holds.is_empty() { Ok(()) } else { self.store.confirm_stopped(holds).await };
        let mut failure = confirmed.err();
        if let Err(error) = self.expire_all(&transitions, &mut done).await {
            tracing::warn!(%error, "expiring overdue tasks failed; retrying per namespace");
            failure = self.expire_each(transitions, &mut done).await.err().or(failure);
        }
        failure.map_or(Ok(done), Err)
    }

    async fn expire_all(
        &self,
        transitions: &[(OverdueReason, Transition)],
        done: &mut Maintained,
    ) -> Result<()> {
        if transitions.is_empty() {
            return Ok(());
        }
        let batch = transitions.iter().map(|(_, transition)| transition.clone()).collect();
        for ((why, _), committed) in transitions.iter().zip(self.store.commit(batch, None).await?) {
            match (why, committed) {
                (OverdueReason::Lease, Committed::Applied { .. }) => done.lost += 1,
                (OverdueReason::ExpiresAt, Committed::Applied { .. }) => done.expired += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// One namespace's failure does not stop the others; the first failure is the answer.
    async fn expire_each(
        &self,
        transitions: Vec<(OverdueReason, Transition)>,
        done: &mut Maintained,
    ) -> Result<()> {
        let mut by_namespace: BTreeMap<Namespace, Vec<(OverdueReason, Transition)>> = BTreeMap::new();
        for (why, transition) in transitions {
            by_namespace.entry(transition.key.namespace.clone()).or_default().push((why, transition));
        }
        let mut failure = None;
        for part in by_namespace.values() {
            failure = failure.or(self.expire_all(part, done).await.err());
        }
        failure.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl WorkSource for LocalSource {
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        self.store.lease(self.with_fallback(request)).await
    }

    async fn start_assigned(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        start_assigned(&*self.store, &request).await
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.store.renew(renewals).await
    }

    async fn finish(&self, ends: &[End]) -> Result<Vec<Ended>> {
        finish(&*self.store, ends).await
    }

    fn finishes_and_leases_at_once(&self) -> bool {
        self.store.commits_and_leases_at_once()
    }

    async fn finish_and_lease(&self, ends: &[End], request: LeaseRequest) -> Result<EndedAndLeased> {
        finish_and_lease(&*self.store, ends, self.with_fallback(request)).await
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.store.confirm_stopped(leases).await
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let Interest::Work { namespace, queues, types, .. } = &interest else {
            return self.store.wait(interest, timeout).await;
        };
        if !self.leaderless.may_pull() {
            return self.store.wait(interest, timeout).await;
        }
        // What a leader would assign can be pulled, too.
        let (namespace, queues, types) = (namespace.clone(), queues.clone(), types.clone());
        let assignable = Interest::Assignable { namespace, queues, types };
        tokio::select! {
            wake = self.store.wait(interest, timeout) => wake,
            wake = self.store.wait(assignable, timeout) => wake,
        }
    }

    async fn heartbeat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        self.store.beat(beats).await
    }

    async fn deregister(&self, key: &RunnerKey) -> Result<()> {
        self.store.stop_runner(key).await
    }

    async fn append(
        &self,
        stream: &StreamKey,
        entries: &[Bytes],
        _: Option<&Lease>,
        keep: Option<TrimBefore>,
    ) -> Result<()> {
        self.store.append_entries(stream, entries).await?;
        match keep {
            Some(before) => self.store.trim_entries(stream, before).await,
            None => Ok(()),
        }
    }

    async fn enqueue(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        self.store.enqueue_batch(tasks).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>> {
        let mut names = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.store.list_namespaces(cursor, weaver_core::limits::PAGE_MAX).await?;
            names.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(names),
            }
        }
    }

    async fn maintain(&self, now: Monotonic) -> Result<Maintained> {
        // Separately: a failure of one part must not stop the others.
        let ended = self.expire_ended().await;
        let expired = match self.store.overdue(MAINTAIN_MAX).await {
            Ok(overdue) if overdue.is_empty() => Ok(Maintained::default()),
            Ok(overdue) => self.expire(overdue).await,
            Err(error) => Err(error),
        };
        let purged = match self.retention {
            Some(finished_for) => self.purge(finished_for).await,
            None => Ok(0),
        };
        let released = self.leaderless.round(&*self.store, now).await;
        let expired = expired?;
        released?;
        Ok(Maintained { purged: purged?, lost: expired.lost + ended?, ..expired })
    }
}

/// The latest instant by the store's clock that is known here: the store called the record overdue, so its
/// expiry has passed.
fn overdue_since(record: &TaskRecord) -> Timestamp {
    record.spec.expires_at.unwrap_or(record.updated_at)
}
