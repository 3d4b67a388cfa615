//! Keeping the views in line with the records.

use crate::event::Change;
use crate::id::{LeaseToken, TaskId, Version};
use crate::lifecycle::Transition;
use crate::queue::memory::lane::{LaneRef, ReadyEntry};
use crate::queue::memory::leases::NO_LEASE;
use crate::queue::memory::records::{Place, Records};
use crate::queue::memory::state::{Arrival, InMemoryQueueState};
use crate::task::{TaskRecord, TaskState};
use crate::time::Timestamp;

/// What the views depend on, of a record before it moved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    state: TaskState,
    version: Version,
    ready_at: Timestamp,
    occupies_slot: bool,
    token: Option<LeaseToken>,
    unstarted: bool,
}

impl Facts {
    pub(super) fn of(record: &TaskRecord) -> Self {
        Self {
            state: record.state,
            version: record.version,
            ready_at: record.ready_at,
            occupies_slot: record.occupies_slot(),
            token: record.lease.as_ref().map(|held| held.token),
            unstarted: record.executions == 0,
        }
    }
}

impl InMemoryQueueState {
    /// Applies a transition that fits; returns the new version.
    pub(super) fn apply(&mut self, id: TaskId, transition: Transition) -> Version {
        let Some(slot) = self.records.get_mut(id) else { return Version(0) };
        let before = Facts::of(&slot.record);
        transition.apply(&mut slot.record, self.now);
        let version = slot.record.version;
        self.reindex(id, before);
        version
    }

    /// Brings every view into line with a record that was `before` and has changed.
    pub(super) fn reindex(&mut self, id: TaskId, before: Facts) {
        let Some(slot) = self.records.get(id) else { return };
        let record = &slot.record;
        let after = Facts::of(record);
        let queue = self.queues.get_mut(slot.queue);
        if before.state != after.state {
            queue.counts.remove(before.state);
            queue.counts.add(after.state);
        }
        if before.occupies_slot != after.occupies_slot {
            if after.occupies_slot {
                queue.occupied += 1;
            } else {
                queue.occupied -= 1;
                if self.watched && queue.settings.max_running.is_some() {
                    self.effects.arrivals.push(Arrival { queue: slot.queue, task: None });
                }
            }
        }
        if slot.asks.expiry
            && before.unstarted
            && (!after.unstarted || after.state.is_terminal())
            && let Some(expires_at) = record.spec.expires_at
        {
            self.expiring.remove(&(expires_at, id));
        }
        self.reindex_lease(id, before, after);
        self.leave_place(id, before.ready_at);
        self.place(id);
        if before.version != after.version {
            self.record_move(id, before.state);
        }
    }

    /// The parts that only a transition changes: events, groups, retention.
    fn record_move(&mut self, id: TaskId, before: TaskState) {
        let Some(slot) = self.records.get(id) else { return };
        let record = &slot.record;
        let ended = record.state.is_terminal();
        if slot.asks.group
            && let Some(group) = &record.spec.origin().task_group_id
        {
            let group = self.groups.entry((record.key.namespace.clone(), group.clone())).or_default();
            group.counts.remove(before);
            group.counts.add(record.state);
            group.last_at = self.now;
        }
        self.ring.push(Change::of(record));
        self.effects.changed = true;
        if ended {
            self.finished.push(self.now, id);
            self.retire(2);
        }
    }

    fn reindex_lease(&mut self, id: TaskId, before: Facts, after: Facts) {
        let Some(slot) = self.records.get_mut(id) else { return };
        match (before.token, after.token) {
            (None, Some(token)) => {
                let Some(held) = &slot.record.lease else { return };
                slot.lease_position = self.leases.add(id, held.expires_at);
                let granted = self.grants.entry(token).or_default();
                granted.ids.push(id);
                granted.live += 1;
            }
            (Some(token), None) => {
                let position = std::mem::replace(&mut slot.lease_position, NO_LEASE);
                if let Some(moved) = self.leases.remove(position)
                    && let Some(moved) = self.records.get_mut(moved)
                {
                    moved.lease_position = position;
                }
                if let Some(granted) = self.grants.get_mut(&token) {
                    granted.live -= 1;
                    if granted.live == 0 {
                        self.grants.remove(&token);
                    }
                }
            }
            _ => {}
        }
    }

