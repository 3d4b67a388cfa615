//! The state of the in-memory queue: synchronous, without I/O, and the only owner of every record.
//!
//! ```text
//! records    id → record          the only copy, finished tasks included
//! index      ids only             ready, scheduled and leased tasks (queue::index)
//! unique, groups, finished        unique keys, groups, retention
//! ```
//!
//! Every change of a record is reported to the index, which updates its views. Wake-ups are collected in the
//! index and in [`Effects`]; the caller sends them after it has released the lock.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::error::{Invalid, Problem, Result};
use crate::event::{Change, ChangeCursor, Changes};
use crate::id::{TaskId, TaskKey};
use crate::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use crate::lifecycle::{self, Command, Grant, Transition};
use crate::name::{Namespace, TaskGroupId};
use crate::ports::StateCounts;
use crate::queue::change_log::ChangeLog;
use crate::queue::index::{Index, IndexState};
use crate::queue::memory::MemoryOptions;
use crate::queue::memory::finished::Finished;
use crate::queue::memory::records::Records;
use crate::queue::memory::unique::UniqueKeys;
use crate::queue::{Committed, Enqueued, Overdue};
use crate::store_clock::StoreNow;
use crate::task::{TaskRecord, TaskState, ValidTask};
use crate::time::Timestamp;

/// The state of the in-memory queue: records by id, and views that hold ids (ADR-0001).
#[derive(Debug)]
pub struct InMemoryQueueState {
    pub(super) options: MemoryOptions,
    pub(super) next_id: u64,
    pub(super) records: Records,
    pub(super) index: Index,
    pub(super) unique: UniqueKeys,
    pub(super) groups: BTreeMap<(Namespace, TaskGroupId), Group>,
    pub(super) finished: Finished,
    pub(super) change_log: ChangeLog,
    pub(super) effects: Effects,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) counts: StateCounts,
    pub(super) last_at: Timestamp,
}

/// What is updated after every transition of a record.
struct Views<'a> {
    index: &'a mut Index,
    groups: &'a mut BTreeMap<(Namespace, TaskGroupId), Group>,
    change_log: &'a mut ChangeLog,
    effects: &'a mut Effects,
}

impl Views<'_> {
    /// Applies a transition that fits.
    fn apply(&mut self, record: &mut TaskRecord, transition: Transition) {
        let (before, now) = (IndexState::of(record), self.index.now());
        transition.apply(record, now);
        self.index.update(record.key.id, &before, &IndexState::of(record));
        if let Some(group) = &record.spec.origin().task_group_id {
            let group = self.groups.entry((record.key.namespace.clone(), group.clone())).or_default();
            group.counts.remove(before.state);
            group.counts.add(record.state);
            group.last_at = now;
        }
        self.change_log.push(Change::of(record));
        self.effects.changed = true;
        self.effects.cancelled |= record.has_hold();
        self.effects.assigned |= record.state == TaskState::Assigned;
    }
}

/// What the caller does after it has released the lock.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Whether the change log has grown.
    pub(super) changed: bool,
    /// Whether a running task was cancelled.
    pub(super) cancelled: bool,
    /// Whether a task was assigned to a worker.
    pub(super) assigned: bool,
    /// Purged records, to be freed outside the lock.
    #[expect(clippy::vec_box, reason = "boxed in `records` already: moving one out copies a pointer")]
    pub(super) removed: Vec<Box<TaskRecord>>,
}

impl InMemoryQueueState {
    pub(super) fn new(options: MemoryOptions, now: StoreNow) -> Self {
        let mut index = Index::default();
        index.tick(now);
        Self {
            next_id: 1,
            records: Records::default(),
            index,
            unique: UniqueKeys::default(),
            groups: BTreeMap::new(),
            finished: Finished::default(),
            // The start time is unique: no two incarnations begin in the same microsecond.
            change_log: ChangeLog::new(options.change_log_capacity, now.steady.as_micros().unsigned_abs()),
            effects: Effects::default(),
            options,
        }
    }

    /// Sets the time, at the beginning of every call: due tasks become ready, and some of what is past its
    /// retention is removed.
    pub(super) fn tick(&mut self, now: StoreNow) {
        self.promote_scheduled_tasks(now);
        self.unique.forget_expired(self.now());
        self.retire(16);
    }

    /// Makes the scheduled tasks that are due ready to be leased (seed 002).
    pub(super) fn promote_scheduled_tasks(&mut self, now: StoreNow) {
        self.index.tick(now);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.index.now()
    }

