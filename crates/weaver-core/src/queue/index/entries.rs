//! The index entry of each live task: thirty-two bytes, however large its record.

use std::collections::VecDeque;

use crate::id::TaskId;
use crate::name::SerialKey;
use crate::queue::index::leases::NO_LEASE;
use crate::task::{ReadyBy, TaskRecord, TaskState};
use crate::time::Timestamp;

/// Ids are sequential, so a page table finds an entry without hashing. Pages are small: one long-lived task
/// among many that have ended pins two kilobytes, not more.
const PAGE_ENTRIES: usize = 64;

/// A live task in the index.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) ready_at: Timestamp,
    /// Boxed, because few tasks have any of it and millions may wait.
    pub(super) rare: Option<Box<RareFields>>,
    /// Its queue's number, to save two lookups by name on every transition.
    pub(super) queue: u32,
    /// Its type and priority, by number.
    pub(super) kind: u32,
    /// Its position in the list of leases, while it has one.
    pub(super) lease_position: u32,
    pub(super) state: TaskState,
    /// The view that has the waiting task. Views may hold stale ids; this is what counts.
    pub(super) place: Place,
    pub(super) fragile: bool,
    pub(super) ready_by: ReadyBy,
}

/// Fields that need further views, and that few tasks have.
#[derive(Debug)]
pub(super) struct RareFields {
    pub(super) serial_key: Option<SerialKey>,
    pub(super) expires_at: Option<Timestamp>,
}

impl RareFields {
    fn of(record: &TaskRecord) -> Option<Box<Self>> {
        let (serial_key, expires_at) = (record.spec.serial_key.clone(), record.spec.expires_at);
        (serial_key.is_some() || expires_at.is_some()).then(|| Box::new(Self { serial_key, expires_at }))
    }
}

/// The view that has a waiting task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In no view: it is not waiting, has expired, or was set aside.
    Nowhere,
    /// In `scheduled`, not yet due.
    Scheduled,
    /// In `scheduled_wall`, not yet due.
    ScheduledWall,
    /// In a ready lane; if it has a serial key, in its gate.
    Ready,
}

impl Entry {
    pub(super) fn of(record: &TaskRecord, queue: u32, kind: u32) -> Self {
        Self {
            ready_at: record.ready_at,
            rare: RareFields::of(record),
            queue,
            kind,
            lease_position: NO_LEASE,
            state: record.state,
            place: Place::Nowhere,
            fragile: record.is_fragile(),
            ready_by: record.ready_by,
        }
    }

    pub(super) fn serial_key(&self) -> Option<&SerialKey> {
        self.rare.as_ref()?.serial_key.as_ref()
    }

    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        self.rare.as_ref()?.expires_at
    }
}

#[derive(Debug, Default)]
pub(super) struct Entries {
    // A deque, because old pages are freed at the front while new ones are added at the back.
    pages: VecDeque<Option<Box<Page>>>,
    first_page: u64,
    /// The last page that became empty: in the steady state one page is freed for every one that is
    /// allocated.
    spare: Option<Box<Page>>,
}

#[derive(Debug)]
struct Page {
    entries: [Option<Entry>; PAGE_ENTRIES],
    used: usize,
    /// How many of them are in each state: a search for a rare state skips whole pages.
    in_state: InState,
}

/// How many tasks are in each state.
type InState = [u8; TaskState::ALL.len()];

impl Page {
    fn empty() -> Box<Self> {
        let entries = [const { None }; PAGE_ENTRIES];
        Box::new(Self { entries, used: 0, in_state: [0; TaskState::ALL.len()] })
    }
}

impl Entries {
    pub(super) fn get(&self, id: TaskId) -> Option<&Entry> {
        let (page, position) = self.locate(id)?;
        self.pages.get(page)?.as_ref()?.entries[position].as_ref()
    }

    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut Entry> {
        let (page, position) = self.locate(id)?;
        self.pages.get_mut(page)?.as_mut()?.entries[position].as_mut()
    }

    /// Adds a task that is not there.
    pub(super) fn insert(&mut self, id: TaskId, entry: Entry) {
        let number = id.0 / PAGE_ENTRIES as u64;
        if self.pages.is_empty() {
            self.first_page = number;
        }
        // Ids grow, except where records are read back from disk, namespace by namespace.
        while number < self.first_page {
            self.pages.push_front(None);
            self.first_page -= 1;
        }
        let Some((page, position)) = self.locate(id) else { return };
        while self.pages.len() <= page {
            self.pages.push_back(None);
        }
        let spare = &mut self.spare;
        let page = self.pages[page].get_or_insert_with(|| spare.take().unwrap_or_else(Page::empty));
        debug_assert!(page.entries[position].is_none(), "{id:?} is taken");
        page.in_state[entry.state.index()] += 1;
        page.entries[position] = Some(entry);
        page.used += 1;
    }

    /// A task and its page's counts by state, which a caller that changes the state must update.
    pub(super) fn get_mut_counted(&mut self, id: TaskId) -> Option<(&mut Entry, &mut InState)> {
        let (page, position) = self.locate(id)?;
        let page = self.pages.get_mut(page)?.as_mut()?;
        Some((page.entries[position].as_mut()?, &mut page.in_state))
    }

    pub(super) fn remove(&mut self, id: TaskId) -> Option<Entry> {
        let (number, position) = self.locate(id)?;
        let page = self.pages.get_mut(number)?.as_mut()?;
        let removed = page.entries[position].take()?;
        page.in_state[removed.state.index()] -= 1;
        page.used -= 1;
        // The last page is about to be written again: freeing it would allocate it anew for every task.
        if page.used == 0 && number + 1 < self.pages.len() {
            self.spare = self.pages[number].take();
        }
        while self.pages.len() > 1 && self.pages.front().is_some_and(Option::is_none) {
            self.pages.pop_front();
            self.first_page += 1;
        }
        Some(removed)
    }

    /// The tasks in a state with ids in a range, by ascending id.
    pub(super) fn in_state(
        &self,
        state: TaskState,
        from: TaskId,
        to: TaskId,
    ) -> impl DoubleEndedIterator<Item = (TaskId, &Entry)> {
        let first = self.first_page;
        let skipped = (from.0 / PAGE_ENTRIES as u64).saturating_sub(first);
        let pages = self.pages.iter().enumerate().skip(usize::try_from(skipped).unwrap_or(usize::MAX));
        let pages = pages.filter_map(move |(turn, page)| Some((turn as u64 + first, page.as_deref()?)));
        let pages = pages.filter(move |(_, page)| page.in_state[state.index()] > 0);
        let entries = pages.flat_map(|(number, page)| {
            let first_id = number * PAGE_ENTRIES as u64;
            let entries = page.entries.iter().enumerate();
            entries.filter_map(move |(at, entry)| Some((TaskId(first_id + at as u64), entry.as_ref()?)))
        });
        entries.filter(move |(id, entry)| entry.state == state && *id >= from && *id <= to)
    }

    fn locate(&self, id: TaskId) -> Option<(usize, usize)> {
        let page = (id.0 / PAGE_ENTRIES as u64).checked_sub(self.first_page)?;
        Some((usize::try_from(page).ok()?, (id.0 % PAGE_ENTRIES as u64) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<Option<Entry>>() <= 32, "{} bytes: millions of them wait", size_of::<Entry>());
    }
}
