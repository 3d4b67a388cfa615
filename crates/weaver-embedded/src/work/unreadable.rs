//! Removing a task even if its rows cannot be decoded.

use weaver_core::id::TaskKey;
use weaver_core::name::QueueName;
use weaver_core::quarantine::{Discarded, RawTask, RecordKind};
use weaver_core::task::{TaskRecord, TaskState};

use crate::fault::StoreResult;
use crate::keys;
use crate::rows;
use crate::unreadable::{UnreadableTask, find_task, raw_task};
use crate::work::Work;

impl Work<'_> {
    /// Removes a task with its logs, if its rows are still those the caller read. Its unique keys stay (G8).
    pub(crate) fn discard(&mut self, key: &TaskKey, expected: &RawTask) -> StoreResult<Discarded> {
        let Some(number) = self.memory.names.number(&key.namespace) else { return Ok(Discarded::Missing) };
        match raw_task(&self.table, number, key.id)? {
            None => return Ok(Discarded::Missing),
            Some(found) if found != *expected => return Ok(Discarded::Changed),
            Some(_) => {}
        }
        match find_task(&self.table, &key.namespace, number, key.id)? {
            Some(Ok(record)) => self.discard_readable(number, &record)?,
            Some(Err(unreadable)) => self.discard_unreadable(number, &unreadable)?,
            None => {}
        }
        for tag in [keys::LIVE, keys::FINISHED, keys::SPEC] {
            self.delete(&keys::task(tag, number, key.id))?;
        }
        self.discard_streams(number, key)?;
        self.memory.quarantine.remove(&key.namespace, RecordKind::Task, &key.id.to_string());
        Ok(Discarded::Removed)
    }

    fn discard_readable(&mut self, number: u32, record: &TaskRecord) -> StoreResult<()> {
        for key in keys::lookups(number, record) {
            self.delete(&key)?;
        }
        if record.state.is_terminal() {
            let at = record.finished_at.unwrap_or(record.updated_at);
            self.delete(&keys::lookup_end(number, record.key.id, record.state))?;
            self.delete(&keys::ended(at, number, record.key.id))?;
            self.memory.finished = self.memory.finished.saturating_sub(1);
        }
        self.memory.records.take(record.key.id);
        self.memory.index.discard(record);
        self.remove_from_group(number, &record.spec, record.state)?;
        self.memory.touched.insert((record.key.namespace.clone(), record.spec.queue.clone()));
        Ok(())
    }

    fn discard_unreadable(&mut self, number: u32, unreadable: &UnreadableTask) -> StoreResult<()> {
        let (namespace, id) = (unreadable.key.namespace.clone(), unreadable.key.id);
        // Its index keys cannot be derived from unreadable rows: all index rows are scanned for its id.
        let mut ended_as = None;
        for prefix in [keys::of_namespace(keys::LOOKUP, number), vec![keys::ENDED]] {
            let mut about = Vec::new();
            for row in rows::scan_all(&self.table, &prefix)? {
                let (key, _) = row?;
                let key = key.value();
                let is_of_namespace =
                    key[0] == keys::LOOKUP || keys::split_ended(key).is_some_and(|(_, of, _)| of == number);
                if is_of_namespace && keys::id_of(key) == Some(id) {
                    about.push(key.to_vec());
                }
            }
            for key in about {
                let is_end = |state: &TaskState| key == keys::lookup_end(number, id, *state);
                ended_as =
                    ended_as.or(TaskState::ALL.into_iter().filter(|state| state.is_terminal()).find(is_end));
                self.delete(&key)?;
            }
        }
        let in_index = match self.memory.holds.remove(&id) {
            Some(hold) => {
                self.memory.index.remove_unreadable(id, &hold);
                None
            }
            // It was readable when the store was opened.
            None => self.memory.index.discard_entry(id),
        };
        let queue = unreadable.spec.as_ref().map(|spec| spec.queue.clone());
        let counted = match (ended_as, queue) {
            (Some(state), Some(queue)) => {
                self.memory.finished = self.memory.finished.saturating_sub(1);
                Some((queue, state))
            }
            (_, queue) => in_index.or_else(|| self.uncount(unreadable, queue.as_ref())),
        };
        let Some((queue, state)) = counted else { return Ok(()) };
        self.memory.index.forget(&namespace, &queue, state);
        if let Some(spec) = &unreadable.spec {
            self.remove_from_group(number, spec, state)?;
        }
        self.memory.touched.insert((namespace, queue));
        Ok(())
    }

    /// The queue and state that an unreadable live task is counted under, as far as known.
    fn uncount(
        &mut self,
        unreadable: &UnreadableTask,
        queue: Option<&QueueName>,
    ) -> Option<(QueueName, TaskState)> {
        let mut places = self.memory.unread_counts.iter_mut().filter(|((namespace, name), _)| {
            *namespace == unreadable.key.namespace && queue.is_none_or(|queue| queue == name)
        });
        let ((_, name), counts) = places.find(|(_, counts)| counts.total() > 0)?;
        let known = unreadable.state.filter(|state| counts.get(*state) > 0);
        let any = || TaskState::ALL.into_iter().find(|state| counts.get(*state) > 0);
        let state = known.or_else(any)?;
        counts.remove(state);
        Some((name.clone(), state))
    }
}
