//! Unreadable tasks: what they hold, without an index entry.

use crate::admission;
use crate::id::TaskId;
use crate::name::{Namespace, QueueName, SerialKey};
use crate::queue::index::{Arrival, Index, IndexState};
use crate::task::{TaskRecord, TaskState};

/// What an unreadable live task holds, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableHold {
    /// The namespace of the task.
    pub namespace: Namespace,
    /// Its queue, if it is known and the task takes one of its slots.
    pub slot_of: Option<QueueName>,
    /// Its serial key, if it has one and that is known.
    pub serial_key: Option<SerialKey>,
    /// Whether it may have started: it then holds its key, and does not only precede later tasks.
    pub may_have_begun: bool,
}

impl Index {
    /// Adds what an unreadable task holds. The task is in no other view.
    pub fn add_unreadable(&mut self, id: TaskId, hold: &UnreadableHold) {
        if let Some(queue) = &hold.slot_of {
            let number = self.queues.number_or_new(&hold.namespace, queue);
            self.queues.get_mut(number).occupied += 1;
        }
        if let Some(key) = &hold.serial_key {
            let gate = self.gates.get_or_insert(&hold.namespace, key);
            gate.unreadable.insert(id, hold.may_have_begun);
            if let Some(member) = gate.members.first().copied() {
                self.elect(member);
            }
        }
    }

    /// Releases what an unreadable task held, after the task was removed.
    pub fn remove_unreadable(&mut self, id: TaskId, hold: &UnreadableHold) {
        if let Some(queue) = &hold.slot_of {
            let number = self.queues.number_or_new(&hold.namespace, queue);
            let queue = self.queues.get_mut(number);
            queue.occupied = queue.occupied.saturating_sub(1);
            if self.has_waiters {
                self.wake_hints.arrivals.push(Arrival { queue: number, lane: None });
            }
            self.queues.forget_if_unused(number);
        }
        if let Some(key) = &hold.serial_key {
            let gate = self.gates.get_or_insert(&hold.namespace, key);
            gate.unreadable.remove(&id);
            match gate.members.first().copied() {
                Some(member) => self.elect(member),
                None => self.gates.forget_if_empty(&hold.namespace, key),
            }
        }
    }

    /// Removes a task from every view but the counts, after its unreadable record was removed. Returns the
    /// queue and state under which it is counted.
    pub fn discard_entry(&mut self, id: TaskId) -> Option<(QueueName, TaskState)> {
        let entry = self.entries.get(id)?;
        let token =
            self.grants.iter().find(|(_, granted)| granted.ids.contains(&id)).map(|(token, _)| *token);
        let is_leased = entry.lease_position != super::leases::NO_LEASE;
        let unstarted = entry.expires_at().is_some_and(|at| self.expiring.contains(&(at, id)));
        let before = IndexState {
            state: entry.state,
            ready_at: entry.ready_at,
            ready_by: entry.ready_by,
            occupies_slot: admission::occupies_slot(entry.state, is_leased),
            holds_key: false,
            unstarted,
            fragile: entry.fragile,
            lease: token.filter(|_| is_leased).map(|token| (token, self.now)),
            assigned_to: self.assigned.iter().find(|(.., other)| *other == id).map(|(_, to, _)| to.clone()),
        };
        let (queue, state) = (entry.queue, entry.state);
        let (lease, assigned_to) = (None, None);
        let state_after = TaskState::Cancelled;
        let after =
            IndexState { state: state_after, occupies_slot: false, lease, assigned_to, ..before.clone() };
        self.update(id, &before, &after);
        let queue = self.queues.get_mut(queue);
        queue.counts.remove(TaskState::Cancelled);
        queue.counts.add(state);
        Some((queue.name.clone(), state))
    }

    /// Removes a task from every view, whatever its state, after its record was removed.
    pub fn discard(&mut self, record: &TaskRecord) {
        let before = IndexState::of(record);
        let state = if before.state.is_terminal() { before.state } else { TaskState::Cancelled };
        let (occupies_slot, holds_key, unstarted, lease) = (false, false, false, None);
        let assigned_to = None;
        let after =
            IndexState { state, occupies_slot, holds_key, unstarted, lease, assigned_to, ..before.clone() };
        self.update(record.key.id, &before, &after);
        self.forget(&record.key.namespace, &record.spec.queue, state);
    }
}
