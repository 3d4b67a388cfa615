//! Gates: of the due tasks with one serial key, the one that may start.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use crate::admission;
use crate::id::TaskId;
use crate::name::{Namespace, SerialKey};
use crate::queue::index::index_state::IndexState;
use crate::queue::index::lane::ReadyEntry;

/// The tasks of one namespace that share a serial key. Only the elected one is in a ready lane.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Every task that has not ended, or that still holds the key.
    pub(super) members: BTreeSet<TaskId>,
    /// Members that are waiting and due.
    due: BTreeSet<TaskId>,
    /// The member that has started, until its end and until its cancellation hold is over.
    holder: Option<TaskId>,
    /// Live tasks of the key that cannot be read, and whether they may have started: then the key is held.
    pub(super) unreadable: BTreeMap<TaskId, bool>,
    /// The member in a ready lane, with the time it sorts by there.
    elected: Option<ReadyEntry>,
}

impl Gate {
    /// Whether this lane entry is the one that may start.
    pub(super) fn is_elected(&self, entry: ReadyEntry) -> bool {
        self.elected == Some(entry)
    }

    /// How many due tasks start before this one.
    pub(super) fn due_before(&self, id: TaskId) -> usize {
        let holder = self.holder.filter(|holder| *holder != id).map_or(0, |_| 1);
        let goes_first = |other, begun| admission::goes_first(other, begun, true, id, false);
        let unreadable = self.unreadable.iter().filter(|(other, begun)| goes_first(**other, **begun)).count();
        self.due.range(..id).filter(|other| goes_first(**other, false)).count() + holder + unreadable
    }

    /// Updates a member after a change of its record.
    pub(super) fn update(&mut self, id: TaskId, index_state: &IndexState, is_due: bool) {
        self.set_due(id, is_due);
        if index_state.holds_key {
            debug_assert!(self.holder.is_none_or(|holder| holder == id), "{id:?} took a key that is held");
            self.holder = Some(id);
        } else if self.holder == Some(id) {
            self.holder = None;
        }
        if index_state.state.is_terminal() && !index_state.holds_key {
            self.members.remove(&id);
        } else {
            self.members.insert(id);
        }
    }

    /// A waiting member becomes due, or expires.
    pub(super) fn set_due(&mut self, id: TaskId, is_due: bool) {
        if is_due {
            self.due.insert(id)
        } else {
            self.due.remove(&id)
        };
    }

    /// The member that may start: the holder if it waits and is due, else the lowest id that is due.
    pub(super) fn candidate(&self) -> Option<TaskId> {
        let elected = admission::elected(self.holder, self.due.first().copied())?;
        let may_go = match self.holder {
            Some(_) => self.due.contains(&elected),
            None => !self.waits_for_unreadable(elected),
        };
        may_go.then_some(elected)
    }

    /// An unreadable task keeps its place: if it may have started, no task of the key starts; if not, no
    /// later one.
    fn waits_for_unreadable(&self, id: TaskId) -> bool {
        self.unreadable.iter().any(|(other, begun)| admission::goes_first(*other, *begun, true, id, false))
    }

    /// Elects a member; returns the previous one and the new one if they differ.
    pub(super) fn elect(&mut self, entry: Option<ReadyEntry>) -> Option<Election> {
        if self.elected == entry {
            return None;
        }
        let election = Election { before: self.elected, now: entry };
        self.elected = entry;
        Some(election)
    }
}

/// A change of the elected member.
pub(super) struct Election {
    /// The previous member, whose lane entry is stale now.
    pub(super) before: Option<ReadyEntry>,
    /// The new member, which needs a lane entry.
    pub(super) now: Option<ReadyEntry>,
}

#[derive(Debug, Default)]
pub(super) struct Gates {
    // Two levels, so that a lookup can borrow both parts of the key.
    by_namespace: HashMap<Namespace, HashMap<SerialKey, Gate>>,
}

impl Gates {
    pub(super) fn get(&self, namespace: &Namespace, key: &SerialKey) -> Option<&Gate> {
        self.by_namespace.get(namespace)?.get(key)
    }

    pub(super) fn get_or_insert(&mut self, namespace: &Namespace, key: &SerialKey) -> &mut Gate {
        self.by_namespace.entry_ref(namespace).or_default().entry_ref(key).or_default()
    }

    /// Removes a gate without members.
    pub(super) fn forget_if_empty(&mut self, namespace: &Namespace, key: &SerialKey) {
        let Some(gates) = self.by_namespace.get_mut(namespace) else { return };
        if gates.get(key).is_some_and(|gate| gate.members.is_empty() && gate.unreadable.is_empty()) {
            gates.remove(key);
        }
        if gates.is_empty() {
            self.by_namespace.remove(namespace);
        }
    }
}
