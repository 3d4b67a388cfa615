//! The in-memory store: every port over one short lock (seeds 001 and 002, ADR-0001).
//!
//! ```text
//! InMemoryQueue ── Mutex ──▶ InMemoryQueueState   synchronous; collects Effects
//!       │                    Waiters              callers that wait for work
//!       └─ after unlocking: notifies waiters, drops purged records (ADR-0003)
//! ```

mod assignments;
mod documents;
mod finished;
mod journal;
mod ports;
mod reads;
mod records;
mod retention;
mod runners;
mod state;
mod unique;
mod unreadable;
mod wait;

use std::sync::Arc;
use std::time::Duration;

// Seed 002 names it at this path.
#[doc(hidden)]
pub use state::InMemoryQueueState;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::error::{Error, Invalid, Problem, Result};
use crate::event::{ChangeCursor, Changes};
use crate::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use crate::lifecycle::Transition;
use crate::limits::Limits;
use crate::queue::index::Waiters;
use crate::queue::memory::documents::DocumentsState;
use crate::queue::memory::journal::JournalState;
use crate::queue::memory::runners::RunnersState;
use crate::queue::{
    Committed, CommittedAndLeased, EnqueueAudit, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake,
};
use crate::store_clock::StoreClock;
use crate::task::{NewTask, validate_batch};
use crate::time::Timestamp;

/// Limits and retention of an [`InMemoryQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Limits of payloads and batches; the defaults of [`Limits`].
    pub limits: Limits,
    /// How long finished tasks are kept; 24 hours by default.
    pub retention: Duration,
    /// The most finished tasks kept; 100,000 by default.
    pub retention_count: usize,
    /// How long a unique key is remembered, at least `retention`; 7 days by default.
    pub idempotency_ttl: Duration,
    /// How many changes are kept for readers that have fallen behind; one further behind must resync. 65,536
    /// by default.
    pub change_log_capacity: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self {
            limits: Limits::default(),
            retention: DAY,
            retention_count: 100_000,
            idempotency_ttl: 7 * DAY,
            change_log_capacity: 65_536,
        }
    }
}

/// A store in memory: for tests, and for tasks that may be lost with the process.
#[derive(Debug)]
pub struct InMemoryQueue {
    clock: StoreClock,
    limits: Limits,
    // One lock. Eight shards were measured and were no faster: the work under it is a fraction of a
    // microsecond.
    inner: Mutex<Inner>,
    /// Notified after every call that added to the change log.
    changed: Notify,
    /// Notified after every call that cancelled a running task. Separate from `changed`, so that its few
    /// waiters are not woken by every transition of a busy store.
    cancelled: Notify,
    /// Notified after every call that assigned a task.
    assigned: Notify,
    // Locked before `inner`, never after: a leader's commit reads its document first.
    documents: Mutex<DocumentsState>,
    journal: Mutex<JournalState>,
    runners: Mutex<RunnersState>,
}

#[derive(Debug)]
struct Inner {
    state: InMemoryQueueState,
    waiters: Waiters,
}

impl InMemoryQueue {
    /// An empty store with the default options.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_options(clock, MemoryOptions::default())
    }

    /// An empty store with these options.
    pub fn with_options(clock: Arc<dyn Clock>, options: MemoryOptions) -> Self {
        let clock = StoreClock::open(clock, Timestamp::MIN);
        let state = InMemoryQueueState::new(options, clock.now());
        Self {
            clock,
            limits: options.limits,
            inner: Mutex::new(Inner { state, waiters: Waiters::default() }),
            changed: Notify::new(),
            cancelled: Notify::new(),
            assigned: Notify::new(),
            documents: Mutex::default(),
            journal: Mutex::default(),
            runners: Mutex::default(),
        }
    }

    /// Takes the lock; spins for about as long as a batch holds it. Sleeping and being woken costs more than
    /// that: two threads that sleep are slower than one thread alone.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        const TRIES: usize = 400;
        const PAUSES_BETWEEN: usize = 16;
        for _ in 0..TRIES {
            if let Some(guard) = self.inner.try_lock() {
                return guard;
            }
            (0..PAUSES_BETWEEN).for_each(|_| std::hint::spin_loop());
        }
        self.inner.lock()
    }

    /// Runs a closure on the state under the lock; wakes waiters after the lock is released.
    fn with<T>(&self, act: impl FnOnce(&mut InMemoryQueueState) -> T) -> T {
        let now = self.clock.now();
        let mut guard = self.lock();
        let Inner { state, waiters } = &mut *guard;
        state.index.has_waiters = !waiters.is_empty();
        state.tick(now);
        let answer = act(state);
        let effects = std::mem::take(&mut state.effects);
        let woken = waiters.choose(&state.index.take_wake_hints(), &state.index);
        drop(guard);
        for waiter in woken {
            waiter.notify_one();
        }
        if effects.changed {
            self.changed.notify_waiters();
        }
        if effects.cancelled {
            self.cancelled.notify_waiters();
        }
        if effects.assigned {
            self.assigned.notify_waiters();
        }
        // Purged records are freed here, outside the lock, and their logs are removed with them.
        if !effects.removed.is_empty() {
            let mut journal = self.journal.lock();
            effects.removed.iter().for_each(|record| journal.forget_task(&record.key));
        }
        drop(effects);
        answer
    }
}

