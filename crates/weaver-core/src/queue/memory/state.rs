//! The state of the in-memory queue: synchronous, pure, and the sole owner of every record.
//!
//! ```text
//! records    id → record                    the truth
//! scheduled  (when, id)                     waiting, not yet due   ┐
//! queues     lanes of (when, id)            waiting, due           ├ ids only: views of the truth
//! gates      serial key → ids               who of a key may go    │
//! leases     (end, id)                      running or held        ┘
//! ```
//!
//! Every change of a record goes through [`InMemoryQueueState::reindex`], which compares what it was with what it is and
//! brings the views into line. What others must be told is left in [`Effects`]; the owner of the lock passes it on after
//! releasing it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use hashbrown::HashMap;

use crate::error::Result;
use crate::event::{Change, ChangeCursor, Changes};
use crate::id::{LeaseToken, TaskId, TaskKey};
use crate::lease::{Lease, Renewal, Renewed};
use crate::lifecycle::{self, OverdueWhy, Transition};
use crate::name::{Namespace, TaskGroupId};
use crate::ports::StateCounts;
use crate::queue::memory::MemoryOptions;
use crate::queue::memory::finished::Finished;
use crate::queue::memory::gate::Gates;
use crate::queue::memory::leases::{LeaseList, NO_LEASE};
use crate::queue::memory::queues::Queues;
use crate::queue::memory::records::{Asks, Place, Records, Slot};
use crate::queue::memory::ring::Ring;
use crate::queue::memory::unique::UniqueKeys;
use crate::queue::{Blocked, Committed, Enqueued, Overdue};
use crate::task::{TaskState, ValidTask};
use crate::time::Timestamp;

/// The state of the in-memory queue.
#[derive(Debug)]
pub(super) struct InMemoryQueueState {
    pub(super) options: MemoryOptions,
    /// Never goes back, whatever the clock does: what was due stays due.
    pub(super) now: Timestamp,
    pub(super) next_id: u64,
    pub(super) records: Records,
    // A tree rather than a heap: a cancelled task leaves at once instead of lying around until its time.
    pub(super) scheduled: BTreeSet<(Timestamp, TaskId)>,
    /// Tasks that have not started and have an `expires_at`.
    pub(super) expiring: BTreeSet<(Timestamp, TaskId)>,
    pub(super) queues: Queues,
    pub(super) gates: Gates,
    pub(super) leases: LeaseList,
    /// What each lease call granted that is still running or held.
    pub(super) grants: HashMap<LeaseToken, Granted>,
    pub(super) unique: UniqueKeys,
    pub(super) groups: BTreeMap<(Namespace, TaskGroupId), Group>,
    pub(super) finished: Finished,
    pub(super) ring: Ring,
    pub(super) effects: Effects,
    /// Whether anybody waits for work: if not, nobody need be told of arrivals.
    pub(super) watched: bool,
}

#[derive(Debug, Default)]
pub(super) struct Granted {
    pub(super) ids: Vec<TaskId>,
    pub(super) live: usize,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) counts: StateCounts,
    pub(super) last_at: Timestamp,
}

/// What the owner of the lock does once it has released it.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Queues in which something can be taken that could not before; one entry per task.
    pub(super) arrivals: Vec<Arrival>,
    /// Whether the next task becomes due earlier than was known.
    pub(super) earlier_due: bool,
    /// Whether the ring has grown.
    pub(super) changed: bool,
    /// Records to drop.
    #[expect(clippy::vec_box, reason = "they leave `records` as they are: a pointer each, under the lock")]
    pub(super) removed: Vec<Box<Slot>>,
}

/// Something can be taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) queue: u32,
    /// The task, if it is about one; `None` if the queue as a whole opened.
    pub(super) task: Option<TaskId>,
}

impl InMemoryQueueState {
    pub(super) fn new(options: MemoryOptions, now: Timestamp) -> Self {
        Self {
            now,
            next_id: 1,
            records: Records::default(),
            scheduled: BTreeSet::new(),
            expiring: BTreeSet::new(),
            queues: Queues::default(),
            gates: Gates::default(),
            leases: LeaseList::default(),
            grants: HashMap::new(),
            unique: UniqueKeys::default(),
            groups: BTreeMap::new(),
            finished: Finished::default(),
            // No two lives of a process begin in the same microsecond.
            ring: Ring::new(options.ring_capacity, now.as_micros().unsigned_abs()),
            effects: Effects::default(),
            watched: false,
            options,
        }
    }