    /// Stores one new task, or finds the existing one with the same unique key.
    pub(super) fn enqueue(
        &mut self,
        task: ValidTask,
        place: Box<MaybeUninit<TaskRecord>>,
    ) -> Result<Enqueued> {
        if task.spec.has_unique_keys() {
            for key in task.spec.unique_keys() {
                if let Some(id) = self.unique.find(&(task.namespace.clone(), key)) {
                    return Ok(Enqueued { key: TaskKey::new(task.namespace, id), existing: true });
                }
            }
        }
        let id = TaskId(self.next_id);
        let now = self.now();
        let record = Box::write(place, lifecycle::admit_at(task, id, self.index.store_now())?);
        self.next_id += 1;
        let key = record.key.clone();
        if record.spec.has_unique_keys() {
            let until = now.saturating_add(self.idempotency_ttl());
            for unique in record.spec.unique_keys() {
                self.unique.insert((key.namespace.clone(), unique), id, until);
            }
        }
        if let Some(group) = &record.spec.origin().task_group_id {
            let group = self.groups.entry((key.namespace.clone(), group.clone())).or_default();
            group.counts.add(record.state);
            group.last_at = now;
        }
        self.change_log.push(Change::of(&record));
        self.effects.changed = true;
        self.index.insert(&record);
        self.records.insert(id, record);
        Ok(Enqueued { key, existing: false })
    }

    /// Leases due tasks: an id from the index, the record from `records`.
    pub(super) fn lease(&mut self, request: &LeaseRequest) -> Result<Vec<Leased>, Invalid> {
        let granted = self.granted_before(request)?;
        if !granted.is_empty() {
            return Ok(granted);
        }
        let mut picks = self.index.begin_picking(request);
        let mut taken = Vec::with_capacity(self.index.pickable(&picks, request.max as usize));
        while taken.len() < request.max as usize
            && let Some(id) = self.index.pick(&mut picks)
        {
            self.take(id, request, &mut taken);
        }
        Ok(taken)
    }

    /// The leases that an earlier call with the same token was granted and that are still valid.
    fn granted_before(&self, request: &LeaseRequest) -> Result<Vec<Leased>, Invalid> {
        let granted = self.index.granted(&request.token).iter();
        let records = granted.filter_map(|id| self.records.get(*id));
        let mut leased = Vec::new();
        for record in records {
            let Some(held) = record.lease.as_ref().filter(|held| held.token == request.token) else {
                continue;
            };
            if held.worker != request.worker || record.key.namespace != request.namespace {
                return Err(Invalid::new("token", Problem::TokenTaken));
            }
            if let Some(lease) = record.current_lease() {
                leased.push(Leased { lease, record: record.clone() });
            }
        }
        Ok(leased)
    }

    /// Starts a task that was just picked.
    fn take(&mut self, id: TaskId, request: &LeaseRequest, taken: &mut Vec<Leased>) {
        let now = self.index.store_now();
        let (Some(record), mut views) = self.record_and_views(id) else { return };
        let grant = Grant { worker: request.worker.clone(), token: request.token, ttl: request.ttl };
        let Ok(transition) = lifecycle::decide(record, Command::Lease(grant), now.once_due(record)) else {
            return;
        };
        views.apply(record, transition);
        if let Some(lease) = record.current_lease() {
            // Cloned in place: a record is large, and moving it is a copy.
            taken.push(Leased { lease, record: record.clone() });
        }
    }

    /// Applies one decided transition, if the record is still what it was decided on.
    pub(super) fn commit(&mut self, transition: Transition) -> Committed {
        let id = transition.key.id;
        let (Some(record), mut views) = self.record_and_views(id) else { return Committed::Stale };
        if !transition.fits(record) {
            let repeated = transition.is_already_applied(record);
            return if repeated { Committed::AlreadyApplied } else { Committed::Stale };
        }
        if transition.admits()
            && let Some(blocked) = views.index.blocked(id)
        {
            return Committed::Blocked(blocked);
        }
        views.apply(record, transition);
        let (version, ended) = (record.version, record.state.is_terminal());
        if ended {
            self.finished.push(self.now(), id);
            self.retire(2);
        }
        Committed::Applied { version }
    }

    /// A record and its views, borrowed separately, so that the record is looked up once.
    fn record_and_views(&mut self, id: TaskId) -> (Option<&mut TaskRecord>, Views<'_>) {
        let Self { records, index, groups, change_log, effects, .. } = self;
        (records.get_mut(id), Views { index, groups, change_log, effects })
    }

    pub(super) fn renew(&mut self, renewal: Renewal) -> Renewed {
        let (id, now) = (renewal.lease.key.id, self.now());
        let Some(record) = self.records.get_mut(id) else { return Renewed::Lost };
        let answer = lifecycle::renew(record, renewal, now);
        if let (Renewed::Extended, Some(held)) = (answer, &record.lease) {
            self.index.renewed(id, held.expires_at);
        }
        answer
    }

