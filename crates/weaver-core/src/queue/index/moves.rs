//! Updates the views after a change of a record.

use std::collections::BTreeSet;

use crate::admission;
use crate::id::{LeaseToken, TaskId};
use crate::name::WorkerId;
use crate::queue::index::entries::{Entry, Place};
use crate::queue::index::index_state::IndexState;
use crate::queue::index::lane::{LaneKey, ReadyEntry};
use crate::queue::index::leases::NO_LEASE;
use crate::queue::index::queues::Queues;
use crate::queue::index::{Arrival, Index, WakeHints};
use crate::task::{ReadyBy, TaskRecord};
use crate::time::Timestamp;

impl Index {
    /// Adds a live task: a new one, or one read back from disk. A cancelled one with a hold is not counted
    /// here, but by [`remember`](Index::remember) or [`restore_queue`](Index::restore_queue).
    pub fn insert(&mut self, record: &TaskRecord) {
        let (id, index_state) = (record.key.id, IndexState::of(record));
        let number = self.queues.number_or_new(&record.key.namespace, &record.spec.queue);
        let queue = self.queues.get_mut(number);
        if !index_state.state.is_terminal() {
            queue.counts.add(index_state.state);
        }
        queue.occupied += u64::from(index_state.occupies_slot);
        let kind = self.kinds.enter(&record.spec);
        let mut entry = Entry::of(record, number, kind);
        if entry.rare.is_none() && index_state.state.is_waiting() && self.is_due(&index_state) {
            // Nearly every new task: append it to its lane, and return.
            entry.place = Place::Ready;
            let ready = ReadyEntry { ready_at: index_state.ready_at, id };
            enter_lane(&mut self.queues, self.has_waiters.then_some(&mut self.wake_hints), &entry, ready);
            self.entries.insert(id, entry);
            return;
        }
        self.entries.insert(id, entry);
        if let Some(expires_at) = record.spec.expires_at
            && index_state.unstarted
            && !index_state.state.is_terminal()
        {
            self.expiring.insert((expires_at, id));
        }
        if let Some((token, expires_at)) = index_state.lease
            && let Some(entry) = self.entries.get_mut(id)
        {
            entry.lease_position = self.leases.add(id, expires_at);
            self.grants.entry(token).or_default().add(id);
        }
        self.assign(id, None, index_state.assigned_to.as_ref());
        self.place(id, &index_state);
    }

    /// Updates every view after a change of a record.
    pub fn update(&mut self, id: TaskId, before: &IndexState, after: &IndexState) {
        self.leave_place(id);
        // Looked up once: what follows is most of what a transition costs.
        let Some((entry, in_state)) = self.entries.get_mut_counted(id) else { return };
        let queue = self.queues.get_mut(entry.queue);
        if before.occupies_slot != after.occupies_slot {
            if after.occupies_slot {
                queue.occupied += 1;
            } else {
                queue.occupied -= 1;
                if self.has_waiters && queue.settings.max_running.is_some() {
                    self.wake_hints.arrivals.push(Arrival { queue: entry.queue, lane: None });
                }
            }
        }
        if before.state != after.state {
            queue.counts.remove(before.state);
            queue.counts.add(after.state);
            in_state[entry.state.index()] -= 1;
            in_state[after.state.index()] += 1;
            entry.state = after.state;
        }
        if let Some(expires_at) = entry.expires_at()
            && before.unstarted
            && (!after.unstarted || after.state.is_terminal())
        {
            self.expiring.remove(&(expires_at, id));
        }
        (entry.ready_at, entry.ready_by, entry.fragile) = (after.ready_at, after.ready_by, after.fragile);
        let (kind, has_key) = (entry.kind, entry.serial_key().is_some());
        match (before.lease, after.lease) {
            (None, Some((token, expires_at))) => {
                entry.lease_position = self.leases.add(id, expires_at);
                self.grants.entry(token).or_default().add(id);
            }
            (Some((token, _)), None) => {
                let position = std::mem::replace(&mut entry.lease_position, NO_LEASE);
                self.end_lease(token, position);
            }
            _ => {}
        }
        if before.assigned_to != after.assigned_to {
            self.assign(id, before.assigned_to.as_ref(), after.assigned_to.as_ref());
        }
        if has_key || after.state.is_waiting() {
            self.place(id, after);
        }
        if !after.is_live() {
            self.entries.remove(id);
            self.kinds.leave(kind);
        }
    }

