//! Unique keys and their tasks (G8). They outlive the records: a repeated enqueue returns the first task's
//! key even after its record was purged.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::id::TaskId;
use crate::name::Namespace;
use crate::task::UniqueKey;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(super) struct UniqueKeys {
    tasks: HashMap<(Namespace, UniqueKey), TaskId>,
    // In order of expiry, because all keys have the same lifetime.
    expiries: VecDeque<(Timestamp, Namespace, UniqueKey)>,
}

impl UniqueKeys {
    pub(super) fn find(&self, key: &(Namespace, UniqueKey)) -> Option<TaskId> {
        if self.tasks.is_empty() { None } else { self.tasks.get(key).copied() }
    }

    pub(super) fn insert(&mut self, key: (Namespace, UniqueKey), id: TaskId, until: Timestamp) {
        self.expiries.push_back((until, key.0.clone(), key.1.clone()));
        self.tasks.insert(key, id);
    }

    pub(super) fn forget_expired(&mut self, now: Timestamp) {
        while self.expiries.front().is_some_and(|(until, ..)| *until <= now) {
            if let Some((_, namespace, key)) = self.expiries.pop_front() {
                self.tasks.remove(&(namespace, key));
            }
        }
    }
}
