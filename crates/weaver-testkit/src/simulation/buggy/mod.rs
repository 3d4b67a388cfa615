//! A naive store that can be given one deliberate bug: whoever checks must find it. Without a bug it is a
//! store like any other, and passes.

mod act;
mod ports;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::id::TaskId;
use weaver_core::queue::memory::InMemoryQueue;

use crate::intercept::Intercepted;
use crate::model::Reference;

/// A deliberate bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An end is taken whatever version it was decided on.
    NoFence,
    /// A renewal moves the version.
    RenewalBumpsVersion,
    /// A lease is over one TTL after it began, renewed or not.
    OverdueIgnoresRenewals,
    /// The expiry of a lease is written although it was renewed in between.
    ExpiryIgnoresRenewals,
    /// A lost worker is charged as a failure.
    LostCountedAsFailed,
    /// A cancelled task's key and slot are free before its handler has stopped.
    HoldFreedOnCancel,
    /// What has ended moves again.
    TerminalCanMove,
    /// Tasks are leased two seconds early.
    LeasedBeforeDue,
    /// A task that runs is given to somebody else too.
    GrantedTwice,
    /// Idempotency keys are not looked at.
    IdempotencyIgnored,
    /// Some changes are never published.
    EventsLost,
    /// A serial key is free while its task waits for a retry.
    KeyFreedDuringRetry,
    /// Giving a task back is charged as a failure.
    ReleaseCharged,
    /// A lease call takes tasks of other namespaces.
    NamespaceIgnored,
    /// The limits of queues are not looked at.
    LimitIgnored,
    /// Some tasks are acknowledged and not stored.
    EnqueueLost,
    /// Leases never run out.
    NothingOverdue,
    /// The least urgent goes first.
    OrderReversed,
    /// A handler that renews is never told that its task was cancelled.
    CancelNotTold,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::NoFence,
        Self::RenewalBumpsVersion,
        Self::OverdueIgnoresRenewals,
        Self::ExpiryIgnoresRenewals,
        Self::LostCountedAsFailed,
        Self::HoldFreedOnCancel,
        Self::TerminalCanMove,
        Self::LeasedBeforeDue,
        Self::GrantedTwice,
        Self::IdempotencyIgnored,
        Self::EventsLost,
        Self::KeyFreedDuringRetry,
        Self::ReleaseCharged,
        Self::NamespaceIgnored,
        Self::LimitIgnored,
        Self::EnqueueLost,
        Self::NothingOverdue,
        Self::OrderReversed,
        Self::CancelNotTold,
    ];
}

/// The reference model as a store. What bugs are not about (runners, documents, journal) is kept by a store
/// in memory.
pub type ModelStore = Intercepted<Model>;

/// The reference model, which answers the calls about tasks and queues.
pub struct Model {
    bug: Option<Bug>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Rung after every call that may have changed something.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    model: Reference,
    ids: u64,
    settings_version: u64,
}

impl State {
    fn next_id(&mut self) -> TaskId {
        self.ids += 1;
        TaskId(self.ids)
    }
}

impl ModelStore {
    /// An empty store, with a bug or without.
    pub fn new(clock: Arc<dyn Clock>, bug: Option<Bug>) -> Self {
        let side = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
        Self::of(side, Model { bug, clock, state: Mutex::default(), changed: Notify::new() })
    }
}

impl Model {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