    /// Takes note of the time: what is due becomes ready, what is past retention goes.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let before = self.now;
        self.now = before.max(now);
        if !self.expiring.is_empty() && before < self.now {
            let last = TaskId(u64::MAX);
            let span = (Bound::Excluded((before, last)), Bound::Included((self.now, last)));
            let expired: Vec<_> = self.expiring.range(span).map(|(_, id)| *id).collect();
            expired.into_iter().for_each(|id| self.shelve(id));
        }
        while let Some(&(ready_at, id)) = self.scheduled.first() {
            if ready_at > self.now {
                break;
            }
            self.scheduled.pop_first();
            self.make_ready(id);
        }
        self.unique.forget_expired(self.now);
        self.retire(16);
    }

    /// When the next task becomes due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.scheduled.first().map(|(ready_at, _)| *ready_at)
    }

    /// Stores one new task, or finds the one it repeats.
    pub(super) fn enqueue(&mut self, task: ValidTask) -> Result<Enqueued> {
        if task.spec.has_unique_keys() {
            for key in task.spec.unique_keys() {
                if let Some(id) = self.unique.find(&(task.namespace.clone(), key)) {
                    return Ok(Enqueued { key: TaskKey::new(task.namespace, id), existing: true });
                }
            }
        }
        let id = TaskId(self.next_id);
        let queue = self.queues.number_or_new(&task.namespace, &task.spec.queue);
        let record = lifecycle::admit(task, id, self.now)?;
        self.next_id += 1;
        let key = record.key.clone();
        if record.spec.has_unique_keys() {
            let until = self.now.saturating_add(self.idempotency_ttl());
            for unique in record.spec.unique_keys() {
                self.unique.insert((key.namespace.clone(), unique), id, until);
            }
        }
        self.queues.get_mut(queue).counts.add(record.state);
        if let Some(group) = &record.spec.origin().task_group_id {
            let group = self.groups.entry((key.namespace.clone(), group.clone())).or_default();
            group.counts.add(record.state);
            group.last_at = self.now;
        }
        if let Some(expires_at) = record.spec.expires_at {
            self.expiring.insert((expires_at, id));
        }
        self.ring.push(Change::of(&record));
        self.effects.changed = true;
        let asks = Asks::of(&record.spec);
        let slot = Slot { record, place: Place::Nowhere, asks, queue, lease_position: NO_LEASE };
        self.records.insert(id, Box::new(slot));
        self.place(id);
        Ok(Enqueued { key, existing: false })
    }

    /// Makes one decided move, if the record is still what it was decided on.
    pub(super) fn commit(&mut self, transition: Transition) -> Committed {
        let id = transition.key.id;
        let Some(slot) = self.records.get(id) else { return Committed::Stale };
        if !transition.fits(&slot.record) {
            let repeated = transition.is_already_applied(&slot.record);
            return if repeated { Committed::AlreadyApplied } else { Committed::Stale };
        }
        if transition.admits()
            && let Some(blocked) = self.blocked(slot)
        {
            return Committed::Blocked(blocked);
        }
        Committed::Applied { version: self.apply(id, transition) }
    }

    /// Why a waiting task cannot be taken right now. The same test that leasing makes by looking only at lane heads.
    fn blocked(&self, slot: &Slot) -> Option<Blocked> {
        let record = &slot.record;
        let queue = self.queues.get(slot.queue);
        if record.ready_at > self.now || record.is_expired(self.now) {
            Some(Blocked::NotDue)
        } else if queue.settings.paused {
            Some(Blocked::Paused)
        } else if queue.is_full() {
            Some(Blocked::LimitReached)
        } else if let Some(key) = &record.spec.serial_key
            && self.gates.get(&record.key.namespace, key).and_then(|gate| gate.candidate())
                != Some(record.key.id)
        {
            Some(Blocked::KeyHeld)
        } else {
            None
        }
    }

    /// Extends one lease.
    pub(super) fn renew(&mut self, renewal: Renewal) -> Renewed {
        let Some(slot) = self.records.get_mut(renewal.lease.key.id) else { return Renewed::Lost };
        let answer = lifecycle::renew(&mut slot.record, renewal, self.now);
        if let (Renewed::Extended, Some(held)) = (answer, &slot.record.lease) {
            self.leases.renew(slot.lease_position, held.expires_at);
        }
        answer
    }

    /// Ends one hold.
    pub(super) fn confirm_stopped(&mut self, lease: &Lease) {
        let Some(slot) = self.records.get_mut(lease.key.id) else { return };
        let before = super::moves::Facts::of(&slot.record);
        if lifecycle::confirm_stopped(&mut slot.record, lease) {
            self.reindex(lease.key.id, before);
        }
    }

    /// Tasks that something must be done about.
    pub(super) fn overdue(&self, limit: usize) -> Vec<Overdue> {
        let leases = self.leases.overdue(self.now).filter_map(|id| {
            let record = &self.records.get(id)?.record;
            let running = record.state == TaskState::Running;
            Some((record, if running { OverdueWhy::Lease } else { OverdueWhy::Hold }))
        });
        let expired = self.expiring.iter().take_while(|(at, _)| *at <= self.now);
        let expired =
            expired.filter_map(|(_, id)| Some((&self.records.get(*id)?.record, OverdueWhy::ExpiresAt)));
        let all = leases.chain(expired).take(limit);
        all.map(|(record, why)| Overdue { record: record.clone(), why }).collect()
    }

    pub(super) fn changes(&self, after: Option<ChangeCursor>, limit: usize) -> Changes {
        self.ring.read(after, limit)
    }

    fn idempotency_ttl(&self) -> Duration {
        self.options.idempotency_ttl.max(self.options.retention)
    }
}
