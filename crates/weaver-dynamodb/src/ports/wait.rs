//! Waiting: woken at once by this process's own writes, at the next due time, and once a second to poll for
//! other processes' writes.

use std::collections::HashSet;
use std::time::Duration;

use weaver_core::error::Result;
use weaver_core::event::ChangeCursor;
use weaver_core::lease::Lease;
use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::queue::{Interest, Queue, Wake};
use weaver_core::task::{DispatchFilter, TaskState};
use weaver_core::time::{Monotonic, Timestamp};

use crate::activity::POLL;
use crate::codec::foreign;
use crate::codec::record;
use crate::codec::value::Attributes;
use crate::db::Table;
use crate::keys;
use crate::ports::ready::{DueSearch, sources};
use crate::store::DynamoStore;

impl DynamoStore {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        match interest {
            Interest::Work { namespace, queues, types, fragile } => {
                let dispatch = DispatchFilter::Pulled;
                let filter = WorkFilter { namespace, queues, types, fragile, dispatch };
                self.wait_for_work(&filter, deadline).await
            }
            Interest::Assignable { namespace, queues, types } => {
                let (fragile, dispatch) = (true, DispatchFilter::Assigned);
                let filter = WorkFilter { namespace, queues, types, fragile, dispatch };
                self.wait_for_work(&filter, deadline).await
            }
            Interest::Assigned { namespace, worker } => {
                self.wait_for_assigned(&namespace, &worker, deadline).await
            }
            Interest::Cancelled { leases } => {
                self.limits().check_batch("leases", leases.len())?;
                self.wait_for_cancelled(&leases, deadline).await
            }
            Interest::Changes { after } => self.wait_for_changes(after, deadline).await,
        }
    }

    async fn wait_for_work(&self, filter: &WorkFilter, deadline: Monotonic) -> Result<Wake> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the poll, so that no change in between is missed.
            changed.as_mut().enable();
            // Read before the request: if the clock moves meanwhile, poll again instead of sleeping on.
            let polled_at = self.clock.monotonic();
            let next_at = match self.poll_for_work(filter).await? {
                Polled::Work => return Ok(Wake::Ready),
                Polled::Nothing(next_at) => next_at,
            };
            let now = self.clock.monotonic();
            if now >= deadline {
                return Ok(Wake::TimedOut);
            }
            let due = next_at.map(|at| now.saturating_add(at.since(self.now())));
            let poll = polled_at.saturating_add(POLL);
            let until = [Some(deadline), Some(poll), due].into_iter().flatten().min();
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(until.unwrap_or(deadline)) => {}
            }
        }
    }

    async fn poll_for_work(&self, filter: &WorkFilter) -> Result<Polled> {
        self.adopt_if_due(&filter.namespace, &filter.queues, filter.types.as_deref()).await?;
        let states = self.queue_states(&filter.namespace, &filter.queues).await?;
        let rooms = sources(&filter.namespace, &filter.queues, &states, filter.dispatch);
        let (except, slots) = (HashSet::new(), u32::from(filter.fragile));
        let (namespace, types) = (&filter.namespace, filter.types.as_deref());
        let search = DueSearch { namespace, types, max: 1, slots, except: &except, now: self.now() };
        let due = self.due_in(&search, &rooms).await?;
        Ok(if due.tasks.is_empty() { Polled::Nothing(due.next_at) } else { Polled::Work })
    }

    async fn wait_for_assigned(
        &self,
        namespace: &Namespace,
        worker: &WorkerId,
        deadline: Monotonic,
    ) -> Result<Wake> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let polled_at = self.clock.monotonic();
            if !self.assigned_to(namespace, worker).await?.is_empty() {
                return Ok(Wake::Ready);
            }
            if self.clock.monotonic() >= deadline {
                return Ok(Wake::TimedOut);
            }
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(deadline.min(polled_at.saturating_add(POLL))) => {}
            }
        }
    }

    async fn wait_for_cancelled(&self, leases: &[Lease], deadline: Monotonic) -> Result<Wake> {
        loop {
            let polled_at = self.clock.monotonic();
            if self.any_cancelled(leases).await? {
                return Ok(Wake::Ready);
            }
            if self.clock.monotonic() >= deadline {
                return Ok(Wake::TimedOut);
            }
            // Not woken by `changed`: every transition of this process notifies it, and each poll is a
            // request.
            let until = deadline.min(polled_at.saturating_add(POLL));
            self.clock.sleep_until(until).await;
        }
    }

    /// One `BatchGetItem` per hundred leases. Other clients cancel by writing only the status, so any foreign
    /// change counts: the renewal that follows decides.
    async fn any_cancelled(&self, leases: &[Lease]) -> Result<bool> {
        let tasks: Vec<_> = leases.iter().map(|lease| lease.key.clone()).collect();
        let names = self.names_of(&tasks).await?;
        let wanted: Vec<_> = names.iter().map(|(task, name)| keys::task(&task.namespace, name)).collect();
        if wanted.is_empty() {
            return Ok(false);
        }
        let items = self.db.get(Table::Queue, wanted).await?;
        Ok(items.iter().any(|item| {
            let cancelled = record::state_of(item) == Some(TaskState::Cancelled);
            let version = item.number("version").unwrap_or_default();
            let is_ours = |lease: &&Lease| record::key_of(item).is_ok_and(|key| key == lease.key);
            let lease = leases.iter().find(is_ours);
            foreign::is_moved(item)
                || lease.is_some_and(|lease| cancelled && version == lease.version.next().0)
        }))
    }

    async fn wait_for_changes(&self, after: ChangeCursor, deadline: Monotonic) -> Result<Wake> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let polled_at = self.clock.monotonic();
            self.poll_other_writers().await?;
            if self.change_log.lock().has_after(after) {
                return Ok(Wake::Ready);
            }
            if self.clock.monotonic() >= deadline {
                return Ok(Wake::TimedOut);
            }
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(deadline.min(polled_at.saturating_add(POLL))) => {}
            }
        }
    }
}

struct WorkFilter {
    namespace: Namespace,
    queues: Vec<QueueName>,
    types: Option<Vec<TaskType>>,
    fragile: bool,
    dispatch: DispatchFilter,
}

enum Polled {
    Work,
    /// With the next due time, if known.
    Nothing(Option<Timestamp>),
}
