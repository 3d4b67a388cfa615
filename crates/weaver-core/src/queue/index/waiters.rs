//! Who waits for work, and who of them is woken.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::name::{Namespace, QueueName, TaskType};
use crate::queue::index::kinds::Kinds;
use crate::queue::index::lane::LaneKey;
use crate::queue::index::queues::QueueState;
use crate::queue::index::{Index, News, Taste};

/// What a waiter waits for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where.
    pub namespace: Namespace,
    /// In which queues.
    pub queues: Vec<QueueName>,
    /// Of which types; `None`: of any.
    pub types: Option<Vec<TaskType>>,
    /// Whether fragile tasks count.
    pub fragile: bool,
}

impl Wanted {
    /// The same, as the index asks for it.
    pub fn taste(&self) -> Taste<'_> {
        Taste {
            namespace: &self.namespace,
            queues: &self.queues,
            types: self.types.as_deref(),
            fragile: self.fragile,
        }
    }
}

/// Who waits for work, in order of arrival.
#[derive(Debug, Default)]
pub struct Waiters {
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
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Registers a waiter: its number, and what will be rung for it.
    pub fn add(&mut self, wanted: Wanted) -> (u64, Arc<Notify>) {
        let (id, wake) = (self.next_id, Arc::new(Notify::new()));
        self.next_id += 1;
        self.add_as(id, wanted, Arc::clone(&wake));
        (id, wake)
    }

    /// Registers a waiter under a number of the caller's, who then never leaves numbers to
    /// [`add`](Self::add).
    pub fn add_as(&mut self, id: u64, wanted: Wanted, wake: Arc<Notify>) {
        self.waiting.push(Waiter { id, wanted, wake });
    }

    /// Removes a waiter; says whether it was still waiting (and not already woken).
    pub fn remove(&mut self, id: u64) -> bool {
        let position = self.waiting.iter().position(|waiter| waiter.id == id);
        position.map(|position| self.waiting.remove(position)).is_some()
    }

    /// Chooses whom to wake: one waiter per task that can be taken, everybody if the next task is due earlier
    /// than they know. The caller wakes them once it has released the lock.
    pub fn choose(&mut self, news: &News, index: &Index) -> Vec<Arc<Notify>> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        if news.earlier_due {
            return self.waiting.drain(..).map(|waiter| waiter.wake).collect();
        }
        let mut chosen = Vec::new();
        for arrival in &news.arrivals {
            let Some(queue) = index.queues.find(arrival.queue) else { continue };
            match arrival.lane {
                Some(lane) => self.choose_one(queue, lane, &index.kinds, &mut chosen),
                // The queue as a whole opened: one waiter for each kind of task that stands in it.
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

    /// Chooses whoever has waited longest for such a task.
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
                && wanted.taste().likes(lane, kinds)
        };
        if let Some(position) = self.waiting.iter().position(|waiter| wants(&waiter.wanted)) {
            chosen.push(self.waiting.remove(position).wake);
        }
    }

    /// Wakes everybody: what they waited on has been replaced.
    pub fn wake_all(self) {
        self.waiting.into_iter().for_each(|waiter| waiter.wake.notify_one());
    }

    /// Passes a wake-up on that its receiver will not use: to everybody who could, as it is not known what it
    /// was for.
    pub fn hand_on(&mut self, wanted: &Wanted) -> Vec<Arc<Notify>> {
        let concerned = |waiter: &mut Waiter| {
            waiter.wanted.namespace == wanted.namespace
                && waiter.wanted.queues.iter().any(|queue| wanted.queues.contains(queue))
        };
        self.waiting.extract_if(.., concerned).map(|waiter| waiter.wake).collect()
    }
}
