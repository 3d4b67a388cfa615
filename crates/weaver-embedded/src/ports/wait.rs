//! Waiting: for an arrival, for the next due time and for the timeout at once, without polling. Nobody is
//! woken by what is not synced yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;
use weaver_core::error::Result;
use weaver_core::event::ChangeCursor;
use weaver_core::lease::Lease;
use weaver_core::queue::index::Wanted;
use weaver_core::queue::{Interest, Wake};
use weaver_core::time::Monotonic;

use crate::EmbeddedStore;
use crate::engine::Job;

/// How late a waiter learns of a wall clock that was set.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl EmbeddedStore {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        match interest {
            Interest::Work { namespace, queues, types, fragile } => {
                self.wait_for_work(Wanted { namespace, queues, types, fragile }, deadline).await
            }
            Interest::Cancelled { leases } => {
                self.options.limits.check_batch("leases", leases.len())?;
                self.wait_for_cancelled(leases.into(), deadline).await
            }
            Interest::Changes { after } => Ok(self.wait_for_changes(after, deadline).await),
        }
    }

    async fn wait_for_work(&self, wanted: Wanted, deadline: Monotonic) -> Result<Wake> {
        loop {
            // Before the writer is asked: a clock that moves before its answer is read makes the waiter look
            // again, not sleep on.
            let asked_at = self.clock.monotonic();
            let timed_out = asked_at >= deadline;
            let mut waiting = Waiting::new(self, wanted.clone());
            let next_due = match self.look(&waiting, timed_out).await? {
                Look::Waits { next_due } => next_due,
                Look::Ends(wake) => {
                    waiting.registered = false;
                    return Ok(wake);
                }
            };
            let until = match next_due {
                // Looked at again each second: the wall clock may be set, and a timer does not count a
                // machine's sleep.
                Some(due) => deadline.min(asked_at.saturating_add(due.min(LOOK_AGAIN))),
                None => deadline,
            };
            tokio::select! {
                // Whoever rings takes it from the list. It looks for itself: there is nothing to hand on.
                () = waiting.wake.notified() => waiting.registered = false,
                () = self.clock.sleep_until(until) => waiting.looks_again = true,
            }
        }
    }

    /// Looks and registers in one job, so that no arrival can slip through.
    async fn look(&self, waiting: &Waiting<'_>, timed_out: bool) -> Result<Look> {
        let (id, wake, wanted) = (waiting.id, Arc::clone(&waiting.wake), waiting.wanted.clone());
        self.consult(move |work| {
            if work.has_ready(&wanted) {
                return Ok(Look::Ends(Wake::Ready));
            }
            if timed_out {
                return Ok(Look::Ends(Wake::TimedOut));
            }
            work.memory.waiters.add_as(id, wanted, wake);
            // What comes later in the same batch must be told to it as well.
            work.memory.index.watched = true;
            Ok(Look::Waits { next_due: work.memory.index.next_due() })
        })
        .await
    }

    async fn wait_for_cancelled(&self, leases: Arc<[Lease]>, deadline: Monotonic) -> Result<Wake> {
        loop {
            let cancelled = self.shared.cancelled.notified();
            tokio::pin!(cancelled);
            // Registered before the records are read: a cancellation in between is seen.
            cancelled.as_mut().enable();
            let leases = Arc::clone(&leases);
            if self.consult(move |work| work.any_cancelled(&leases)).await? {
                return Ok(Wake::Ready);
            }
            tokio::select! {
                () = cancelled => {}
                () = self.clock.sleep_until(deadline) => return Ok(Wake::TimedOut),
            }
        }
    }

    async fn wait_for_changes(&self, after: ChangeCursor, deadline: Monotonic) -> Wake {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before the ring is read: a change in between is seen.
            changed.as_mut().enable();
            if self.shared.ring.lock().has_after(after) {
                return Wake::Ready;
            }
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(deadline) => return Wake::TimedOut,
            }
        }
    }
}

enum Look {
    Ends(Wake),
    Waits { next_due: Option<Duration> },
}

/// A waiter, from before its registration is asked for. Dropped at any moment (its caller gave up), it leaves
/// no trace: if it had been woken, the wake-up goes to somebody else.
struct Waiting<'a> {
    store: &'a EmbeddedStore,
    wanted: Wanted,
    id: u64,
    wake: Arc<Notify>,
    registered: bool,
    looks_again: bool,
}

impl<'a> Waiting<'a> {
    fn new(store: &'a EmbeddedStore, wanted: Wanted) -> Self {
        let id = store.next_waiter.fetch_add(1, Ordering::Relaxed);
        Self { store, wanted, id, wake: Arc::default(), registered: true, looks_again: false }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.registered {
            return;
        }
        let (id, looks_again, wanted) = (self.id, self.looks_again, self.wanted.clone());
        // Comes after its registration in the writer's inbox, even if nobody heard the answer to that.
        self.store.writer.submit(Job::reading(Box::new(move |work| {
            let was_waiting = work.memory.waiters.remove(id);
            let hands_on = !was_waiting && !looks_again;
            let woken = if hands_on { work.memory.waiters.hand_on(&wanted) } else { Vec::new() };
            Ok(Box::new(move || woken.iter().for_each(|waiter| waiter.notify_one())))
        })));
    }
}
