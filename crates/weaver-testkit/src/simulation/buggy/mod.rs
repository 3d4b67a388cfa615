//! A naive store with one deliberate bug, which the checkers must find (mutation testing). Without a bug it
//! is a correct store, and passes.

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

/// A deliberate bug that a checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An outcome is applied whatever version it was decided on.
    NoFence,
    /// A renewal increments the version.
    RenewalBumpsVersion,
    /// A lease expires one TTL after it was granted, renewed or not.
    OverdueIgnoresRenewals,
    /// The expiry of a lease is applied although it was renewed in between.
    ExpiryIgnoresRenewals,
    /// A lost worker is charged as a failure.
    LostCountedAsFailed,
    /// A cancelled task's key and slot are free before its handler has stopped.
    HoldFreedOnCancel,
    /// Terminal tasks make transitions.
    TerminalCanMove,
    /// Tasks are leased two seconds early.
    LeasedBeforeDue,
    /// A running task is leased to another worker too.
    GrantedTwice,
    /// Idempotency keys are ignored.
    IdempotencyIgnored,
    /// Some changes are never published.
    EventsLost,
    /// A serial key is free while its task waits for a retry.
    KeyFreedDuringRetry,
    /// A release is charged as a failure.
    ReleaseCharged,
    /// A lease call takes tasks of other namespaces.
    NamespaceIgnored,
    /// Concurrency limits are ignored.
    LimitIgnored,
    /// Some tasks are acknowledged and not stored.
    EnqueueLost,
    /// Expired leases are never reported.
    NothingOverdue,
    /// The least urgent goes first.
    OrderReversed,
    /// A renewal never reports that the task was cancelled.
    CancelNotTold,
}

impl Bug {
    /// Every bug, for the mutation tests.
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

/// The reference model as a store. Workers, documents and journal are delegated to an in-memory store.
pub type ModelStore = Intercepted<Model>;

/// The reference model, which answers the calls about tasks and queues.
pub struct Model {
    bug: Option<Bug>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Notified after every call that may have changed something.
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
    /// An empty store, with or without a bug.
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
