//! Callers that wait for work, and which of them are woken.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::name::{Namespace, QueueName, TaskType};
use crate::queue::index::kinds::Kinds;
use crate::queue::index::lane::LaneKey;
use crate::queue::index::queues::QueueState;
use crate::queue::index::{Index, LeaseFilter, WakeHints};
use crate::task::DispatchFilter;

/// What a caller waits for: an owned [`LeaseFilter`].
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Only tasks of this namespace.
    pub namespace: Namespace,
    /// Only tasks of these queues.
    pub queues: Vec<QueueName>,
    /// Only tasks of these types; `None`: of any.
    pub types: Option<Vec<TaskType>>,
    /// Whether fragile tasks match: the caller has slots for them.
    pub fragile: bool,
    /// Of which dispatch.
    pub dispatch: DispatchFilter,
}

impl Wanted {
    /// The same as a borrowed filter, for the index.
    pub fn filter(&self) -> LeaseFilter<'_> {
        LeaseFilter {
            namespace: &self.namespace,
            queues: &self.queues,
            types: self.types.as_deref(),
            fragile: self.fragile,
            dispatch: self.dispatch,
        }
    }
}

/// The callers that wait for work. The one that has waited longest is woken first.
#[derive(Debug, Default)]
pub struct Waiters {
    waiting: Vec<Waiter>,
    next_id: u64,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    wanted: Wanted,
    wake: Arc<Notify>,
}

impl Waiters {
    /// Whether no caller waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Registers a waiter; returns its number and what will be notified.
    pub fn add(&mut self, wanted: Wanted) -> (u64, Arc<Notify>) {
        let (id, wake) = (self.next_id, Arc::new(Notify::new()));
        self.next_id += 1;
        self.add_as(id, wanted, Arc::clone(&wake));
        (id, wake)
    }

    /// Registers a waiter under a number that the caller chose. Not to be mixed with [`add`](Self::add),
    /// which chooses numbers itself.
    pub fn add_as(&mut self, id: u64, wanted: Wanted, wake: Arc<Notify>) {
        self.waiting.push(Waiter { id, wanted, wake });
    }

    /// Removes a waiter; returns whether it was still waiting, and not already woken.
    pub fn remove(&mut self, id: u64) -> bool {
        let position = self.waiting.iter().position(|waiter| waiter.id == id);
        position.map(|position| self.waiting.remove(position)).is_some()
    }

    /// Chooses the waiters to wake: one per task that can be leased, all if the next task is due earlier than
    /// they know. The caller notifies them after it has released the lock.
    pub fn choose(&mut self, wake_hints: &WakeHints, index: &Index) -> Vec<Arc<Notify>> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        if wake_hints.earlier_due {
            return self.waiting.drain(..).map(|waiter| waiter.wake).collect();
        }
        let mut chosen = Vec::new();
        for arrival in &wake_hints.arrivals {
            let Some(queue) = index.queues.find(arrival.queue) else { continue };
            match arrival.lane {
                Some(lane) => self.choose_one(queue, lane, &index.kinds, &mut chosen),
                // The queue was resumed or has a free slot: one waiter for each lane with ready tasks.
                None => {
                    for (lane, entries) in queue.lanes.list() {
                        if !entries.is_empty() {
                            self.choose_one(queue, *lane, &index.kinds, &mut chosen);
                        }
                    }
                }
            }
        }
        chosen
    }

    /// Chooses the waiter that has waited longest for such a task.
    fn choose_one(
        &mut self,
        queue: &QueueState,
        lane: LaneKey,
        kinds: &Kinds,
        chosen: &mut Vec<Arc<Notify>>,
    ) {
        let wants = |wanted: &Wanted| {
            wanted.namespace == queue.namespace
                && wanted.queues.contains(&queue.name)
                && wanted.filter().matches(lane, kinds, queue.settings)
        };
        if let Some(position) = self.waiting.iter().position(|waiter| wants(&waiter.wanted)) {
            chosen.push(self.waiting.remove(position).wake);
        }
    }

    /// Wakes all waiters, because the index they wait on has been replaced.
    pub fn wake_all(self) {
        self.waiting.into_iter().for_each(|waiter| waiter.wake.notify_one());
    }

    /// Passes on a wake-up that its receiver will not use: to all waiters that could, as it is not known for
    /// which task it was.
    pub fn pass_on(&mut self, wanted: &Wanted) -> Vec<Arc<Notify>> {
        let concerned = |waiter: &mut Waiter| {
            waiter.wanted.namespace == wanted.namespace
                && waiter.wanted.queues.iter().any(|queue| wanted.queues.contains(queue))
        };
        self.waiting.extract_if(.., concerned).map(|waiter| waiter.wake).collect()
    }
}
