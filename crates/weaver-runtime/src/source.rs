//! Where a worker gets its work: a store in this process, or (with the server) one behind HTTP.

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
use weaver_core::lifecycle::{Command, OverdueWhy, Transition, decide};
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Beat, Directive, PurgeRule, RunnerKey, Store, StreamKey, TrimBefore};
use weaver_core::queue::finish::{EndReport, finish};
use weaver_core::queue::{Committed, Enqueued, Interest, Overdue, Wake};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;

use crate::ctx::Ctx;

/// How many overdue tasks one round of maintenance looks at, and how many finished ones one statement purges.
const MAINTAIN_MAX: u32 = 500;
/// Between two looks for finished tasks past their retention: of so many rounds, one. A worker has a round
/// each second.
const ROUNDS_PER_PURGE: u32 = 60;
/// The most statements that purge in one round: a store that ends more per minute than one of them takes
/// still shrinks, and no round keeps lease expiry waiting for long.
const PURGES_PER_ROUND_MAX: u32 = 10;

/// What a worker needs of a store.
///
/// # Contract
/// - As the ports it stands for: batches answer in the order of their members, and nothing is half done.
/// - [`finish`](WorkSource::finish) decides: the worker reports outcomes, never states. Repeating it is
///   harmless.
/// - Any call may be dropped at any `.await`, and repeated.
#[async_trait]
pub trait WorkSource: Send + Sync {
    /// Takes due tasks.
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>>;
    /// Extends leases.
    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>>;
    /// Reports how executions ended.
    async fn finish(&self, ends: &[End]) -> Result<Vec<Ended>>;
    /// Says that handlers of cancelled tasks have stopped.
    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()>;
    /// Waits for something to lease.
    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake>;
    /// Says that the worker is alive.
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>>;
    /// Says goodbye.
    async fn leave(&self, key: &RunnerKey) -> Result<()>;
    /// Adds entries to a stream (statistics, or the log of the attempt that `lease` is for) and forgets what
    /// is older than `keep`.
    async fn append(
        &self,
        stream: &StreamKey,
        entries: &[Bytes],
        lease: Option<&Lease>,
        keep: Option<TrimBefore>,
    ) -> Result<()>;
    /// Enqueues follow-ups.
    async fn enqueue(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>>;
    /// The namespaces there are, for workers that serve all.
    async fn namespaces(&self) -> Result<Vec<Namespace>>;
    /// Does a little of what must be done about tasks that others left behind. Safe to run many times over;
    /// needs no leader.
    async fn maintain(&self) -> Result<Maintained>;
}

/// The end of an execution, as a worker reports it.
#[derive(Debug, Clone)]
pub struct End {
    /// What was leased.
    pub leased: SharedLeased,
    /// How it ended.
    pub outcome: Outcome,
}

/// A [`Leased`] where it already is: in the context that its handler and the worker's table share. Nobody
/// copies the record.
#[derive(Debug, Clone)]
pub struct SharedLeased(pub(crate) Ctx);

impl Deref for SharedLeased {
    type Target = Leased;

    fn deref(&self) -> &Leased {
        self.0.leased()
    }
}

// The record that was leased is the record that is decided on: the worker has it, so that no read is needed.
impl EndReport for End {
    fn lease(&self) -> &Lease {
        &self.leased.lease
    }

    fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    fn record_in_hand(&self) -> Option<&TaskRecord> {
        Some(&self.leased.record)
    }
}

/// What a round of maintenance did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maintained {
    /// Tasks whose worker was lost.
    pub lost: u32,
    /// Tasks that expired before their first start.
    pub expired: u32,
    /// Holds whose handler never confirmed that it stopped.
    pub holds: u32,
    /// Finished tasks past their retention.
    pub purged: u32,
}

/// A store in this process.
#[derive(Clone)]
pub struct LocalSource {
    store: Arc<dyn Store>,
    retention: Option<Duration>,
    /// Rounds of maintenance until the next purge. Shared by the clones, which are one worker.
    rounds_to_purge: Arc<AtomicU32>,
}

