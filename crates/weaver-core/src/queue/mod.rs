//! The port `Queue`: enqueue, lease, renew, commit, wait.
//!
//! ```text
//! enqueue_batch ─▶ (waits) ─▶ lease ─▶ handler ─▶ decide() ─▶ commit ─▶ changes
//!                               ▲        │ renew every ttl/3
//!                      wait ────┘        └─▶ confirm_stopped after a cancel
//!                                 overdue ─▶ decide(Expire) ─▶ commit      (maintenance of any worker)
//! ```

pub mod change_log;
mod enqueue_audit;
mod ext;
pub mod finish;
pub mod index;
pub mod memory;
pub mod start;

use std::time::Duration;

use async_trait::async_trait;

pub use enqueue_audit::EnqueueAudit;
pub use ext::{QueueExt, TaskStatus};

use crate::error::Result;
use crate::event::{ChangeCursor, Changes};
use crate::id::{Epoch, TaskKey, Version};
use crate::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use crate::lifecycle::{OverdueReason, Transition};
use crate::limits::Limits;
use crate::name::{Namespace, QueueName, TaskType, WorkerId};
use crate::ports::DocumentKey;
use crate::task::{NewTask, TaskRecord};

/// A queue of tasks, with at-least-once delivery.
///
/// # Contract
/// - **G1** No call is answered before the write it depends on is as durable as the store can make it.
/// - **G2** Fencing: a write under a lease that was lost, cancelled or superseded is [`Committed::Stale`] and
///   changes nothing.
/// - **G3** Lease expiry: a task whose worker crashed is found by [`overdue`](Queue::overdue) once its lease
///   has expired.
/// - **G4, G5** Records change only by [`Transition::apply`]; a store adds no rule and skips none.
/// - **G6** Nothing is leased before its `ready_at`, by the store's clock (the caller's, where the store has
///   none).
/// - **G7** A single worker gets tasks by priority, then `ready_at`, then id, exactly (of what the store's
///   index shows, where it documents one that lags). Concurrent workers may overtake each other by at most
///   the store's claim window. Of the due tasks with one `serial_key` in a namespace only the lowest id can
///   be leased, and while one [holds the key](TaskRecord::holds_key) only that one.
/// - **G8** A second enqueue with one of the task's [unique keys](crate::task::TaskSpec::unique_keys) returns
///   the first.
/// - **G9** No call shows or changes a namespace other than the one it names.
/// - **G10** Every transition appears in [`changes`](Queue::changes) at least once, in order per task, or
///   `Resync` does.
/// - **G11** Cancelling ends a task at once and keeps its lease as the cancellation hold on serial key and
///   slot, until [`confirm_stopped`](Queue::confirm_stopped) or the lease's expiry. A worker that
///   [waits](Interest::Cancelled) for the cancellation of its leases is woken within a second (two, where the
///   store can only be polled), whichever process cancelled.
/// - Batches answer in the order of their members. Members are independent unless a method says otherwise.
#[async_trait]
pub trait Queue: Send + Sync {
    /// The limits of this store; constant while it is open.
    fn limits(&self) -> Limits;

    /// Stores new tasks. If one member is invalid nothing is stored, and the error names it; storing itself
    /// succeeds or fails per member. Two members with the same unique key make one task.
    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>>;

    /// Whether [`enqueue_audited`](Queue::enqueue_audited) writes tasks and entries in one transaction. If
    /// not, a failure between the two writes leaves tasks without their entry, and a caller that appends the
    /// entries of many calls at once is cheaper.
    fn audits_in_the_transaction(&self) -> bool;

    /// Stores new tasks as [`enqueue_batch`](Queue::enqueue_batch), and with them the audit entries that say
    /// so. In one transaction, where the store has one for both: if an entry cannot be written, its tasks are
    /// not stored.
    async fn enqueue_audited(
        &self,
        tasks: Vec<NewTask>,
        audit: EnqueueAudit,
    ) -> Result<Vec<Result<Enqueued>>>;

    /// Leases due tasks to a worker, at most `max`, skipping paused queues, concurrency limits and held keys.
    /// Retrying a call with the same token returns what it granted, while any of that is still valid.
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>>;

    /// Applies decided transitions, each by a conditional write. With a leader, each is applied only while it
    /// still leads; [`Error::Deposed`](crate::error::Error::Deposed) says that it no longer does. Of a batch
    /// larger than one transaction of the store, earlier members may then have been applied.
    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>>;

    /// Whether [`commit_and_lease`](Queue::commit_and_lease) is cheaper than its two calls. If not, workers
    /// make the two concurrently.
    fn commits_and_leases_at_once(&self) -> bool;

    /// Commits without a leader and then leases: the tasks that these commits admit can be leased. What is
    /// committed stays committed if leasing fails. A repeated call answers [`Committed::AlreadyApplied`] and
    /// the leases that the first was granted.
    async fn commit_and_lease(
        &self,
        transitions: Vec<Transition>,
        request: LeaseRequest,
    ) -> Result<CommittedAndLeased>;

