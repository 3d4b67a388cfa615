//! Unique keys and the tasks they stand for (G8). They outlive the records: a repeated enqueue is answered
//! with the first task's key even when its record has been purged.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::id::TaskId;
use crate::name::Namespace;
use crate::task::UniqueKey;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(super) struct UniqueKeys {
    tasks: HashMap<(Namespace, UniqueKey), TaskId>,
    // All keys live equally long, so the order of arrival is the order of departure.
    departures: VecDeque<(Timestamp, Namespace, UniqueKey)>,
}

impl UniqueKeys {
    pub(super) fn find(&self, key: &(Namespace, UniqueKey)) -> Option<TaskId> {
        if self.tasks.is_empty() { None } else { self.tasks.get(key).copied() }
    }

    pub(super) fn insert(&mut self, key: (Namespace, UniqueKey), id: TaskId, until: Timestamp) {
        self.departures.push_back((until, key.0.clone(), key.1.clone()));
        self.tasks.insert(key, id);
    }

    pub(super) fn forget_expired(&mut self, now: Timestamp) {
        while self.departures.front().is_some_and(|(until, ..)| *until <= now) {
            if let Some((_, namespace, key)) = self.departures.pop_front() {
                self.tasks.remove(&(namespace, key));
            }
        }
    }
}
