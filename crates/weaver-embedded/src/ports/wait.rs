//! Waiting for new work, the next due time and the timeout at once, without polling. A waiter is woken only
//! by what is fsynced.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;
use weaver_core::error::Result;
use weaver_core::event::ChangeCursor;
use weaver_core::lease::Lease;
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::queue::index::Wanted;
use weaver_core::queue::{Interest, Wake};
use weaver_core::task::DispatchFilter;
use weaver_core::time::Monotonic;

use crate::EmbeddedStore;
use crate::engine::Request;
use crate::work::Work;

/// Longest sleep of a waiter: it notices a change of the wall clock within this time.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

impl EmbeddedStore {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        match interest {
            Interest::Work { namespace, queues, types, fragile } => {
                let dispatch = DispatchFilter::Pulled;
                self.wait_for_work(Wanted { namespace, queues, types, fragile, dispatch }, deadline).await
            }
            Interest::Assignable { namespace, queues, types } => {
                let (fragile, dispatch) = (true, DispatchFilter::Assigned);
                self.wait_for_work(Wanted { namespace, queues, types, fragile, dispatch }, deadline).await
            }
            Interest::Assigned { namespace, worker } => {
                self.wait_for_assigned(namespace, worker, deadline).await
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
            // Read before the request: if the clock moves before the answer is read, the waiter checks again
            // instead of sleeping on.
            let asked_at = self.clock.monotonic();
            let timed_out = asked_at >= deadline;
            let mut waiting = Waiting::new(self, wanted.clone());
            let next_due = match self.check_or_register(&waiting, timed_out).await? {
                Check::Wait { next_due } => next_due,
                Check::Done(wake) => {
                    waiting.registered = false;
                    return Ok(wake);
                }
            };
            let until = match next_due {
                // Checked again each second: the wall clock may be set, and timers do not count suspend.
                Some(due) => deadline.min(asked_at.saturating_add(due.min(RECHECK_AFTER))),
                None => deadline,
            };
            tokio::select! {
                // The notifier removed this waiter from the list; it checks again itself.
                () = waiting.wake.notified() => waiting.registered = false,
                () = self.clock.sleep_until(until) => waiting.rechecks = true,
            }
        }
    }

    /// Checks and registers in one request, so that no arrival is missed in between.
    async fn check_or_register(&self, waiting: &Waiting<'_>, timed_out: bool) -> Result<Check> {
        let (id, wake, wanted) = (waiting.id, Arc::clone(&waiting.wake), waiting.wanted.clone());
        self.read_memory(move |work| {
            if work.has_ready(&wanted) {
                return Ok(Check::Done(Wake::Ready));
            }
            if timed_out {
                return Ok(Check::Done(Wake::TimedOut));
            }
            work.memory.waiters.add_as(id, wanted, wake);
            // Later requests of the same batch must wake it as well.
            work.memory.index.has_waiters = true;
            Ok(Check::Wait { next_due: work.memory.index.next_due() })
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
            if self.read_memory(move |work| work.any_cancelled(&leases)).await? {
                return Ok(Wake::Ready);
            }
            tokio::select! {
                () = cancelled => {}
                () = self.clock.sleep_until(deadline) => return Ok(Wake::TimedOut),
            }
        }
    }

    async fn wait_for_assigned(
        &self,
        namespace: Namespace,
        worker: WorkerId,
        deadline: Monotonic,
    ) -> Result<Wake> {
        loop {
            let assigned = self.shared.assigned.notified();
            tokio::pin!(assigned);
            // Registered before the index is read: an assignment in between is seen.
            assigned.as_mut().enable();
            let (of, to) = (namespace.clone(), worker.clone());
            let read =
                move |work: &mut Work<'_>| Ok(work.memory.index.assigned_to(&of, &to).next().is_some());
            if self.read_memory(read).await? {
                return Ok(Wake::Ready);
            }
            tokio::select! {
                () = assigned => {}
                () = self.clock.sleep_until(deadline) => return Ok(Wake::TimedOut),
            }
        }
    }

    async fn wait_for_changes(&self, after: ChangeCursor, deadline: Monotonic) -> Wake {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before the change log is read: a change in between is seen.
            changed.as_mut().enable();
            if self.shared.change_log.lock().has_after(after) {
                return Wake::Ready;
            }
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(deadline) => return Wake::TimedOut,
            }
        }
    }
}

enum Check {
    Done(Wake),
    Wait { next_due: Option<Duration> },
}

/// A waiter, created before its registration is requested. Dropping it deregisters it; if it had been woken
/// already, the wake-up is passed on to another waiter.
struct Waiting<'a> {
    store: &'a EmbeddedStore,
    wanted: Wanted,
    id: u64,
    wake: Arc<Notify>,
    registered: bool,
    rechecks: bool,
}

impl<'a> Waiting<'a> {
    fn new(store: &'a EmbeddedStore, wanted: Wanted) -> Self {
        let id = store.next_waiter.fetch_add(1, Ordering::Relaxed);
        Self { store, wanted, id, wake: Arc::default(), registered: true, rechecks: false }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.registered {
            return;
        }
        let (id, rechecks, wanted) = (self.id, self.rechecks, self.wanted.clone());
        // After its registration in the writer's inbox, even if the answer to that was never received.
        self.store.writer.submit(Request::reading(Box::new(move |work| {
            let was_waiting = work.memory.waiters.remove(id);
            let must_pass_on = !was_waiting && !rechecks;
            let woken = if must_pass_on { work.memory.waiters.pass_on(&wanted) } else { Vec::new() };
            Ok(Box::new(move || woken.iter().for_each(|waiter| waiter.notify_one())))
        })));
    }
}
