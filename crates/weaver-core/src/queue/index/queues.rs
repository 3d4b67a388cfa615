//! Queues by name and by number: settings, counts, slots and ready lanes of each.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::admission::QueueFacts;
use crate::id::Version;
use crate::name::{Namespace, QueueName};
use crate::ports::{QueueSettings, StateCounts};
use crate::queue::index::lane::Lanes;

#[derive(Debug)]
pub(super) struct QueueState {
    pub(super) namespace: Namespace,
    pub(super) name: QueueName,
    pub(super) settings: QueueSettings,
    /// 0 until settings are written.
    pub(super) version: Version,
    pub(super) counts: StateCounts,
    /// Slots taken: assigned, orphaned and running tasks, and cancellation holds.
    pub(super) occupied: u64,
    pub(super) lanes: Lanes,
}

impl QueueState {
    pub(super) fn facts(&self) -> QueueFacts {
        QueueFacts { settings: self.settings, occupied: self.occupied }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queues {
    slots: Vec<Option<QueueState>>,
    free: Vec<u32>,
    // Sorted within a namespace, because that is how they are listed.
    numbers: HashMap<Namespace, BTreeMap<QueueName, u32>>,
    /// The one last used: batches go to one queue, and producers often use the same.
    last_number: u32,
}

impl Queues {
    pub(super) fn number(&self, namespace: &Namespace, name: &QueueName) -> Option<u32> {
        let last = self.find(self.last_number);
        if last.is_some_and(|last| last.namespace == *namespace && last.name == *name) {
            return Some(self.last_number);
        }
        self.numbers.get(namespace)?.get(name).copied()
    }

    pub(super) fn number_or_new(&mut self, namespace: &Namespace, name: &QueueName) -> u32 {
        let number = self.number(namespace, name).unwrap_or_else(|| self.add(namespace, name));
        self.last_number = number;
        number
    }

    fn add(&mut self, namespace: &Namespace, name: &QueueName) -> u32 {
        let queue = QueueState {
            namespace: namespace.clone(),
            name: name.clone(),
            settings: QueueSettings::default(),
            version: Version(0),
            counts: StateCounts::default(),
            occupied: 0,
            lanes: Lanes::default(),
        };
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).expect("fewer than four thousand million queues")
            }
        };
        self.slots[number as usize] = Some(queue);
        self.numbers.entry_ref(namespace).or_default().insert(name.clone(), number);
        number
    }

    /// The queue of this number, if it has not been forgotten since.
    pub(super) fn find(&self, number: u32) -> Option<&QueueState> {
        self.slots.get(number as usize)?.as_ref()
    }

    pub(super) fn get(&self, number: u32) -> &QueueState {
        self.slots[number as usize].as_ref().expect("a queue outlives its records")
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut QueueState {
        self.slots[number as usize].as_mut().expect("a queue outlives its records")
    }

    /// Forgets a queue that has neither records nor settings.
    pub(super) fn forget_if_unused(&mut self, number: u32) {
        let queue = self.get(number);
        // A slot may be held by a task that cannot be read, and is counted nowhere.
        if queue.counts.total() > 0 || queue.version > Version(0) || queue.occupied > 0 {
            return;
        }
        if let Some(queue) = self.slots[number as usize].take() {
            self.free.push(number);
            if let Some(names) = self.numbers.get_mut(&queue.namespace) {
                names.remove(&queue.name);
                if names.is_empty() {
                    self.numbers.remove(&queue.namespace);
                }
            }
        }
    }

    pub(super) fn of_namespace(&self, namespace: &Namespace) -> impl Iterator<Item = (u32, &QueueState)> {
        let numbers = self.numbers.get(namespace).into_iter().flat_map(BTreeMap::values);
        numbers.map(|number| (*number, self.get(*number)))
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.numbers.keys()
    }
}
