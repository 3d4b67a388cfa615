//! Waiting: for an arrival, for the next due time and for the timeout at once, without polling (ADR-0004).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::Result;
use crate::event::ChangeCursor;
use crate::lease::Lease;
use crate::lifecycle;
use crate::queue::index::Wanted;
use crate::queue::memory::{InMemoryQueue, Inner};
use crate::queue::{Interest, Wake};
use crate::time::Monotonic;

/// How late a waiter learns of a wall clock that was set.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl InMemoryQueue {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.clock().monotonic().saturating_add(timeout);
        Ok(match interest {
            Interest::Work { namespace, queues, types, fragile } => {
                self.wait_for_work(Wanted { namespace, queues, types, fragile }, deadline).await
            }
            Interest::Cancelled { leases } => {
                self.limits.check_batch("leases", leases.len())?;
                self.wait_for_cancelled(&leases, deadline).await
            }
            Interest::Changes { after } => self.wait_for_changes(after, deadline).await,
        })
    }

    async fn wait_for_work(&self, wanted: Wanted, deadline: Monotonic) -> Wake {
        loop {
            // Before the state is read: a clock that moves in between makes the waiter look again, not sleep on.
            let asked_at = self.clock.clock().monotonic();
            let (waiting, next_due) = match self.look(&wanted, deadline) {
                Look::Found(wake) => return wake,
                Look::Wait(waiting, next_due) => (waiting, next_due),
            };
            let until = match next_due {
                // Looked at again each second: the wall clock may be set, and a timer does not count a
                // machine's sleep.
                Some(due) => deadline.min(asked_at.saturating_add(due.min(LOOK_AGAIN))),
                None => deadline,
            };
            tokio::select! {
                () = waiting.wake.notified() => {}
                () = self.clock.clock().sleep_until(until) => {}
            }
            // Whatever woke it, it looks for itself: there is nothing to hand on.
            waiting.done();
        }
    }

    /// Looks for work; if there is none, registers before the lock is released, so that no arrival can slip
    /// through.
    fn look(&self, wanted: &Wanted, deadline: Monotonic) -> Look<'_> {
        if self.with(|state| state.index.has_ready(&wanted.taste())) {
            return Look::Found(Wake::Ready);
        }
        if self.clock.clock().monotonic() >= deadline {
            return Look::Found(Wake::TimedOut);
        }
        let mut guard = self.inner.lock();
        let Inner { state, waiters } = &mut *guard;
        // Something may have arrived since: it was not told to us, as we were not registered.
        if state.index.has_ready(&wanted.taste()) {
            return Look::Found(Wake::Ready);
        }
        let next_due = state.index.next_due();
        let (id, wake) = waiters.add(wanted.clone());
        Look::Wait(Waiting { queue: self, wanted: wanted.clone(), id, wake, done: false }, next_due)
    }

    async fn wait_for_cancelled(&self, leases: &[Lease], deadline: Monotonic) -> Wake {
        let any_cancelled = || {
            let guard = self.lock();
            leases.iter().any(|lease| {
                let record = guard.state.get(&lease.key);
                record.is_some_and(|record| lifecycle::is_cancelled(record, lease))
            })
        };
        loop {
            let cancelled = self.cancelled.notified();
            tokio::pin!(cancelled);
            // Registered before the records are read: a cancellation in between is seen.
            cancelled.as_mut().enable();
            if any_cancelled() {
                return Wake::Ready;
            }
            tokio::select! {
                () = cancelled => {}
                () = self.clock.clock().sleep_until(deadline) => return Wake::TimedOut,
            }
        }
    }

    async fn wait_for_changes(&self, after: ChangeCursor, deadline: Monotonic) -> Wake {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the ring is read: a change in between is seen.
            changed.as_mut().enable();
            if self.with(|state| state.ring.has_after(after)) {
                return Wake::Ready;
            }
            tokio::select! {
                () = changed => {}
                () = self.clock.clock().sleep_until(deadline) => return Wake::TimedOut,
            }
        }
    }
}

enum Look<'a> {
    Found(Wake),
    Wait(Waiting<'a>, Option<Duration>),
}

/// A registered waiter. Dropped while it waits (its caller gave up), it leaves no trace: if it had been
/// woken, the wake-up goes to somebody else.
struct Waiting<'a> {
    queue: &'a InMemoryQueue,
    wanted: Wanted,
    id: u64,
    wake: Arc<Notify>,
    done: bool,
}

impl Waiting<'_> {
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let woken = {
            let mut inner = self.queue.inner.lock();
            let was_waiting = inner.waiters.remove(self.id);
            if was_waiting || self.done { Vec::new() } else { inner.waiters.hand_on(&self.wanted) }
        };
        for waiter in woken {
            waiter.notify_one();
        }
    }
}
