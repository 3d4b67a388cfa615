//! `records`: the sole owner of every record (ADR-0001).

use std::collections::VecDeque;

use crate::id::TaskId;
use crate::task::{TaskRecord, TaskSpec};

/// Ids are sequential, so a page table finds a record without hashing. Records are boxed: one long-lived task among
/// thousands of purged ones pins a page of pointers, not a page of records, and what is purged leaves the lock as a
/// pointer. (Records inside the pages were tried: what the allocator saved went into moving them.)
const PAGE_SLOTS: usize = 512;

/// A record and where the indexes have it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) record: TaskRecord,
    /// Which index the waiting task stands in. The indexes hold ids only; this says which of them is telling the truth.
    pub(super) place: Place,
    /// What its specification asks of the views. Here, because the specification itself lies elsewhere in memory, and
    /// often in another core's cache.
    pub(super) asks: Asks,
    /// Its queue's number, to save two look-ups by name on every move.
    pub(super) queue: u32,
    /// Its position in the list of leases, while it has one.
    pub(super) lease_position: u32,
}

/// Which views a task needs beyond the usual.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    /// It has a serial key.
    pub(super) gate: bool,
    /// It belongs to a group.
    pub(super) group: bool,
    /// It has an `expires_at`.
    pub(super) expiry: bool,
}

impl Asks {
    pub(super) fn of(spec: &TaskSpec) -> Self {
        Self {
            gate: spec.serial_key.is_some(),
            group: spec.origin().task_group_id.is_some(),
            expiry: spec.expires_at.is_some(),
        }
    }
}

/// Where a waiting task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In no index: it is not waiting, or has expired.
    Nowhere,
    /// In `scheduled`, not yet due.
    Scheduled,
    /// In a ready lane; if it has a serial key, in its gate.
    Ready,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    // A deque, because old pages are freed at the front while new ones are added at the back.
    pages: VecDeque<Option<Page>>,
    first_page: u64,
}

#[derive(Debug)]
struct Page {
    // Grown by pushing, as ids are handed out in order: a new page is not written twice.
    slots: Vec<Option<Box<Slot>>>,
    used: usize,
}

impl Records {
    pub(super) fn get(&self, id: TaskId) -> Option<&Slot> {
        let (page, slot) = self.locate(id)?;
        self.pages.get(page)?.as_ref()?.slots.get(slot)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut Slot> {
        let (page, slot) = self.locate(id)?;
        self.pages.get_mut(page)?.as_mut()?.slots.get_mut(slot)?.as_deref_mut()
    }

    /// Adds a record under an id higher than any before.
    pub(super) fn insert(&mut self, id: TaskId, slot: Box<Slot>) {
        if self.pages.is_empty() {
            self.first_page = id.0 / PAGE_SLOTS as u64;
        }
        let Some((page, index)) = self.locate(id) else { return };
        while self.pages.len() <= page {
            self.pages.push_back(None);
        }
        let page =
            self.pages[page].get_or_insert_with(|| Page { slots: Vec::with_capacity(PAGE_SLOTS), used: 0 });
        while page.slots.len() < index {
            page.slots.push(None);
        }
        debug_assert_eq!(page.slots.len(), index, "{id:?} is taken");
        page.slots.push(Some(slot));
        page.used += 1;
    }

    /// Takes a record out. The caller drops it once the lock is released.
    pub(super) fn remove(&mut self, id: TaskId) -> Option<Box<Slot>> {
        let (number, index) = self.locate(id)?;
        let page = self.pages.get_mut(number)?.as_mut()?;
        let removed = page.slots.get_mut(index)?.take()?;
        page.used -= 1;
        // The last page is about to be written again: freeing it would allocate it anew for every task.
        if page.used == 0 && number + 1 < self.pages.len() {
            self.pages[number] = None;
        }
        while self.pages.len() > 1 && self.pages.front().is_some_and(Option::is_none) {
            self.pages.pop_front();
            self.first_page += 1;
        }
        Some(removed)
    }

    /// The records from `from` (inclusive) on, by ascending id.
    pub(super) fn ascending(&self, from: TaskId) -> impl Iterator<Item = &Slot> {
        let (page, slot) = self.locate(from).unwrap_or((0, 0));
        let pages = self.pages.iter().skip(page).enumerate();
        pages.flat_map(move |(turn, page)| {
            let skipped = if turn == 0 { slot } else { 0 };
            page.iter().flat_map(move |page| page.slots.iter().skip(skipped).filter_map(Option::as_deref))
        })
    }

    /// The records from `from` (inclusive) back, by descending id.
    pub(super) fn descending(&self, from: TaskId) -> impl Iterator<Item = &Slot> {
        let end = (from.0 / PAGE_SLOTS as u64 + 1).saturating_sub(self.first_page);
        let pages = usize::try_from(end).unwrap_or(usize::MAX).min(self.pages.len());
        let slots = self.pages.iter().take(pages).rev().flatten();
        slots
            .flat_map(|page| page.slots.iter().rev().filter_map(Option::as_deref))
            .filter(move |slot| slot.record.key.id <= from)
    }

    fn locate(&self, id: TaskId) -> Option<(usize, usize)> {
        let page = (id.0 / PAGE_SLOTS as u64).checked_sub(self.first_page)?;
        Some((usize::try_from(page).ok()?, (id.0 % PAGE_SLOTS as u64) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_stays_small() {
        assert!(size_of::<Slot>() <= 384, "{} bytes: a million of them wait in memory", size_of::<Slot>());
    }
}
