//! The port every worker lives on: tasks in, leases out, ends back.
//!
//! ```text
//! enqueue_batch ─▶ (waits) ─▶ lease ─▶ handler ─▶ decide() ─▶ commit ─▶ changes
//!                               ▲        │ renew every ttl/3
//!                      wait ────┘        └─▶ confirm_stopped after a cancel
//!                                 overdue ─▶ decide(Expire) ─▶ commit      (anyone, any time)
//! ```

mod ext;
pub mod finish;
pub mod index;
pub mod memory;
pub mod ring;

use std::time::Duration;

use async_trait::async_trait;

pub use ext::{QueueExt, TaskStatus};

use crate::error::Result;
use crate::event::{ChangeCursor, Changes};
use crate::id::{Epoch, TaskKey, Version};
use crate::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use crate::lifecycle::{OverdueWhy, Transition};
use crate::limits::Limits;
use crate::name::{Namespace, QueueName, TaskType};
use crate::ports::DocumentKey;
use crate::task::{NewTask, TaskRecord};

/// A queue of tasks.
///
/// # Contract
/// - **G1** Nothing is answered before the write it rests on is as durable as the store can make it.
/// - **G2** A write under a lease that was lost, cancelled or superseded is [`Committed::Stale`] and changes
///   nothing.
/// - **G3** A task whose worker died is found by [`overdue`](Queue::overdue) once its lease has run out.
/// - **G4, G5** Records move only by [`Transition::apply`]; a store adds no rule and skips none.
/// - **G6** Nothing is leased before its `ready_at`, by the store's clock (the caller's, where the store has
///   none).
/// - **G7** One leaser gets priority, then `ready_at`, then id, exactly (of what the store's index shows,
///   where it documents one that lags). Concurrent leasers may overtake each other by at most the store's
///   claim window. Of the due tasks with one `serial_key` in a namespace only the lowest id can be taken, and
///   while one [holds the key](TaskRecord::holds_key) only that one.
/// - **G8** A second enqueue with one of the task's [unique keys](crate::task::TaskSpec::unique_keys) returns
///   the first.
/// - **G9** No answer shows, and no call changes, a namespace other than the one it names.
/// - **G10** Every transition appears in [`changes`](Queue::changes) at least once, in order per task, or
///   `Resync` does.
/// - **G11** Cancelling ends a task at once and leaves its lease as a hold: it keeps the key and the slot
///   until [`confirm_stopped`](Queue::confirm_stopped) or the lease's end. A worker that
///   [waits](Interest::Cancelled) for the cancellation of its leases is woken within a second of it, by
///   whichever process cancelled (two, where the store can only be polled).
/// - Batches answer in the order of their members. Members are independent unless a method says otherwise.
#[async_trait]
pub trait Queue: Send + Sync {
    /// What this store can take.
    fn limits(&self) -> Limits;

    /// Stores new tasks. If one member is invalid nothing is stored, and the error names it; storing itself
    /// succeeds or fails per member. Two members with the same unique key make one task.
    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>>;

    /// Takes due tasks for a worker, at most `max`, skipping paused queues, reached limits and held keys.
    /// Repeating a call with the same token returns what it granted, while any of that is still valid.
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>>;

    /// Makes decided moves. With a leader, each is made only while it still leads;
    /// [`Error::Deposed`](crate::error::Error::Deposed) says that it no longer does. A store may then have
    /// made the moves of the batch before that one, if there were more than fit into one of its transactions.
    async fn commit(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>>;

    /// Extends leases. Never waits behind somebody else's write: what is busy answers [`Renewed::Busy`].
    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>>;

    /// Removes the holds of handlers that were cancelled and have stopped. A lease that holds nothing is
    /// passed over, so the call can be repeated.
    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()>;

    /// Tasks whose lease ran out, whose `expires_at` passed, or whose hold did not end, in every namespace;
    /// at most `limit`. Reading it changes nothing: the caller decides and commits, or confirms a hold.
    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>>;

    /// What happened after a place in the stream; `None` starts at its end.
    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes>;

    /// Waits until there may be something of interest, or the timeout passes. [`Wake::Ready`] is a hint for
    /// one caller: whoever gets it should act on it. A task that becomes due counts at the moment it does.
    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake>;
}

/// The answer to one enqueued task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enqueued {
    /// The task.
    pub key: TaskKey,
    /// Whether it was there before, under one of the same unique keys (G8).
    pub existing: bool,
}

/// Proof of leadership: the leader's document, and the version it had when the leadership began. That
/// document is written only when leadership changes hands, so its version *is* the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderEpoch {
    /// The leader's document.
    pub document: DocumentKey,
    /// Its version in the caller's term.
    pub epoch: Version,
}

impl LeaderEpoch {
    /// The term, as assignments and leases carry it.
    pub fn term(&self) -> Epoch {
        Epoch(self.epoch.0)
    }
}

/// What became of a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a transition that was not applied changed nothing"]
pub enum Committed {
    /// It is stored.
    Applied {
        /// The record's version now.
        version: Version,
    },
    /// It was stored before: this is a repetition of the same report.
    AlreadyApplied,
    /// The record is not what it was decided on. Read it again, or stop.
    Stale,
    /// The task cannot be taken right now: only for transitions that [admit](Transition::admits) a waiting
    /// task.
    Blocked(Blocked),
}

/// Why a waiting task cannot be taken right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// It is not due by the store's clock, or has expired.
    NotDue,
    /// Its queue is paused.
    Paused,
    /// Its queue has as many tasks under way as it may.
    LimitReached,
    /// Its serial key is held, or a lower id goes first.
    KeyHeld,
}

/// A task that something must be done about.
#[derive(Debug, Clone, PartialEq)]
pub struct Overdue {
    /// The task as it is.
    pub record: TaskRecord,
    /// What ran out.
    pub why: OverdueWhy,
}

/// What a caller of [`Queue::wait`] waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// Something to lease.
    Work {
        /// Where.
        namespace: Namespace,
        /// In which queues.
        queues: Vec<QueueName>,
        /// Of which types; `None`: of any.
        types: Option<Vec<TaskType>>,
        /// Whether fragile tasks count: a caller that asks for none of them (`slots: 0`) must not be woken
        /// for one.
        fragile: bool,
    },
    /// The cancellation of a task in hand (G11): one of these leases
    /// [was cancelled](crate::lifecycle::is_cancelled). Which one, [`Queue::renew`] says. A wake-up for every
    /// caller, not a hint for one.
    Cancelled {
        /// The leases in hand.
        leases: Vec<Lease>,
    },
    /// A change after this place in the stream.
    Changes {
        /// The place.
        after: ChangeCursor,
    },
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// There may be something.
    Ready,
    /// Nothing came.
    TimedOut,
}
