//! Who waits for work, and who of them is woken.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::name::{Namespace, QueueName, TaskType};
use crate::queue::memory::lane::LaneRef;
use crate::queue::memory::queues::QueueState;
use crate::queue::memory::state::{Effects, InMemoryQueueState};
use crate::queue::memory::take::Taste;

/// What a waiter waits for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) namespace: Namespace,
    pub(super) queues: Vec<QueueName>,
    pub(super) types: Option<Vec<TaskType>>,
    pub(super) fragile: bool,
}

impl Wanted {
    pub(super) fn taste(&self) -> Taste<'_> {
        Taste {
            namespace: &self.namespace,
            queues: &self.queues,
            types: self.types.as_deref(),
            fragile: self.fragile,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Waiters {
    // In order of arrival: whoever has waited longest is woken first.
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
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn add(&mut self, wanted: Wanted) -> (u64, Arc<Notify>) {
        let (id, wake) = (self.next_id, Arc::new(Notify::new()));
        self.next_id += 1;
        self.waiting.push(Waiter { id, wanted, wake: Arc::clone(&wake) });
        (id, wake)
    }

    /// Removes a waiter; says whether it was still waiting (and not already woken).
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let position = self.waiting.iter().position(|waiter| waiter.id == id);
        position.map(|position| self.waiting.remove(position)).is_some()
    }

    /// Picks whom to wake: one waiter per task that can be taken, everybody if the next task is due earlier than they
    /// know. The caller wakes them once it has released the lock.
    pub(super) fn pick(&mut self, effects: &Effects, state: &InMemoryQueueState) -> Vec<Arc<Notify>> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        if effects.earlier_due {
            return self.waiting.drain(..).map(|waiter| waiter.wake).collect();
        }
        let mut picked = Vec::new();
        for arrival in &effects.arrivals {
            let Some(queue) = state.queues.find(arrival.queue) else { continue };
            match arrival.task.and_then(|id| state.records.get(id)) {
                Some(slot) => self.pick_one(queue, LaneRef::of(&slot.record), &mut picked),
                // The queue as a whole opened: one waiter for each kind of task that stands in it.
                None => {
                    for (lane, entries) in queue.lanes.list() {
                        if !entries.is_empty() {
                            self.pick_one(queue, lane.as_ref(), &mut picked);
                        }
                    }
                }
            }
        }
        picked
    }

    /// Picks whoever has waited longest for such a task.
    fn pick_one(&mut self, queue: &QueueState, lane: LaneRef<'_>, picked: &mut Vec<Arc<Notify>>) {
        let wants = |wanted: &Wanted| {
            wanted.namespace == queue.namespace
                && wanted.queues.contains(&queue.name)
                && wanted.taste().likes(lane)
        };
        if let Some(position) = self.waiting.iter().position(|waiter| wants(&waiter.wanted)) {
            picked.push(self.waiting.remove(position).wake);
        }
    }

    /// Passes a wake-up on that its receiver will not use: to everybody who could, as it is not known what it was for.
    pub(super) fn hand_on(&mut self, wanted: &Wanted) -> Vec<Arc<Notify>> {
        let concerned = |waiter: &mut Waiter| {
            waiter.wanted.namespace == wanted.namespace
                && waiter.wanted.queues.iter().any(|queue| wanted.queues.contains(queue))
        };
        self.waiting.extract_if(.., concerned).map(|waiter| waiter.wake).collect()
    }
}