    /// Records that a lease was extended.
    pub fn renewed(&mut self, id: TaskId, expires_at: Timestamp) {
        if let Some(entry) = self.entries.get(id).filter(|entry| entry.lease_position != NO_LEASE) {
            self.leases.renew(entry.lease_position, expires_at);
        }
    }

    /// Updates the view of assigned tasks.
    fn assign(&mut self, id: TaskId, before: Option<&WorkerId>, after: Option<&WorkerId>) {
        let Some(entry) = self.entries.get(id) else { return };
        let namespace = &self.queues.get(entry.queue).namespace;
        if let Some(worker) = before {
            self.assigned.remove(&(namespace.clone(), worker.clone(), id));
        }
        if let Some(worker) = after {
            self.assigned.insert((namespace.clone(), worker.clone(), id));
        }
    }

    fn end_lease(&mut self, token: LeaseToken, position: u32) {
        if let Some(moved) = self.leases.remove(position)
            && let Some(moved) = self.entries.get_mut(moved)
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

    /// Removes a task from its current view.
    fn leave_place(&mut self, id: TaskId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        match std::mem::replace(&mut entry.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Scheduled => {
                self.scheduled.remove(&(entry.ready_at, id));
            }
            Place::ScheduledWall => {
                self.scheduled_wall.remove(&(entry.ready_at, id));
            }
            // The lane entry of a task with a serial key is managed by its gate.
            Place::Ready if entry.serial_key().is_some() => {}
            Place::Ready => self.note_stale(id),
        }
    }

    /// Puts a task into the views of its state: by its due time if it waits, and into its gate in any case.
    fn place(&mut self, id: TaskId, index_state: &IndexState) {
        let waiting = index_state.state.is_waiting();
        let is_due = self.is_due(index_state);
        if waiting && !is_due {
            self.wait_for(id, index_state.ready_at, index_state.ready_by);
        }
        let Some(entry) = self.entries.get(id) else { return };
        if let Some(key) = entry.serial_key() {
            let namespace = &self.queues.get(entry.queue).namespace;
            self.gates.get_or_insert(namespace, key).update(id, index_state, false);
        }
        if waiting && is_due {
            self.make_ready(id);
        } else {
            self.elect(id);
        }
    }

    fn is_due(&self, index_state: &IndexState) -> bool {
        index_state.ready_by.is_due(index_state.ready_at, self.store_now())
    }

    /// Makes a waiting task ready: at once, or when its gate elects it. Not if it has expired.
    pub(super) fn make_ready(&mut self, id: TaskId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let expired = is_expired(&self.expiring, self.wall, id, entry);
        entry.place = if expired { Place::Nowhere } else { Place::Ready };
        if entry.serial_key().is_some() {
            self.set_due(id, !expired);
        } else if !expired {
            let ready = ReadyEntry { ready_at: entry.ready_at, id };
            self.enter_lane_of(ready);
        }
    }

    /// A waiting task has expired: it will never start, so it must not block others. Its record stays as it
    /// is until maintenance cancels it.
    pub(super) fn shelve(&mut self, id: TaskId) {
        self.leave_place(id);
        self.set_due(id, false);
    }

    /// A waiting task is no longer expired, because the wall clock was set back.
    pub(super) fn unshelve(&mut self, id: TaskId) {
        let Some(entry) = self.entries.get(id) else { return };
        if !entry.state.is_waiting() || entry.place != Place::Nowhere {
            return;
        }
        let (ready_at, ready_by) = (entry.ready_at, entry.ready_by);
        if ready_by.is_due(ready_at, self.store_now()) {
            self.make_ready(id);
        } else {
            self.wait_for(id, ready_at, ready_by);
        }
    }

    /// Adds a task that is not yet due to the scheduled view of its clock.
    fn wait_for(&mut self, id: TaskId, ready_at: Timestamp, ready_by: ReadyBy) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let (place, times) = match ready_by {
            ReadyBy::Span => (Place::Scheduled, &mut self.scheduled),
            ReadyBy::Instant => (Place::ScheduledWall, &mut self.scheduled_wall),
        };
        entry.place = place;
        self.wake_hints.earlier_due |= times.first().is_none_or(|first| ready_at < first.0);
        times.insert((ready_at, id));
    }