    /// Takes a task out of the index it stood in.
    fn leave_place(&mut self, id: TaskId, ready_at: Timestamp) {
        let Some(slot) = self.records.get_mut(id) else { return };
        match std::mem::replace(&mut slot.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Scheduled => {
                self.scheduled.remove(&(ready_at, id));
            }
            // A keyed task's lane entry is its gate's business.
            Place::Ready if slot.asks.gate => {}
            Place::Ready => self.note_stale(id),
        }
    }

    /// Puts a task where it belongs now: by its due time if it waits, and into its gate in any case.
    pub(super) fn place(&mut self, id: TaskId) {
        let Some(slot) = self.records.get_mut(id) else { return };
        let (waiting, ready_at) = (slot.record.state.is_waiting(), slot.record.ready_at);
        if waiting && ready_at <= self.now {
            self.make_ready(id);
            return;
        }
        if waiting {
            slot.place = Place::Scheduled;
            self.effects.earlier_due |= self.scheduled.first().is_none_or(|first| ready_at < first.0);
            self.scheduled.insert((ready_at, id));
        }
        self.update_gate(id, false);
    }

    /// Lets a waiting task be taken: at once, or when its gate elects it. Never, if it has expired.
    pub(super) fn make_ready(&mut self, id: TaskId) {
        let now = self.now;
        let Some(slot) = self.records.get_mut(id) else { return };
        let expired = slot.asks.expiry && slot.record.is_expired(now);
        slot.place = if expired { Place::Nowhere } else { Place::Ready };
        if slot.asks.gate {
            self.update_gate(id, !expired);
        } else if !expired {
            let entry = ReadyEntry { ready_at: slot.record.ready_at, id };
            self.enter_lane(entry);
        }
    }

    /// A waiting task has expired: it will never be taken, so it must not stand in anybody's way. It stays as it is
    /// until somebody cancels it.
    pub(super) fn shelve(&mut self, id: TaskId) {
        let Some(slot) = self.records.get(id) else { return };
        let ready_at = slot.record.ready_at;
        self.leave_place(id, ready_at);
        self.update_gate(id, false);
    }

    fn update_gate(&mut self, id: TaskId, is_due: bool) {
        let Some(slot) = self.records.get(id) else { return };
        if !slot.asks.gate {
            return;
        }
        let Some(key) = &slot.record.spec.serial_key else { return };
        let namespace = &slot.record.key.namespace;
        let gate = self.gates.get_or_insert(namespace, key);
        gate.update(&slot.record, is_due);
        let candidate = gate.candidate().and_then(|id| ready_entry(&self.records, id));
        let election = gate.elect(candidate);
        if gate.members.is_empty() {
            self.gates.forget_if_empty(namespace, key);
        }
        let Some(election) = election else { return };
        if let Some(before) = election.before {
            self.note_stale(before.id);
        }
        if let Some(now) = election.now {
            self.enter_lane(now);
        }
    }

    fn enter_lane(&mut self, entry: ReadyEntry) {
        let Some(slot) = self.records.get(entry.id) else { return };
        self.queues.get_mut(slot.queue).lanes.lane_mut(LaneRef::of(&slot.record)).push(entry);
        if self.watched {
            self.effects.arrivals.push(Arrival { queue: slot.queue, task: Some(entry.id) });
        }
    }

    /// A lane entry of this task has become stale. Sweeps the lane when most of it is.
    fn note_stale(&mut self, id: TaskId) {
        let Some(slot) = self.records.get(id) else { return };
        let lane = self.queues.get_mut(slot.queue).lanes.lane_mut(LaneRef::of(&slot.record));
        if lane.note_stale() {
            let (records, gates) = (&self.records, &self.gates);
            lane.sweep(|entry| super::take::is_true(records, gates, entry));
        }
    }
}

fn ready_entry(records: &Records, id: TaskId) -> Option<ReadyEntry> {
    Some(ReadyEntry { ready_at: records.get(id)?.record.ready_at, id })
}
