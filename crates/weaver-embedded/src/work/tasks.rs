//! Tasks: the rows of a new task, and what a transition changes in them.

use weaver_core::event::Change;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::lease::{Lease, Renewal, Renewed};
use weaver_core::lifecycle::{self, Transition};
use weaver_core::quarantine::QUARANTINE_MAX;
use weaver_core::queue::index::IndexState;
use weaver_core::queue::{Committed, Enqueued, LeaderEpoch, Overdue};
use weaver_core::task::{TaskRecord, TaskState, ValidTask};

use crate::codec::{
    StoredGroup, StoredUniqueKey, decode_group, decode_unique_key, encode_group, encode_spec, encode_status,
    encode_unique_key,
};
use crate::fault::StoreResult;
use crate::keys;
use crate::rows;
use crate::work::Work;

impl Work<'_> {
    /// Stores one new task, or returns the existing one with the same unique key.
    pub(crate) fn enqueue(&mut self, task: ValidTask) -> StoreResult<Enqueued> {
        let number = self.number_or_new(&task.namespace)?;
        let unique: Vec<_> = task.spec.unique_keys().map(|key| keys::unique(number, &key)).collect();
        for key in &unique {
            // An expired key does not count, even if retention has not removed it yet.
            if let Some(stored) = rows::read(&self.table, key, decode_unique_key)?
                && stored.until > self.now()
            {
                return Ok(Enqueued { key: TaskKey::new(task.namespace, stored.task), existing: true });
            }
        }
        let id = TaskId(self.memory.counters.next_task);
        let now = self.now();
        let record = lifecycle::admit_at(task, id, self.memory.index.store_now())?;
        self.memory.counters.next_task += 1;
        let until = now.saturating_add(self.memory.options.unique_for());
        for key in unique {
            self.put(&key, |writer| encode_unique_key(writer, StoredUniqueKey { task: id, until }))?;
            self.put_mark(&keys::unique_until(until, &key))?;
            self.new_keys += 1;
        }
        self.insert(number, &record)?;
        self.memory.changes.push(Change::of(&record));
        Ok(Enqueued { key: record.key, existing: false })
    }

    /// Writes every row of a new task and adds it to the index.
    pub(crate) fn insert(&mut self, number: u32, record: &TaskRecord) -> StoreResult<()> {
        let id = record.key.id;
        self.put(&keys::task(keys::SPEC, number, id), |writer| {
            encode_spec(writer, &record.spec, record.created_at);
        })?;
        for key in keys::lookups(number, record) {
            self.put_mark(&key)?;
        }
        let live = IndexState::of(record).is_live();
        let tag = if live { keys::LIVE } else { keys::FINISHED };
        self.put(&keys::task(tag, number, id), |writer| encode_status(writer, record))?;
        if live {
            self.memory.index.insert(record);
            self.memory.records.put(record);
        }
        self.count_in_group(number, record, None)?;
        if record.state.is_terminal() {
            self.memory.index.remember(&record.key.namespace, &record.spec.queue, record.state);
            self.mark_end(number, record)?;
        }
        self.memory.touched.insert((record.key.namespace.clone(), record.spec.queue.clone()));
        Ok(())
    }

    /// Applies transitions by conditional writes; the leader's epoch fences them all.
    pub(crate) fn commit(
        &mut self,
        transitions: Vec<Transition>,
        leader: Option<&LeaderEpoch>,
    ) -> StoreResult<Vec<Committed>> {
        if let Some(leader) = leader {
            let current = self.document_version(&leader.document)?.unwrap_or_default();
            if current != leader.epoch {
                let epoch = leader.epoch;
                return Err(weaver_core::error::Error::Deposed { epoch, current }.into());
            }
        }
        transitions.into_iter().map(|transition| self.commit_one(transition)).collect()
    }

    fn commit_one(&mut self, transition: Transition) -> StoreResult<Committed> {
        let key = transition.key.clone();
        let Some(record) = self.load(&key.namespace, key.id)? else { return Ok(Committed::Stale) };
        let refusal = if !transition.fits(&record) {
            let repeated = transition.is_already_applied(&record);
            Some(if repeated { Committed::AlreadyApplied } else { Committed::Stale })
        } else if transition.admits() {
            self.memory.index.blocked(key.id).map(Committed::Blocked)
        } else {
            None
        };
        match refusal {
            Some(refusal) => {
                self.memory.records.put(&record);
                Ok(refusal)
            }
            None => Ok(Committed::Applied { version: self.apply(record, transition)?.version }),
        }
    }

    /// Applies a transition whose expected version matches.
    pub(crate) fn apply(
        &mut self,
        mut record: TaskRecord,
        transition: Transition,
    ) -> StoreResult<TaskRecord> {
        let before = IndexState::of(&record);
        transition.apply(&mut record, self.now());
        self.save(&record, &before)?;
        let number = self.number_or_new(&record.key.namespace)?;
        self.count_in_group(number, &record, Some(before.state))?;
        if record.state.is_terminal() {
            self.mark_end(number, &record)?;
        }
        self.memory.touched.insert((record.key.namespace.clone(), record.spec.queue.clone()));
        self.memory.changes.push(Change::of(&record));
        self.memory.cancelled |= record.has_hold();
        self.memory.assigned |= record.state == TaskState::Assigned;
        Ok(record)
    }

    /// Writes the new status of a live task and updates the index.
    fn save(&mut self, record: &TaskRecord, before: &IndexState) -> StoreResult<()> {
        let (id, after) = (record.key.id, IndexState::of(record));
        let number = self.number_or_new(&record.key.namespace)?;
        self.memory.index.update(id, before, &after);
        self.memory.records.put(record);
        let live = keys::task(keys::LIVE, number, id);
        if after.is_live() {
            return self.put(&live, |writer| encode_status(writer, record));
        }
        self.delete(&live)?;
        self.put(&keys::task(keys::FINISHED, number, id), |writer| encode_status(writer, record))
    }

    /// Writes the rows that a finished task has.
    fn mark_end(&mut self, number: u32, record: &TaskRecord) -> StoreResult<()> {
        let id = record.key.id;
        let at = record.finished_at.unwrap_or(record.updated_at);
        self.put_mark(&keys::lookup_end(number, id, record.state))?;
        self.put_mark(&keys::ended(at, number, id))?;
        self.memory.finished += 1;
        self.ended += 1;
        self.memory.oldest_end = self.memory.oldest_end.map(|oldest| oldest.min(at));
        Ok(())
    }

    fn count_in_group(
        &mut self,
        number: u32,
        record: &TaskRecord,
        before: Option<TaskState>,
    ) -> StoreResult<()> {
        let Some(group) = &record.spec.origin().task_group_id else { return Ok(()) };
        let key = keys::named(keys::GROUP, number, group.as_str());
        let last_at = record.updated_at;
        let stored = rows::read(&self.table, &key, decode_group)?;
        let mut stored = stored.unwrap_or(StoredGroup { counts: Default::default(), last_at });
        if let Some(before) = before {
            stored.counts.remove(before);
        }
        stored.counts.add(record.state);
        stored.last_at = last_at;
        self.put(&key, |writer| encode_group(writer, &stored))
    }

    /// Extends one lease and stores its progress; writes nothing unless the fencing token matches.
    pub(crate) fn renew(&mut self, renewal: Renewal) -> StoreResult<Renewed> {
        let key = renewal.lease.key.clone();
        let Some(mut record) = self.load(&key.namespace, key.id)? else { return Ok(Renewed::Lost) };
        let before = IndexState::of(&record);
        let version = (record.version, record.renewals);
        let answer = lifecycle::renew(&mut record, renewal, self.now());
        if version == (record.version, record.renewals) {
            self.memory.records.put(&record);
            return Ok(answer);
        }
        if let Some(held) = &record.lease {
            self.memory.index.renewed(key.id, held.expires_at);
        }
        self.save(&record, &before)?;
        Ok(answer)
    }

    /// Whether any of these leases was cancelled.
    pub(crate) fn any_cancelled(&mut self, leases: &[Lease]) -> StoreResult<bool> {
        for lease in leases {
            let Some(record) = self.load(&lease.key.namespace, lease.key.id)? else { continue };
            let cancelled = lifecycle::is_cancelled(&record, lease);
            self.memory.records.put(&record);
            if cancelled {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends the cancellation hold of a lease; does nothing if there is none.
    pub(crate) fn confirm_stopped(&mut self, lease: &Lease) -> StoreResult<()> {
        let Some(mut record) = self.load(&lease.key.namespace, lease.key.id)? else { return Ok(()) };
        let before = IndexState::of(&record);
        if lifecycle::confirm_stopped(&mut record, lease) {
            self.save(&record, &before)?;
        } else {
            self.memory.records.put(&record);
        }
        Ok(())
    }

    /// Tasks with an expired lease, hold or `expires_at`.
    pub(crate) fn overdue(&mut self, limit: usize) -> StoreResult<Vec<Overdue>> {
        // More than needed: unreadable tasks must not hide the others.
        let found: Vec<_> = self.memory.index.overdue().take(limit + QUARANTINE_MAX).collect();
        let mut overdue = Vec::with_capacity(found.len().min(limit));
        for (id, why) in found {
            if overdue.len() == limit {
                break;
            }
            let Some(namespace) = self.memory.index.namespace_of(id).cloned() else { continue };
            if let Some(record) = self.load(&namespace, id)? {
                self.memory.records.put(&record);
                overdue.push(Overdue { record, reason: why });
            }
        }
        Ok(overdue)
    }
}