    fn set_due(&mut self, id: TaskId, is_due: bool) {
        let Some(entry) = self.entries.get(id) else { return };
        let Some(key) = entry.serial_key() else { return };
        let namespace = &self.queues.get(entry.queue).namespace;
        self.gates.get_or_insert(namespace, key).set_due(id, is_due);
        self.elect(id);
    }

    /// Lets the gate of a task with a serial key elect the next one, and puts that into its lane.
    pub(super) fn elect(&mut self, id: TaskId) {
        let Some(entry) = self.entries.get(id) else { return };
        let Some(key) = entry.serial_key() else { return };
        let namespace = &self.queues.get(entry.queue).namespace;
        let gate = self.gates.get_or_insert(namespace, key);
        let ready = |id| Some(ReadyEntry { ready_at: self.entries.get(id)?.ready_at, id });
        let candidate = gate.candidate().and_then(ready);
        let election = gate.elect(candidate);
        if gate.members.is_empty() {
            self.gates.forget_if_empty(namespace, key);
        }
        let Some(election) = election else { return };
        if let Some(before) = election.before {
            self.note_stale(before.id);
        }
        if let Some(now) = election.now {
            self.enter_lane_of(now);
        }
    }

    fn enter_lane_of(&mut self, ready: ReadyEntry) {
        let Some(entry) = self.entries.get(ready.id) else { return };
        enter_lane(&mut self.queues, self.has_waiters.then_some(&mut self.wake_hints), entry, ready);
    }

    /// Counts a lane entry of this task as stale. Sweeps the lane when most of it is.
    fn note_stale(&mut self, id: TaskId) {
        let Some(entry) = self.entries.get(id) else { return };
        let key = LaneKey { kind: entry.kind, fragile: entry.fragile };
        let queues = &mut self.queues;
        let namespace = queues.get(entry.queue).namespace.clone();
        let lane = queues.get_mut(entry.queue).lanes.lane_mut(key);
        if lane.note_stale() {
            let (entries, gates) = (&self.entries, &self.gates);
            lane.sweep(|ready| super::pick::is_current(entries, gates, &namespace, ready));
        }
    }
}

/// Only tasks that have not started are in `expiring`.
pub(super) fn is_expired(
    expiring: &BTreeSet<(Timestamp, TaskId)>,
    wall: Timestamp,
    id: TaskId,
    entry: &Entry,
) -> bool {
    let is_unstarted = |at| expiring.contains(&(at, id));
    entry.expires_at().is_some_and(|at| admission::is_expired(is_unstarted(at), wall, Some(at)))
}

/// Puts a task into its lane, and collects a wake-up for it.
fn enter_lane(queues: &mut Queues, wake_hints: Option<&mut WakeHints>, entry: &Entry, ready: ReadyEntry) {
    let lane = LaneKey { kind: entry.kind, fragile: entry.fragile };
    queues.get_mut(entry.queue).lanes.lane_mut(lane).push(ready);
    if let Some(wake_hints) = wake_hints {
        wake_hints.arrivals.push(Arrival { queue: entry.queue, lane: Some(lane) });
    }
}