    /// Extends leases. Never waits for a lock: a record that another write locks answers [`Renewed::Busy`].
    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>>;

    /// Removes the cancellation holds of handlers that have stopped. A lease without a hold is skipped, so
    /// the call can be repeated.
    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()>;

    /// Tasks whose lease has expired, whose `expires_at` has passed, or whose cancellation hold was not
    /// confirmed, in every namespace; at most `limit`. A read: the caller decides and commits, or confirms a
    /// hold.
    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>>;

    /// The changes after a cursor, at most `limit`; `None` starts at the end of the stream.
    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes>;

    /// Waits until there may be something of interest, or the timeout passes. [`Wake::Ready`] is a hint for
    /// one caller, which should act on it. A task that becomes due later wakes a caller at that moment.
    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake>;
}

/// The answer to one enqueued task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enqueued {
    /// The new task, or the existing one with the same unique key.
    pub key: TaskKey,
    /// Whether it existed before, under one of the same unique keys (G8).
    pub existing: bool,
}

/// Fencing of a leader: its document, and the version that this had when it was elected. The document is
/// written only by a leader election, so its version *is* the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderEpoch {
    /// The document that leader election writes.
    pub document: DocumentKey,
    /// Its version since the caller was elected.
    pub epoch: Version,
}

impl LeaderEpoch {
    /// The epoch, as assignments and leases carry it.
    pub fn term(&self) -> Epoch {
        Epoch(self.epoch.0)
    }
}

/// The answer to one committed transition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a transition that was not applied changed nothing"]
pub enum Committed {
    /// It is stored, as durably as the store can (G1).
    Applied {
        /// The record's new version.
        version: Version,
    },
    /// It was stored before: this is a retry of the same report.
    AlreadyApplied,
    /// Optimistic concurrency: the record has changed since it was decided on. Read it again, or stop.
    Stale,
    /// The task cannot start right now: only for transitions that [admit](Transition::admits) a waiting task.
    Blocked(Blocked),
}

/// The answer to [`Queue::commit_and_lease`].
#[derive(Debug, Clone)]
pub struct CommittedAndLeased {
    /// As of [`Queue::commit`].
    pub committed: Vec<Committed>,
    /// As of [`Queue::lease`]: what was committed stays committed if leasing fails.
    pub leased: Result<Vec<Leased>>,
}

/// [`Queue::commit_and_lease`] in two writes, for stores that have no better way.
pub async fn commit_then_lease<Q: Queue + ?Sized>(
    queue: &Q,
    transitions: Vec<Transition>,
    request: LeaseRequest,
) -> Result<CommittedAndLeased> {
    request.validate()?;
    let committed = match transitions.len() {
        0 => Vec::new(),
        _ => queue.commit(transitions, None).await?,
    };
    Ok(CommittedAndLeased { committed, leased: queue.lease(request).await })
}

/// Why a waiting task cannot start right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// It is not due by the store's clock, or has expired.
    NotDue,
    /// Its queue is paused.
    Paused,
    /// Its queue has reached its concurrency limit.
    LimitReached,
    /// Its serial key is held, or a due task with a lower id starts first.
    KeyHeld,
}

/// A task that maintenance must act on.
#[derive(Debug, Clone, PartialEq)]
pub struct Overdue {
    /// The record as it was read; the decision is made on it.
    pub record: TaskRecord,
    /// The lease, the expiry or the cancellation hold.
    pub reason: OverdueReason,
}

/// What a caller of [`Queue::wait`] waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// A task to lease, by the fields of a [`LeaseRequest`]: one that is pulled.
    Work {
        /// Only tasks of this namespace.
        namespace: Namespace,
        /// Only tasks of these queues.
        queues: Vec<QueueName>,
        /// Only tasks of these types; `None`: of any.
        types: Option<Vec<TaskType>>,
        /// Whether fragile tasks count: a caller that requests none of them (`slots: 0`) must not be woken
        /// for one.
        fragile: bool,
    },
    /// A due task that a leader assigns: what [`assignable`](crate::ports::Assignments::assignable) would
    /// list.
    Assignable {
        /// Only tasks of this namespace.
        namespace: Namespace,
        /// Only tasks of these queues.
        queues: Vec<QueueName>,
        /// Only tasks of these types; `None`: of any.
        types: Option<Vec<TaskType>>,
    },
    /// A task that is assigned to this worker, which has not started it. Wakes every caller that waits for
    /// it.
    Assigned {
        /// Only tasks of this namespace.
        namespace: Namespace,
        /// The worker to which a leader assigns them.
        worker: WorkerId,
    },
    /// Cancellation of a running task (G11): one of these leases
    /// [was cancelled](crate::lifecycle::is_cancelled). [`Queue::renew`] says which one. Wakes every caller
    /// that waits for it, not only one.
    Cancelled {
        /// The leases that the caller holds.
        leases: Vec<Lease>,
    },
    /// A change after this cursor.
    Changes {
        /// The cursor of the caller's last read.
        after: ChangeCursor,
    },
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// There may be something of interest.
    Ready,
    /// The timeout passed without a wake-up.
    TimedOut,
}