impl LocalSource {
    /// Works on a store. Finished tasks are purged after the retention the store names
    /// ([`Limits::retention`](weaver_core::limits::Limits::retention)): 30 days on PostgreSQL and DynamoDB;
    /// the store in memory and the embedded one purge by themselves.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let retention = store.limits().retention;
        Self::purging(store, retention)
    }

    /// Works on a store whose finished tasks are purged after this long, whatever the store names.
    pub fn with_retention(store: Arc<dyn Store>, retention: Duration) -> Self {
        Self::purging(store, Some(retention))
    }

    /// Works on a store whose finished tasks this worker does not purge: other workers do, or another
    /// program.
    pub fn without_retention(store: Arc<dyn Store>) -> Self {
        Self::purging(store, None)
    }

    fn purging(store: Arc<dyn Store>, retention: Option<Duration>) -> Self {
        Self { store, retention, rounds_to_purge: Arc::default() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Purges what has finished this long ago, now and then; while there is more, in every round.
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
        for Overdue { record, why } in overdue {
            match why {
                OverdueWhy::Hold => holds.extend(record.hold()),
                why => match decide(&record, Command::Expire(why), overdue_since(&record)) {
                    Ok(transition) => transitions.push((why, transition)),
                    Err(refused) => tracing::debug!(task = %record.key, %refused, "not overdue any more"),
                },
            }
        }
        done.holds = u32::try_from(holds.len()).unwrap_or(u32::MAX);
        let confirmed = if holds.is_empty() { Ok(()) } else { self.store.confirm_stopped(holds).await };
        let mut failure = confirmed.err();
        if let Err(error) = self.expire_all(&transitions, &mut done).await {
            tracing::warn!(%error, "overdue tasks are expired namespace by namespace");
            failure = self.expire_each(transitions, &mut done).await.err().or(failure);
        }
        failure.map_or(Ok(done), Err)
    }

    async fn expire_all(
        &self,
        transitions: &[(OverdueWhy, Transition)],
        done: &mut Maintained,
    ) -> Result<()> {
        if transitions.is_empty() {
            return Ok(());
        }
        let batch = transitions.iter().map(|(_, transition)| transition.clone()).collect();
        for ((why, _), committed) in transitions.iter().zip(self.store.commit(batch, None).await?) {
            match (why, committed) {
                (OverdueWhy::Lease, Committed::Applied { .. }) => done.lost += 1,
                (OverdueWhy::ExpiresAt, Committed::Applied { .. }) => done.expired += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// One namespace's failure does not stop the others; the first failure is the answer.
    async fn expire_each(
        &self,
        transitions: Vec<(OverdueWhy, Transition)>,
        done: &mut Maintained,
    ) -> Result<()> {
        let mut by_namespace: BTreeMap<Namespace, Vec<(OverdueWhy, Transition)>> = BTreeMap::new();
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
        self.store.lease(request).await
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.store.renew(renewals).await
    }

    async fn finish(&self, ends: &[End]) -> Result<Vec<Ended>> {
        finish(&*self.store, ends).await
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.store.confirm_stopped(leases).await
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        self.store.wait(interest, timeout).await
    }

    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        self.store.beat(beats).await
    }

    async fn leave(&self, key: &RunnerKey) -> Result<()> {
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

    async fn maintain(&self) -> Result<Maintained> {
        // Each part by itself: what stops one of them must not stop the others.
        let expired = match self.store.overdue(MAINTAIN_MAX).await {
            Ok(overdue) if overdue.is_empty() => Ok(Maintained::default()),
            Ok(overdue) => self.expire(overdue).await,
            Err(error) => Err(error),
        };
        let purged = match self.retention {
            Some(finished_for) => self.purge(finished_for).await,
            None => Ok(0),
        };
        Ok(Maintained { purged: purged?, ..expired? })
    }
}

/// The newest time of the store that is known here: it called the record overdue, so what it expires by has
/// passed.
fn overdue_since(record: &TaskRecord) -> Timestamp {
    record.spec.expires_at.unwrap_or(record.updated_at)
}
