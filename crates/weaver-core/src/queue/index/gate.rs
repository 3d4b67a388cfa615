//! Gates: of the due tasks with one serial key, the one that may go.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use crate::admission;
use crate::id::TaskId;
use crate::name::{Namespace, SerialKey};
use crate::queue::index::lane::ReadyEntry;
use crate::queue::index::standing::Standing;

/// The tasks of one namespace that share a serial key. Only the elected one stands in a ready lane.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Every task that has not ended, or that still holds the key.
    pub(super) members: BTreeSet<TaskId>,
    /// Those waiting and due.
    due: BTreeSet<TaskId>,
    /// The one that has started, until its end (and until its handler has stopped).
    holder: Option<TaskId>,
    /// Live tasks of the key that cannot be read, and whether they may have started: then the key is held.
    pub(super) unreadable: BTreeMap<TaskId, bool>,
    /// The one in a ready lane, with the time it stands under.
    elected: Option<ReadyEntry>,
}

impl Gate {
    /// Whether this lane entry is the one that may go.
    pub(super) fn is_elected(&self, entry: ReadyEntry) -> bool {
        self.elected == Some(entry)
    }

    /// How many due tasks go before this one.
    pub(super) fn due_before(&self, id: TaskId) -> usize {
        let holder = self.holder.filter(|holder| *holder != id).map_or(0, |_| 1);
        let goes_first = |other, begun| admission::goes_first(other, begun, true, id, false);
        let unreadable = self.unreadable.iter().filter(|(other, begun)| goes_first(**other, **begun)).count();
        self.due.range(..id).filter(|other| goes_first(**other, false)).count() + holder + unreadable
    }

    /// Takes in how a member stands now.
    pub(super) fn update(&mut self, id: TaskId, standing: &Standing, is_due: bool) {
        self.set_due(id, is_due);
        if standing.holds_key {
            debug_assert!(self.holder.is_none_or(|holder| holder == id), "{id:?} took a key that is held");
            self.holder = Some(id);
        } else if self.holder == Some(id) {
            self.holder = None;
        }
        if standing.state.is_terminal() && !standing.holds_key {
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

    /// Who may go: the holder if it waits and is due, else the lowest id that is due.
    pub(super) fn candidate(&self) -> Option<TaskId> {
        let elected = admission::elected(self.holder, self.due.first().copied())?;
        let may_go = match self.holder {
            Some(_) => self.due.contains(&elected),
            None => !self.waits_for_unreadable(elected),
        };
        may_go.then_some(elected)
    }

    /// What cannot be read keeps its place: none of its key goes if it may have started, and none behind it
    /// if not.
    fn waits_for_unreadable(&self, id: TaskId) -> bool {
        self.unreadable.iter().any(|(other, begun)| admission::goes_first(*other, *begun, true, id, false))
    }

    /// Elects; returns who stood before and who must be put into a lane, if the election changed anything.
    pub(super) fn elect(&mut self, entry: Option<ReadyEntry>) -> Option<Election> {
        if self.elected == entry {
            return None;
        }
        let election = Election { before: self.elected, now: entry };
        self.elected = entry;
        Some(election)
    }
}

/// A change of who may go.
pub(super) struct Election {
    /// Its lane entry is stale now.
    pub(super) before: Option<ReadyEntry>,
    /// It needs a lane entry.
    pub(super) now: Option<ReadyEntry>,
}

#[derive(Debug, Default)]
pub(super) struct Gates {
    // Two levels, so that a look-up borrows both halves of the key.
    by_namespace: HashMap<Namespace, HashMap<SerialKey, Gate>>,
}

impl Gates {
    pub(super) fn get(&self, namespace: &Namespace, key: &SerialKey) -> Option<&Gate> {
        self.by_namespace.get(namespace)?.get(key)
    }

    pub(super) fn get_or_insert(&mut self, namespace: &Namespace, key: &SerialKey) -> &mut Gate {
        self.by_namespace.entry_ref(namespace).or_default().entry_ref(key).or_default()
    }

    /// Forgets a gate that nobody needs any more.
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
