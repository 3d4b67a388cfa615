//! Tasks whose records cannot be read: what they hold, without a place of their own.

use crate::admission;
use crate::id::TaskId;
use crate::name::{Namespace, QueueName, SerialKey};
use crate::queue::index::{Arrival, Index, Standing};
use crate::task::{TaskRecord, TaskState};

/// What a live task that cannot be read keeps held, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its queue, if it is known and the task takes one of its slots.
    pub slot_of: Option<QueueName>,
    /// Its serial key.
    pub serial_key: Option<SerialKey>,
    /// Whether it may have started: it then holds its key, and does not only wait in front of others.
    pub may_have_begun: bool,
}

impl Index {
    /// Holds what an unreadable task holds. It is in no other view.
    pub fn hold(&mut self, id: TaskId, hold: &Hold) {
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

    /// Lets go of it: the task is gone.
    pub fn let_go(&mut self, id: TaskId, hold: &Hold) {
        if let Some(queue) = &hold.slot_of {
            let number = self.queues.number_or_new(&hold.namespace, queue);
            let queue = self.queues.get_mut(number);
            queue.occupied = queue.occupied.saturating_sub(1);
            if self.watched {
                self.news.arrivals.push(Arrival { queue: number, lane: None });
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

    /// Takes a task out of every view but the counts: its record cannot be read, and is gone. Where it is
    /// counted.
    pub fn discard_entry(&mut self, id: TaskId) -> Option<(QueueName, TaskState)> {
        let entry = self.entries.get(id)?;
        let token =
            self.grants.iter().find(|(_, granted)| granted.ids.contains(&id)).map(|(token, _)| *token);
        let is_leased = entry.lease_position != super::leases::NO_LEASE;
        let unstarted = entry.expires_at().is_some_and(|at| self.expiring.contains(&(at, id)));
        let before = Standing {
            state: entry.state,
            ready_at: entry.ready_at,
            ready_by: entry.ready_by,
            occupies_slot: admission::occupies_slot(entry.state, is_leased),
            holds_key: false,
            unstarted,
            fragile: entry.fragile,
            lease: token.filter(|_| is_leased).map(|token| (token, self.now)),
        };
        let (queue, state) = (entry.queue, entry.state);
        let after = Standing { state: TaskState::Cancelled, occupies_slot: false, lease: None, ..before };
        self.update(id, &before, &after);
        let queue = self.queues.get_mut(queue);
        queue.counts.remove(TaskState::Cancelled);
        queue.counts.add(state);
        Some((queue.name.clone(), state))
    }

    /// Takes a task out of every view, whatever its state: its record is gone.
    pub fn discard(&mut self, record: &TaskRecord) {
        let before = Standing::of(record);
        let state = if before.state.is_terminal() { before.state } else { TaskState::Cancelled };
        let (occupies_slot, holds_key, unstarted, lease) = (false, false, false, None);
        let after = Standing { state, occupies_slot, holds_key, unstarted, lease, ..before };
        self.update(record.key.id, &before, &after);
        self.forget(&record.key.namespace, &record.spec.queue, state);
    }
}
