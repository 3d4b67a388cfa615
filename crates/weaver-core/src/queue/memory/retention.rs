//! Retention: purging finished tasks.

use crate::error::Result;
use crate::id::TaskId;
use crate::ports::{PurgeRule, Purged};
use crate::queue::memory::state::InMemoryQueueState;

impl InMemoryQueueState {
    /// Removes finished records above the age or number of the options, at most `limit`: a few with every
    /// call, so that no call pays for all.
    pub(super) fn retire(&mut self, limit: usize) {
        for _ in 0..limit {
            let Some((finished_at, id)) = self.finished.first() else { return };
            let too_many = self.finished.len() > self.options.retention_count;
            let too_old = self.now().since(finished_at) >= self.options.retention;
            match self.records.get(id) {
                None => self.finished.pop_first(true),
                Some(_) if !too_many && !too_old => return,
                Some(record) if record.has_hold() => self.finished.postpone_first(),
                Some(_) => {
                    self.finished.pop_first(false);
                    self.remove(id);
                }
            }
        }
    }

    /// Removes finished records by rule, at most `limit`.
    pub(super) fn purge(&mut self, rule: &PurgeRule, limit: usize) -> Result<Purged> {
        rule.validate()?;
        let (ids, more) = self.purgeable(rule, limit);
        for id in &ids {
            self.remove(*id);
        }
        let records = &self.records;
        self.finished.note_purged(ids.len(), |id| records.get(id).is_some());
        Ok(Purged { count: ids.len() as u32, more })
    }

    /// The records a rule removes, and whether there are more of them.
    fn purgeable(&self, rule: &PurgeRule, limit: usize) -> (Vec<TaskId>, bool) {
        let old_enough = self.finished.iter().filter(|(at, _)| self.now().since(*at) >= rule.finished_for);
        let records = old_enough.filter_map(|(_, id)| self.records.get(id));
        let mut matching = records.filter(|record| {
            !record.has_hold()
                && rule.namespace.as_ref().is_none_or(|namespace| record.key.namespace == *namespace)
                && rule.queue.as_ref().is_none_or(|queue| record.spec.queue == *queue)
                && rule.state.is_none_or(|state| record.state == state)
        });
        let ids = matching.by_ref().take(limit).map(|record| record.key.id).collect();
        (ids, matching.next().is_some())
    }

    /// Removes a record in any state.
    pub(super) fn discard(&mut self, id: TaskId) {
        let ended = self.records.get(id).is_some_and(|record| record.state.is_terminal());
        self.remove(id);
        if ended {
            let records = &self.records;
            self.finished.note_purged(1, |id| records.get(id).is_some());
        }
    }

    fn remove(&mut self, id: TaskId) {
        let Some(removed) = self.records.remove(id) else { return };
        let namespace = &removed.key.namespace;
        self.index.discard(&removed);
        if let Some(group) = &removed.spec.origin().task_group_id {
            let key = (namespace.clone(), group.clone());
            if let Some(group) = self.groups.get_mut(&key) {
                group.counts.remove(removed.state);
                if group.counts.total() == 0 {
                    self.groups.remove(&key);
                }
            }
        }
        self.effects.removed.push(removed);
    }
}
