//! Keeping the views in line with the records.

use std::collections::BTreeSet;

use crate::admission;
use crate::id::{LeaseToken, TaskId};
use crate::queue::index::entries::{Entry, Place};
use crate::queue::index::lane::{LaneKey, ReadyEntry};
use crate::queue::index::leases::NO_LEASE;
use crate::queue::index::queues::Queues;
use crate::queue::index::standing::Standing;
use crate::queue::index::{Arrival, Index, News};
use crate::task::{ReadyBy, TaskRecord};
use crate::time::Timestamp;

impl Index {
    /// Takes in a live task: a new one, or one read back from disk. One that has ended and is held is not
    /// counted: [`remember`](Index::remember) or [`restore_queue`](Index::restore_queue) did.
    pub fn insert(&mut self, record: &TaskRecord) {
        let (id, standing) = (record.key.id, Standing::of(record));
        let number = self.queues.number_or_new(&record.key.namespace, &record.spec.queue);
        let queue = self.queues.get_mut(number);
        if !standing.state.is_terminal() {
            queue.counts.add(standing.state);
        }
        queue.occupied += u64::from(standing.occupies_slot);
        let kind = self.kinds.enter(&record.spec.envelope.task_type, record.spec.priority);
        let mut entry = Entry::of(record, number, kind);
        if entry.asks.is_none() && standing.state.is_waiting() && self.is_due(&standing) {
            // Nearly every new task: it goes to the end of its lane, and that is all.
            entry.place = Place::Ready;
            let ready = ReadyEntry { ready_at: standing.ready_at, id };
            enter_lane(&mut self.queues, self.watched.then_some(&mut self.news), &entry, ready);
            self.entries.insert(id, entry);
            return;
        }
        self.entries.insert(id, entry);
        if let Some(expires_at) = record.spec.expires_at
            && standing.unstarted
            && !standing.state.is_terminal()
        {
            self.expiring.insert((expires_at, id));
        }
        if let Some((token, expires_at)) = standing.lease
            && let Some(entry) = self.entries.get_mut(id)
        {
            entry.lease_position = self.leases.add(id, expires_at);
            self.grants.entry(token).or_default().add(id);
        }
        self.place(id, &standing);
    }

