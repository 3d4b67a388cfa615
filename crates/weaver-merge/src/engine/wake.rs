//! Wakes the reconciler of one queue, and no other.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::QueueId;

/// A `Notify` keeps one permit: a queue that is woken while it is reconciled is reconciled once more.
#[derive(Default)]
pub(super) struct Wakers(Mutex<HashMap<QueueId, Arc<Notify>>>);

impl Wakers {
    /// The waker of a queue's reconciler.
    pub(super) fn of(&self, queue: &QueueId) -> Arc<Notify> {
        Arc::clone(self.0.lock().entry(queue.clone()).or_default())
    }

    /// Without a reconciler in this process there is none to wake.
    pub(super) fn wake(&self, queue: &QueueId) {
        let waker = self.0.lock().get(queue).cloned();
        if let Some(waker) = waker {
            waker.notify_one();
        }
    }

    pub(super) fn forget(&self, queue: &QueueId) {
        self.0.lock().remove(queue);
    }
}
