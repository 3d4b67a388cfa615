//! Tasks on disk: the rows a new task has, and what a move changes of them.

use weaver_core::event::Change;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::lease::{Lease, Renewal, Renewed};
use weaver_core::lifecycle::{self, Transition};
use weaver_core::quarantine::QUARANTINE_MAX;
use weaver_core::queue::index::Standing;
use weaver_core::queue::{Committed, Enqueued, LeaderEpoch, Overdue};
use weaver_core::task::{TaskRecord, TaskState, ValidTask};

use crate::codec::{
    StoredGroup, StoredUniqueKey, decode_group, decode_unique_key, encode_group, encode_spec, encode_status,
    encode_unique_key,
};
use crate::keys;
use crate::rows;
use crate::trouble::Outcome;
use crate::work::Work;

impl Work<'_> {
    /// Stores one new task, or finds the one it repeats.
    pub(crate) fn enqueue(&mut self, task: ValidTask) -> Outcome<Enqueued> {
        let number = self.number_or_new(&task.namespace)?;
        let unique: Vec<_> = task.spec.unique_keys().map(|key| keys::unique(number, &key)).collect();
        for key in &unique {
            // One that is past its time is as good as gone, whether or not it was swept.
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

    /// Writes every row of a task that has none, and tells the index.
    pub(crate) fn insert(&mut self, number: u32, record: &TaskRecord) -> Outcome<()> {
        let id = record.key.id;
        self.put(&keys::task(keys::SPEC, number, id), |writer| {
            encode_spec(writer, &record.spec, record.created_at);
        })?;
        for key in keys::lookups(number, record) {
            self.put_mark(&key)?;
        }
        let live = Standing::of(record).is_live();
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

    /// Makes decided moves.
    pub(crate) fn commit(
        &mut self,
        transitions: Vec<Transition>,
        leader: Option<&LeaderEpoch>,
    ) -> Outcome<Vec<Committed>> {
        if let Some(leader) = leader {
            let current = self.document_version(&leader.document)?.unwrap_or_default();
            if current != leader.epoch {
                let epoch = leader.epoch;
                return Err(weaver_core::error::Error::Deposed { epoch, current }.into());
            }
        }
        transitions.into_iter().map(|transition| self.commit_one(transition)).collect()
    }

    fn commit_one(&mut self, transition: Transition) -> Outcome<Committed> {
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

    /// Applies a transition that fits.
    pub(crate) fn apply(&mut self, mut record: TaskRecord, transition: Transition) -> Outcome<TaskRecord> {
        let before = Standing::of(&record);
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
        Ok(record)
    }

    /// Writes how a task that was live is going now, and tells the index.
    fn save(&mut self, record: &TaskRecord, before: &Standing) -> Outcome<()> {
        let (id, after) = (record.key.id, Standing::of(record));
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

    /// The rows a task has from its end on.
    fn mark_end(&mut self, number: u32, record: &TaskRecord) -> Outcome<()> {
        let id = record.key.id;
        let at = record.finished_at.unwrap_or(record.updated_at);
        self.put_mark(&keys::lookup_end(number, id, record.state))?;
        self.put_mark(&keys::ended(at, number, id))?;
        self.memory.finished += 1;
        self.ended += 1;
        self.memory.oldest_end = self.memory.oldest_end.map(|oldest| oldest.min(at));
        Ok(())
    }

    fn count_in_group(&mut self, number: u32, record: &TaskRecord, before: Option<TaskState>) -> Outcome<()> {
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

    /// Extends one lease.
    pub(crate) fn renew(&mut self, renewal: Renewal) -> Outcome<Renewed> {
        let key = renewal.lease.key.clone();
        let Some(mut record) = self.load(&key.namespace, key.id)? else { return Ok(Renewed::Lost) };
        let before = Standing::of(&record);
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
    pub(crate) fn any_cancelled(&mut self, leases: &[Lease]) -> Outcome<bool> {
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

    /// Ends one hold.
    pub(crate) fn confirm_stopped(&mut self, lease: &Lease) -> Outcome<()> {
        let Some(mut record) = self.load(&lease.key.namespace, lease.key.id)? else { return Ok(()) };
        let before = Standing::of(&record);
        if lifecycle::confirm_stopped(&mut record, lease) {
            self.save(&record, &before)?;
        } else {
            self.memory.records.put(&record);
        }
        Ok(())
    }

    /// Tasks that something must be done about.
    pub(crate) fn overdue(&mut self, limit: usize) -> Outcome<Vec<Overdue>> {
        // More than are wanted: those that cannot be read must not keep the others from being found.
        let found: Vec<_> = self.memory.index.overdue().take(limit + QUARANTINE_MAX).collect();
        let mut overdue = Vec::with_capacity(found.len().min(limit));
        for (id, why) in found {
            if overdue.len() == limit {
                break;
            }
            let Some(namespace) = self.memory.index.namespace_of(id).cloned() else { continue };
            if let Some(record) = self.load(&namespace, id)? {
                self.memory.records.put(&record);
                overdue.push(Overdue { record, why });
            }
        }
        Ok(overdue)
    }
}