    pub(super) fn confirm_stopped(&mut self, lease: &Lease) {
        let Some(record) = self.records.get_mut(lease.key.id) else { return };
        let before = IndexState::of(record);
        if lifecycle::confirm_stopped(record, lease) {
            self.index.update(lease.key.id, &before, &IndexState::of(record));
        }
    }

    pub(super) fn overdue(&self, limit: usize) -> Vec<Overdue> {
        let record = |(id, reason)| Some(Overdue { record: self.records.get(id)?.clone(), reason });
        self.index.overdue().filter_map(record).take(limit).collect()
    }

    pub(super) fn changes(&self, after: Option<ChangeCursor>, limit: usize) -> Changes {
        self.change_log.read(after, limit)
    }

    fn idempotency_ttl(&self) -> Duration {
        self.options.idempotency_ttl.max(self.options.retention)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::id::LeaseToken;
    use crate::limits::Limits;
    use crate::name::{QueueName, WorkerId};
    use crate::task::NewTask;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn request(queue: &'static str, token: u128) -> LeaseRequest {
        let (queue, worker) = (QueueName::new(queue).unwrap(), WorkerId::new("w").unwrap());
        LeaseRequest::new(Namespace::default(), queue, worker, LeaseToken(token))
    }

    /// A task in each view, and one that is leased.
    fn one_task_per_view() -> InMemoryQueueState {
        let mut state = InMemoryQueueState::new(MemoryOptions::default(), NOW.into());
        let tasks = [
            NewTask::new("ready"),
            NewTask::new("scheduled").delay(MINUTE),
            NewTask::new("scheduled_wall").run_at(NOW.saturating_add(MINUTE)),
            NewTask::new("expiring").expires_at(NOW.saturating_add(MINUTE)),
            NewTask::new("keyed").serial_key("k"),
            NewTask::new("grouped").task_group_id("g").idempotency_key("i"),
            NewTask::new("leased").queue("leased"),
        ];
        for task in tasks {
            let valid = task.validate(&Limits::default()).unwrap();
            state.enqueue(valid, Box::new_uninit()).unwrap();
        }
        assert_eq!(state.lease(&request("leased", 1)).unwrap().len(), 1);
        state
    }

    /// Every copy of a record shares its spec, so the number of references to the spec counts the copies.
    #[test]
    fn every_record_is_held_once_by_records_and_the_views_hold_only_its_id() {
        let mut state = one_task_per_view();
        let all = state.records.ascending(TaskId(0));
        let specs: Vec<_> = all.map(|record| (record.key.id, Arc::downgrade(&record.spec))).collect();
        assert_eq!(specs.len(), 7);
        for (id, spec) in specs {
            assert_eq!(spec.strong_count(), 1, "a view has a copy of {id:?}");
            drop(state.records.remove(id));
            assert_eq!(spec.strong_count(), 0, "{id:?} outlives its only owner");
            assert!(state.index.contains(id), "the views have the id of {id:?} all the same");
        }
    }

    #[test]
    fn a_lease_shares_the_spec_and_payload_of_the_record() {
        let mut state = one_task_per_view();
        let leased = state.lease(&request("default", 2)).unwrap().remove(0);
        let record = state.records.get(leased.lease.key.id).unwrap();
        assert!(Arc::ptr_eq(&leased.record.spec, &record.spec));
    }

    #[test]
    fn a_scheduled_task_is_promoted_when_it_is_due_and_not_before() {
        let mut state = one_task_per_view();
        let mut leased_at = |seconds: u64| {
            state.promote_scheduled_tasks(NOW.saturating_add(Duration::from_secs(seconds)).into());
            let request = LeaseRequest { max: 10, ..request("default", seconds.into()) };
            state.lease(&request).unwrap().len()
        };
        assert_eq!([leased_at(59), leased_at(60)], [4, 2]);
    }

    #[test]
    fn a_cancelled_task_leaves_the_scheduled_view_at_once() {
        let mut state = InMemoryQueueState::new(MemoryOptions::default(), NOW.into());
        let valid = NewTask::new("t").delay(MINUTE).validate(&Limits::default()).unwrap();
        let key = state.enqueue(valid, Box::new_uninit()).unwrap().key;
        assert_eq!(state.index.next_due(), Some(MINUTE));
        let cancel = lifecycle::decide(state.get(&key).unwrap(), Command::Cancel, NOW).unwrap();
        assert!(matches!(state.commit(cancel), Committed::Applied { .. }));
        assert_eq!(state.index.next_due(), None);
    }
}
