//! Retention of finished tasks and unique keys: a few are removed with every batch, so that no request is
//! delayed by all of it.

use std::ops::Bound;

use weaver_core::id::TaskId;
use weaver_core::ports::{PurgeRule, Purged};
use weaver_core::task::{TaskSpec, TaskState};
use weaver_core::time::Timestamp;

use crate::codec::{decode_group, encode_group};
use crate::fault::{StoreFault, StoreResult};
use crate::keys;
use crate::rows;
use crate::unreadable::find_task;
use crate::work::Work;

impl Work<'_> {
    /// Removes at most `limit` finished tasks beyond the retention age or count.
    pub(super) fn purge_finished(&mut self, limit: usize) -> StoreResult<()> {
        let options = self.memory.options;
        let too_many = options.retention_count.map_or(0, |kept| self.memory.finished.saturating_sub(kept));
        let now = self.now();
        let is_old = |at: Timestamp| now.since(at) >= options.retention;
        if too_many == 0 && self.memory.oldest_end.is_some_and(|oldest| !is_old(oldest)) {
            return Ok(());
        }
        let mut removed = 0;
        // More than needed: some may have a cancellation hold.
        let oldest = self.ended(Timestamp::MAX, limit * 2 + self.memory.unread_ended)?;
        self.memory.oldest_end = oldest.first().map_or(Some(now), |(at, ..)| Some(*at));
        let mut unread = 0;
        for (at, number, id) in oldest {
            if removed == limit || (!is_old(at) && removed as u64 >= too_many) {
                break;
            }
            match self.remove_finished(at, number, id) {
                Ok(true) => removed += 1,
                Ok(false) => unread += 1,
                // One damaged row must not stop retention.
                Err(StoreFault::Refused(error)) => {
                    tracing::error!(%error, task = %id, "purging a task failed");
                }
                Err(broken) => return Err(broken),
            }
        }
        self.memory.unread_ended = unread;
        Ok(())
    }

    /// Removes at most `limit` finished tasks that match the rule.
    pub(crate) fn purge(&mut self, rule: &PurgeRule, limit: usize) -> StoreResult<Purged> {
        rule.validate()?;
        let until = self.now().saturating_sub(rule.finished_for);
        let mut matching = Vec::new();
        let mut more = false;
        for row in rows::scan_all(&self.table, &[keys::ENDED])? {
            let (key, _) = row?;
            let Some((at, number, id)) = keys::split_ended(key.value()) else { continue };
            if at > until {
                break;
            }
            let Some(namespace) = self.memory.names.name(number) else { continue };
            if rule.namespace.as_ref().is_some_and(|wanted| wanted != namespace) {
                continue;
            }
            let Some(record) = self.find(namespace, number, id)? else { continue };
            if record.has_hold()
                || rule.queue.as_ref().is_some_and(|queue| record.spec.queue != *queue)
                || rule.state.is_some_and(|state| record.state != state)
            {
                continue;
            }
            if matching.len() == limit {
                more = true;
                break;
            }
            matching.push((at, number, id));
        }
        for (at, number, id) in &matching {
            self.remove_finished(*at, *number, *id)?;
        }
        Ok(Purged { count: matching.len() as u32, more })
    }

    /// The tasks that finished first.
    fn ended(&self, until: Timestamp, limit: usize) -> StoreResult<Vec<(Timestamp, u32, TaskId)>> {
        let mut ended = Vec::new();
        for row in rows::scan_all(&self.table, &[keys::ENDED])?.take(limit) {
            let (key, _) = row?;
            let split = keys::split_ended(key.value());
            ended.extend(split.filter(|(at, ..)| *at <= until));
        }
        Ok(ended)
    }

    /// Removes every row of a finished task; `false` if it has a cancellation hold or cannot be read.
    fn remove_finished(&mut self, at: Timestamp, number: u32, id: TaskId) -> StoreResult<bool> {
        let Some(namespace) = self.memory.names.name(number).cloned() else { return Ok(false) };
        if self.memory.index.contains(id) {
            return Ok(false);
        }
        let record = match find_task(&self.table, &namespace, number, id)? {
            Some(Ok(record)) => record,
            // Left unchanged: a newer version of Weaver may have written it.
            Some(Err(unreadable)) => {
                self.memory.quarantine.add(unreadable.finding(self.now()));
                return Ok(false);
            }
            None => return self.delete(&keys::ended(at, number, id)),
        };
        self.delete(&keys::ended(at, number, id))?;
        self.delete(&keys::lookup_end(number, id, record.state))?;
        for key in keys::lookups(number, &record) {
            self.delete(&key)?;
        }
        self.delete(&keys::task(keys::FINISHED, number, id))?;
        self.delete(&keys::task(keys::SPEC, number, id))?;
        self.remove_from_group(number, &record.spec, record.state)?;
        self.memory.finished = self.memory.finished.saturating_sub(1);
        self.memory.index.forget(&namespace, &record.spec.queue, record.state);
        self.memory.touched.insert((namespace, record.spec.queue.clone()));
        self.discard_streams(number, &record.key)?;
        Ok(true)
    }

    pub(super) fn remove_from_group(
        &mut self,
        number: u32,
        spec: &TaskSpec,
        state: TaskState,
    ) -> StoreResult<()> {
        let Some(group) = &spec.origin().task_group_id else { return Ok(()) };
        let key = keys::named(keys::GROUP, number, group.as_str());
        let Some(mut stored) = rows::read(&self.table, &key, decode_group)? else { return Ok(()) };
        stored.counts.remove(state);
        if stored.counts.total() == 0 {
            return self.delete(&key).map(drop);
        }
        self.put(&key, |writer| encode_group(writer, &stored))
    }

    /// Removes at most `limit` expired unique keys.
    pub(super) fn expire_unique_keys(&mut self, limit: usize) -> StoreResult<()> {
        let now = self.now();
        if self.memory.oldest_key.is_some_and(|oldest| oldest > now) {
            return Ok(());
        }
        let mut over = Vec::new();
        // All keys have the same lifetime: a new one expires no earlier than this.
        self.memory.oldest_key = Some(now.saturating_add(self.memory.options.unique_for()));
        for row in rows::scan(&self.table, &[keys::UNIQUE_UNTIL], Bound::Unbounded, Bound::Unbounded)? {
            let (key, _) = row?;
            let Some((until, _)) = keys::split_unique_until(key.value()) else { continue };
            if until > now || over.len() == limit {
                self.memory.oldest_key = Some(until);
                break;
            }
            over.push(key.value().to_vec());
        }
        for key in over {
            self.delete(&key)?;
            let Some((until, unique)) = keys::split_unique_until(&key) else { continue };
            // The key may have been taken by a new task since.
            let stored = rows::read(&self.table, unique, crate::codec::decode_unique_key)?;
            if stored.is_some_and(|stored| stored.until == until) {
                self.delete(unique)?;
            }
        }
        Ok(())
    }
}
