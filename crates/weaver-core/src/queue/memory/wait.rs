//! Waiting for a ready task, for the next due time and for the timeout at once, without polling (ADR-0004).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::Result;
use crate::event::ChangeCursor;
use crate::lease::Lease;
use crate::lifecycle;
use crate::name::{Namespace, WorkerId};
use crate::queue::index::Wanted;
use crate::queue::memory::{InMemoryQueue, Inner};
use crate::queue::{Interest, Wake};
use crate::task::DispatchFilter;
use crate::time::Monotonic;

/// How late a waiter notices a jump of the wall clock.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

impl InMemoryQueue {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.clock().monotonic().saturating_add(timeout);
        Ok(match interest {
            Interest::Work { namespace, queues, types, fragile } => {
                let dispatch = DispatchFilter::Pulled;
                self.wait_for_work(Wanted { namespace, queues, types, fragile, dispatch }, deadline).await
            }
            Interest::Assignable { namespace, queues, types } => {
                let (fragile, dispatch) = (true, DispatchFilter::Assigned);
                self.wait_for_work(Wanted { namespace, queues, types, fragile, dispatch }, deadline).await
            }
            Interest::Assigned { namespace, worker } => {
                self.wait_for_assigned(&namespace, &worker, deadline).await
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
            // Read before the state: if time advances in between, the waiter checks again instead of sleeping
            // too long.
            let checked_at = self.clock.clock().monotonic();
            let (waiting, next_due) = match self.check_or_register(&wanted, deadline) {
                Checked::Done(wake) => return wake,
                Checked::Wait(waiting, next_due) => (waiting, next_due),
            };
            let until = match next_due {
                // Checked every second: the wall clock may jump, and a timer does not count the time that the
                // machine is suspended.
                Some(due) => deadline.min(checked_at.saturating_add(due.min(RECHECK_INTERVAL))),
                None => deadline,
            };
            tokio::select! {
                () = waiting.wake.notified() => {}
                () = self.clock.clock().sleep_until(until) => {}
            }
            // Whatever woke it, it checks again itself: there is no wake-up to pass on.
            waiting.done();
        }
    }

    /// Checks for a ready task; if there is none, registers before the lock is released, so that no wake-up
    /// is lost.
    fn check_or_register(&self, wanted: &Wanted, deadline: Monotonic) -> Checked<'_> {
        if self.with(|state| state.index.has_ready(&wanted.filter())) {
            return Checked::Done(Wake::Ready);
        }
        if self.clock.clock().monotonic() >= deadline {
            return Checked::Done(Wake::TimedOut);
        }
        let mut guard = self.inner.lock();
        let Inner { state, waiters } = &mut *guard;
        // A task may have become ready since, without a wake-up for a waiter that was not registered.
        if state.index.has_ready(&wanted.filter()) {
            return Checked::Done(Wake::Ready);
        }
        let next_due = state.index.next_due();
        let (id, wake) = waiters.add(wanted.clone());
        Checked::Wait(Waiting { queue: self, wanted: wanted.clone(), id, wake, done: false }, next_due)
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

    async fn wait_for_assigned(&self, namespace: &Namespace, worker: &WorkerId, deadline: Monotonic) -> Wake {
        loop {
            let assigned = self.assigned.notified();
            tokio::pin!(assigned);
            // Registered before the index is read: an assignment in between is seen.
            assigned.as_mut().enable();
            if self.lock().state.index.assigned_to(namespace, worker).next().is_some() {
                return Wake::Ready;
            }
            tokio::select! {
                () = assigned => {}
                () = self.clock.clock().sleep_until(deadline) => return Wake::TimedOut,
            }
        }
    }

    async fn wait_for_changes(&self, after: ChangeCursor, deadline: Monotonic) -> Wake {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the change log is read: a change in between is seen.
            changed.as_mut().enable();
            if self.with(|state| state.change_log.has_after(after)) {
                return Wake::Ready;
            }
            tokio::select! {
                () = changed => {}
                () = self.clock.clock().sleep_until(deadline) => return Wake::TimedOut,
            }
        }
    }
}

enum Checked<'a> {
    Done(Wake),
    Wait(Waiting<'a>, Option<Duration>),
}

/// A registered waiter. If it is dropped while it waits (its caller gave up), it is removed; if it had been
/// woken, the wake-up is passed on to other waiters.
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
            if was_waiting || self.done { Vec::new() } else { inner.waiters.pass_on(&self.wanted) }
        };
        for waiter in woken {
            waiter.notify_one();
        }
    }
}
