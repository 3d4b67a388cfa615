//! The state of the in-memory queue: synchronous, pure, and the sole owner of every record.
//!
//! ```text
//! records    id → record          the truth, finished ones included
//! index      ids only             what goes next, what is due, whose lease ends (queue::index)
//! unique, groups, finished        keys, groups, retention
//! ```
//!
//! Every change of a record is told to the index, which brings the views into line. What others must be told
//! is left in the index and in [`Effects`]; the owner of the lock passes it on after releasing it.

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
use crate::queue::index::{Index, Standing};
use crate::queue::memory::MemoryOptions;
use crate::queue::memory::finished::Finished;
use crate::queue::memory::records::Records;
use crate::queue::memory::unique::UniqueKeys;
use crate::queue::ring::Ring;
use crate::queue::{Committed, Enqueued, Overdue};
use crate::store_clock::StoreNow;
use crate::task::{TaskRecord, ValidTask};
use crate::time::Timestamp;

/// The state of the in-memory queue.
#[derive(Debug)]
pub(super) struct InMemoryQueueState {
    pub(super) options: MemoryOptions,
    pub(super) next_id: u64,
    pub(super) records: Records,
    pub(super) index: Index,
    pub(super) unique: UniqueKeys,
    pub(super) groups: BTreeMap<(Namespace, TaskGroupId), Group>,
    pub(super) finished: Finished,
    pub(super) ring: Ring,
    pub(super) effects: Effects,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) counts: StateCounts,
    pub(super) last_at: Timestamp,
}

/// What follows every move of a record.
struct Views<'a> {
    index: &'a mut Index,
    groups: &'a mut BTreeMap<(Namespace, TaskGroupId), Group>,
    ring: &'a mut Ring,
    effects: &'a mut Effects,
}

impl Views<'_> {
    /// Applies a transition that fits.
    fn apply(&mut self, record: &mut TaskRecord, transition: Transition) {
        let (before, now) = (Standing::of(record), self.index.now());
        transition.apply(record, now);
        self.index.update(record.key.id, &before, &Standing::of(record));
        if let Some(group) = &record.spec.origin().task_group_id {
            let group = self.groups.entry((record.key.namespace.clone(), group.clone())).or_default();
            group.counts.remove(before.state);
            group.counts.add(record.state);
            group.last_at = now;
        }
        self.ring.push(Change::of(record));
        self.effects.changed = true;
        self.effects.cancelled |= record.has_hold();
    }
}

/// What the owner of the lock does once it has released it.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Whether the ring has grown.
    pub(super) changed: bool,
    /// Whether a running task was cancelled.
    pub(super) cancelled: bool,
    /// Records to drop.
    #[expect(clippy::vec_box, reason = "they leave `records` as they are: a pointer each, under the lock")]
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
            // No two lives of a process begin in the same microsecond.
            ring: Ring::new(options.ring_capacity, now.steady.as_micros().unsigned_abs()),
            effects: Effects::default(),
            options,
        }
    }

    /// Takes note of the time: what is due becomes ready, what is past retention goes.
    pub(super) fn tick(&mut self, now: StoreNow) {
        self.index.tick(now);
        self.unique.forget_expired(self.now());
        self.retire(16);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.index.now()
    }

    /// Stores one new task, or finds the one it repeats.
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
        self.ring.push(Change::of(&record));
        self.effects.changed = true;
        self.index.insert(&record);
        self.records.insert(id, record);
        Ok(Enqueued { key, existing: false })
    }

    /// Takes due tasks for a worker.
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

    /// What an earlier call with the same token was granted and still holds.
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
            // Written where it stays: a record is large, and every move of it is a copy.
            taken.push(Leased { lease, record: record.clone() });
        }
    }

    /// Makes one decided move, if the record is still what it was decided on.
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

    /// A record, and beside it what must follow its moves: it is looked up once for all of them.
    fn record_and_views(&mut self, id: TaskId) -> (Option<&mut TaskRecord>, Views<'_>) {
        let Self { records, index, groups, ring, effects, .. } = self;
        (records.get_mut(id), Views { index, groups, ring, effects })
    }

    /// Extends one lease.
    pub(super) fn renew(&mut self, renewal: Renewal) -> Renewed {
        let (id, now) = (renewal.lease.key.id, self.now());
        let Some(record) = self.records.get_mut(id) else { return Renewed::Lost };
        let answer = lifecycle::renew(record, renewal, now);
        if let (Renewed::Extended, Some(held)) = (answer, &record.lease) {
            self.index.renewed(id, held.expires_at);
        }
        answer
    }

    /// Ends one hold.
    pub(super) fn confirm_stopped(&mut self, lease: &Lease) {
        let Some(record) = self.records.get_mut(lease.key.id) else { return };
        let before = Standing::of(record);
        if lifecycle::confirm_stopped(record, lease) {
            self.index.update(lease.key.id, &before, &Standing::of(record));
        }
    }

    /// Tasks that something must be done about.
    pub(super) fn overdue(&self, limit: usize) -> Vec<Overdue> {
        let record = |(id, why)| Some(Overdue { record: self.records.get(id)?.clone(), why });
        self.index.overdue().filter_map(record).take(limit).collect()
    }

    pub(super) fn changes(&self, after: Option<ChangeCursor>, limit: usize) -> Changes {
        self.ring.read(after, limit)
    }

    fn idempotency_ttl(&self) -> Duration {
        self.options.idempotency_ttl.max(self.options.retention)
    }
}
