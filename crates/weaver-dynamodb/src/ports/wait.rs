//! Waiting: woken at once by what this process does, at the moment the next task is due, and once a second to
//! look what others did.

use std::collections::HashSet;
use std::time::Duration;

use weaver_core::admission::QueueFacts;
use weaver_core::error::Result;
use weaver_core::event::ChangeCursor;
use weaver_core::lease::Lease;
use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::queue::{Interest, Queue, Wake};
use weaver_core::task::TaskState;
use weaver_core::time::{Monotonic, Timestamp};

use crate::activity::POLL;
use crate::codec::foreign;
use crate::codec::record;
use crate::codec::value::Attributes;
use crate::db::Table;
use crate::keys;
use crate::ports::ready::Look;
use crate::store::DynamoStore;

impl DynamoStore {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        match interest {
            Interest::Work { namespace, queues, types, fragile } => {
                let taste = Taste { namespace, queues, types, fragile };
                self.wait_for_work(&taste, deadline).await
            }
            Interest::Cancelled { leases } => {
                self.limits().check_batch("leases", leases.len())?;
                self.wait_for_cancelled(&leases, deadline).await
            }
            Interest::Changes { after } => self.wait_for_changes(after, deadline).await,
        }
    }

    async fn wait_for_work(&self, taste: &Taste, deadline: Monotonic) -> Result<Wake> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking: what happens in between is not missed.
            changed.as_mut().enable();
            // Before the question is sent: a clock that moves meanwhile makes us look again, not sleep on.
            let looked_at = self.clock.monotonic();
            let next_at = match self.look(taste).await? {
                Seen::Work => return Ok(Wake::Ready),
                Seen::Nothing(next_at) => next_at,
            };
            let now = self.clock.monotonic();
            if now >= deadline {
                return Ok(Wake::TimedOut);
            }
            let due = next_at.map(|at| now.saturating_add(at.since(self.now())));
            let poll = looked_at.saturating_add(POLL);
            let until = [Some(deadline), Some(poll), due].into_iter().flatten().min();
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(until.unwrap_or(deadline)) => {}
            }
        }
    }

    async fn look(&self, taste: &Taste) -> Result<Seen> {
        let states = self.queue_states(&taste.namespace, &taste.queues).await?;
        let mut rooms: Vec<(QueueName, QueueFacts)> = Vec::new();
        for queue in &taste.queues {
            let state = states.get(queue).copied().unwrap_or_default();
            if state.blocked().is_none() && !rooms.iter().any(|(known, _)| known == queue) {
                rooms.push((queue.clone(), state.facts()));
            }
        }
        let (except, slots) = (HashSet::new(), u32::from(taste.fragile));
        let (namespace, types) = (&taste.namespace, taste.types.as_deref());
        let look = Look { namespace, types, max: 1, slots, except: &except, now: self.now() };
        let due = self.due_in(&look, &rooms).await?;
        Ok(if due.tasks.is_empty() { Seen::Nothing(due.next_at) } else { Seen::Work })
    }

    async fn wait_for_cancelled(&self, leases: &[Lease], deadline: Monotonic) -> Result<Wake> {
        loop {
            let looked_at = self.clock.monotonic();
            if self.any_cancelled(leases).await? {
                return Ok(Wake::Ready);
            }
            if self.clock.monotonic() >= deadline {
                return Ok(Wake::TimedOut);
            }
            // Not woken by `changed`: every move of this process rings it, and each would cost a request.
            let until = deadline.min(looked_at.saturating_add(POLL));
            self.clock.sleep_until(until).await;
        }
    }

    /// One BatchGetItem (per hundred) of what is in hand. Another's client cancels by writing the status
    /// alone, so any move that is not ours counts: the renewal that follows says what it means.
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
            let looked_at = self.clock.monotonic();
            self.look_for_others().await?;
            if self.ring.lock().has_after(after) {
                return Ok(Wake::Ready);
            }
            if self.clock.monotonic() >= deadline {
                return Ok(Wake::TimedOut);
            }
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(deadline.min(looked_at.saturating_add(POLL))) => {}
            }
        }
    }
}

struct Taste {
    namespace: Namespace,
    queues: Vec<QueueName>,
    types: Option<Vec<TaskType>>,
    fragile: bool,
}

enum Seen {
    Work,
    /// And when the next is due, if that is known.
    Nothing(Option<Timestamp>),
}
