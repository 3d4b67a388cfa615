//! `records`: the only owner of every record (ADR-0001).

use std::collections::VecDeque;

use crate::id::TaskId;
use crate::task::TaskRecord;

/// Ids are sequential, so a page table finds a record without hashing. Records are boxed: one long-lived task
/// among thousands of purged ones pins a page of pointers, not a page of records, and a purged record is
/// moved out of the lock as a pointer. (Records inside the pages were measured: moving them cost what the
/// allocator saved.)
const PAGE_SLOTS: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Records {
    // A deque, because old pages are freed at the front while new ones are added at the back.
    pages: VecDeque<Option<Page>>,
    first_page: u64,
}

#[derive(Debug)]
struct Page {
    // Grown by pushing, as ids are assigned in order: a new page is not initialized first.
    slots: Vec<Option<Box<TaskRecord>>>,
    used: usize,
}

impl Records {
    pub(super) fn get(&self, id: TaskId) -> Option<&TaskRecord> {
        let (page, slot) = self.locate(id)?;
        self.pages.get(page)?.as_ref()?.slots.get(slot)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut TaskRecord> {
        let (page, slot) = self.locate(id)?;
        self.pages.get_mut(page)?.as_mut()?.slots.get_mut(slot)?.as_deref_mut()
    }

    /// Adds a record under an id higher than any before.
    pub(super) fn insert(&mut self, id: TaskId, record: Box<TaskRecord>) {
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
        page.slots.push(Some(record));
        page.used += 1;
    }

    /// Removes a record. The caller drops it after the lock is released.
    pub(super) fn remove(&mut self, id: TaskId) -> Option<Box<TaskRecord>> {
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
    pub(super) fn ascending(&self, from: TaskId) -> impl Iterator<Item = &TaskRecord> {
        let (page, slot) = self.locate(from).unwrap_or((0, 0));
        let pages = self.pages.iter().skip(page).enumerate();
        pages.flat_map(move |(turn, page)| {
            let skipped = if turn == 0 { slot } else { 0 };
            page.iter().flat_map(move |page| page.slots.iter().skip(skipped).filter_map(Option::as_deref))
        })
    }

    /// The records from `from` (inclusive) back, by descending id.
    pub(super) fn descending(&self, from: TaskId) -> impl Iterator<Item = &TaskRecord> {
        let end = (from.0 / PAGE_SLOTS as u64 + 1).saturating_sub(self.first_page);
        let pages = usize::try_from(end).unwrap_or(usize::MAX).min(self.pages.len());
        let slots = self.pages.iter().take(pages).rev().flatten();
        slots
            .flat_map(|page| page.slots.iter().rev().filter_map(Option::as_deref))
            .filter(move |record| record.key.id <= from)
    }

    fn locate(&self, id: TaskId) -> Option<(usize, usize)> {
        let page = (id.0 / PAGE_SLOTS as u64).checked_sub(self.first_page)?;
        Some((usize::try_from(page).ok()?, (id.0 % PAGE_SLOTS as u64) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle;
    use crate::limits::Limits;
    use crate::task::NewTask;
    use crate::time::Timestamp;

    #[test]
    fn a_record_is_found_by_its_id_after_earlier_pages_were_freed() {
        let valid = NewTask::new("t").validate(&Limits::default()).unwrap();
        let mut records = Records::default();
        for id in (1..=2000).map(TaskId) {
            let record = lifecycle::admit(valid.clone(), id, Timestamp::MIN).unwrap();
            records.insert(id, Box::new(record));
        }
        assert!((1..=1500).map(TaskId).all(|id| records.remove(id).is_some()));
        assert_eq!(records.pages.len(), 2, "pages without records are freed");
        for id in 1..=2000 {
            let found = records.get(TaskId(id)).map(|record| record.key.id);
            assert_eq!(found, (id > 1500).then_some(TaskId(id)));
        }
    }

    #[test]
    fn a_record_stays_small() {
        assert!(size_of::<TaskRecord>() <= 368, "{} bytes: a million wait", size_of::<TaskRecord>());
    }
}