impl InMemoryQueue {
    fn enqueue(&self, tasks: Vec<NewTask>, audit: Option<&EnqueueAudit>) -> Result<Vec<Result<Enqueued>>> {
        let tasks = validate_batch(tasks, &self.limits)?;
        // Allocated before the lock is taken: a page fault here delays no other caller.
        let boxes: Vec<_> = tasks.iter().map(|_| Box::new_uninit()).collect();
        Ok(self.with(|state| {
            let answers: Vec<_> =
                tasks.into_iter().zip(boxes).map(|(task, place)| state.enqueue(task, place)).collect();
            if let Some(audit) = audit {
                // Under the state's lock: no other caller sees one of these tasks without its entry.
                let at = self.clock.now().steady;
                let mut journal = self.journal.lock();
                for (stream, body) in audit.entries(&answers) {
                    journal.append(&stream, &[body], at);
                }
            }
            answers
        }))
    }
}

#[async_trait]
impl Queue for InMemoryQueue {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        self.enqueue(tasks, None)
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
        self.enqueue(tasks, Some(&audit))
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        request.validate()?;
        Ok(self.with(|state| state.lease(&request))?)
    }

    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        self.limits.check_batch("transitions", transitions.len())?;
        // Held until the transitions are applied, so that no other leader is elected in between.
        let _leading = match &leader {
            Some(leader) => {
                let documents = self.documents.lock();
                let current = documents.version(&leader.document).unwrap_or_default();
                if current != leader.epoch {
                    return Err(Error::Deposed { epoch: leader.epoch, current });
                }
                Some(documents)
            }
            None => None,
        };
        Ok(self.with(|state| transitions.into_iter().map(|transition| state.commit(transition)).collect()))
    }

    fn commits_and_leases_at_once(&self) -> bool {
        true
    }

    async fn commit_and_lease(
        &self,
        transitions: Vec<Transition>,
        request: LeaseRequest,
    ) -> Result<CommittedAndLeased> {
        self.limits.check_batch("transitions", transitions.len())?;
        request.validate()?;
        Ok(self.with(|state| CommittedAndLeased {
            committed: transitions.into_iter().map(|transition| state.commit(transition)).collect(),
            leased: state.lease(&request).map_err(Into::into),
        }))
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.limits.check_batch("renewals", renewals.len())?;
        Ok(self.with(|state| renewals.into_iter().map(|renewal| state.renew(renewal)).collect()))
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.limits.check_batch("leases", leases.len())?;
        self.with(|state| leases.iter().for_each(|lease| state.confirm_stopped(lease)));
        Ok(())
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        check_limit(limit)?;
        Ok(self.with(|state| state.overdue(limit as usize)))
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        check_limit(limit)?;
        Ok(self.with(|state| state.changes(after, limit as usize)))
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        self.wait_for(interest, timeout).await
    }
}

/// Refuses a limit of 0, which is surely a mistake.
fn check_limit(limit: u32) -> Result<(), Invalid> {
    if limit > 0 {
        return Ok(());
    }
    Err(Invalid::new("limit", Problem::OutOfRange { value: 0, min: 1, max: u32::MAX.into() }))
}