    /// Brings every view into line with a record that stood `before` and has changed.
    pub fn update(&mut self, id: TaskId, before: &Standing, after: &Standing) {
        self.leave_place(id);
        // The task is looked up once: what follows is most of what a move costs.
        let Some((entry, in_state)) = self.entries.get_mut_counted(id) else { return };
        let queue = self.queues.get_mut(entry.queue);
        if before.occupies_slot != after.occupies_slot {
            if after.occupies_slot {
                queue.occupied += 1;
            } else {
                queue.occupied -= 1;
                if self.watched && queue.settings.max_running.is_some() {
                    self.news.arrivals.push(Arrival { queue: entry.queue, lane: None });
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
        if has_key || after.state.is_waiting() {
            self.place(id, after);
        }
        if !after.is_live() {
            self.entries.remove(id);
            self.kinds.leave(kind);
        }
    }

    /// Takes note that a lease was extended.
    pub fn renewed(&mut self, id: TaskId, expires_at: Timestamp) {
        if let Some(entry) = self.entries.get(id).filter(|entry| entry.lease_position != NO_LEASE) {
            self.leases.renew(entry.lease_position, expires_at);
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

    /// Takes a task out of the index it stood in.
    fn leave_place(&mut self, id: TaskId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        match std::mem::replace(&mut entry.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Scheduled => {
                self.scheduled.remove(&(entry.ready_at, id));
            }
            Place::Appointed => {
                self.appointed.remove(&(entry.ready_at, id));
            }
            // A keyed task's lane entry is its gate's business.
            Place::Ready if entry.serial_key().is_some() => {}
            Place::Ready => self.note_stale(id),
        }
    }

    /// Puts a task where it belongs now: by its due time if it waits, and into its gate in any case.
    fn place(&mut self, id: TaskId, standing: &Standing) {
        let waiting = standing.state.is_waiting();
        let is_due = self.is_due(standing);
        if waiting && !is_due {
            self.wait_for(id, standing.ready_at, standing.ready_by);
        }
        let Some(entry) = self.entries.get(id) else { return };
        if let Some(key) = entry.serial_key() {
            let namespace = &self.queues.get(entry.queue).namespace;
            self.gates.get_or_insert(namespace, key).update(id, standing, false);
        }
        if waiting && is_due {
            self.make_ready(id);
        } else {
            self.elect(id);
        }
    }

    fn is_due(&self, standing: &Standing) -> bool {
        standing.ready_by.is_due(standing.ready_at, self.store_now())
    }

    /// Lets a waiting task be taken: at once, or when its gate elects it. Never, if it has expired.
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

    /// A waiting task has expired: it will never be taken, so it must not stand in anybody's way. It stays as
    /// it is until somebody cancels it.
    pub(super) fn shelve(&mut self, id: TaskId) {
        self.leave_place(id);
        self.set_due(id, false);
    }

    /// A waiting task that had expired has not, since the wall clock was set back.
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

    /// Has a task wait for its time.
    fn wait_for(&mut self, id: TaskId, ready_at: Timestamp, ready_by: ReadyBy) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let (place, times) = match ready_by {
            ReadyBy::Span => (Place::Scheduled, &mut self.scheduled),
            ReadyBy::Instant => (Place::Appointed, &mut self.appointed),
        };
        entry.place = place;
        self.news.earlier_due |= times.first().is_none_or(|first| ready_at < first.0);
        times.insert((ready_at, id));
    }

    fn set_due(&mut self, id: TaskId, is_due: bool) {
        let Some(entry) = self.entries.get(id) else { return };
        let Some(key) = entry.serial_key() else { return };
        let namespace = &self.queues.get(entry.queue).namespace;
        self.gates.get_or_insert(namespace, key).set_due(id, is_due);
        self.elect(id);
    }

    /// Lets the gate of a keyed task elect who may go, and puts that one into its lane.
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
        enter_lane(&mut self.queues, self.watched.then_some(&mut self.news), entry, ready);
    }

    /// A lane entry of this task has become stale. Sweeps the lane when most of it is.
    fn note_stale(&mut self, id: TaskId) {
        let Some(entry) = self.entries.get(id) else { return };
        let key = LaneKey { kind: entry.kind, fragile: entry.fragile };
        let queues = &mut self.queues;
        let namespace = queues.get(entry.queue).namespace.clone();
        let lane = queues.get_mut(entry.queue).lanes.lane_mut(key);
        if lane.note_stale() {
            let (entries, gates) = (&self.entries, &self.gates);
            lane.sweep(|ready| super::pick::is_true(entries, gates, &namespace, ready));
        }
    }
}

/// Its presence in `expiring` is what says that it has not started.
pub(super) fn is_expired(
    expiring: &BTreeSet<(Timestamp, TaskId)>,
    wall: Timestamp,
    id: TaskId,
    entry: &Entry,
) -> bool {
    let is_unstarted = |at| expiring.contains(&(at, id));
    entry.expires_at().is_some_and(|at| admission::is_expired(is_unstarted(at), wall, Some(at)))
}

/// Puts a task into its lane, and those who wait are told.
fn enter_lane(queues: &mut Queues, news: Option<&mut News>, entry: &Entry, ready: ReadyEntry) {
    let lane = LaneKey { kind: entry.kind, fragile: entry.fragile };
    queues.get_mut(entry.queue).lanes.lane_mut(lane).push(ready);
    if let Some(news) = news {
        news.arrivals.push(Arrival { queue: entry.queue, lane: Some(lane) });
    }
}
