//! Ready tasks: lanes of ids, each in the exact order of G7.
//!
//! A lane holds the ready tasks of one queue, type, priority and fragility. Leasing compares the first of
//! each lane that matches the request, so filters by type and slots never search.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hashbrown::HashMap;

use crate::id::TaskId;
use crate::time::Timestamp;

/// A ready task: its id, and the time it sorts by. It may be stale, because the task has changed since: its
/// index entry decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyEntry {
    pub(super) ready_at: Timestamp,
    pub(super) id: TaskId,
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    // Tasks nearly always become ready in order, and are appended.
    in_order: VecDeque<ReadyEntry>,
    // The others, whose serial key became free or that were released at the same instant. Usually empty.
    late: BinaryHeap<Reverse<ReadyEntry>>,
    stale: usize,
}

impl Lane {
    pub(super) fn push(&mut self, entry: ReadyEntry) {
        if self.in_order.back().is_none_or(|last| *last <= entry) {
            self.in_order.push_back(entry);
        } else {
            self.late.push(Reverse(entry));
        }
    }

    pub(super) fn first(&self) -> Option<ReadyEntry> {
        match (self.in_order.front(), self.late.peek()) {
            (Some(in_order), Some(Reverse(late))) => Some(*in_order.min(late)),
            (Some(entry), None) | (None, Some(Reverse(entry))) => Some(*entry),
            (None, None) => None,
        }
    }

    pub(super) fn pop_first(&mut self) -> Option<ReadyEntry> {
        let late = match (self.in_order.front(), self.late.peek()) {
            (Some(in_order), Some(Reverse(late))) => late < in_order,
            (in_order, _) => in_order.is_none(),
        };
        let popped =
            if late { self.late.pop().map(|Reverse(entry)| entry) } else { self.in_order.pop_front() };
        if self.in_order.is_empty() && self.in_order.capacity() > 4096 {
            // Frees the memory of a burst.
            self.in_order = VecDeque::new();
        }
        popped
    }

    /// Drops the first entry, which turned out to be stale.
    pub(super) fn drop_stale_first(&mut self) {
        self.pop_first();
        self.stale = self.stale.saturating_sub(1);
    }

    /// Counts one more stale entry. Returns whether the lane should be swept: most of it is stale.
    pub(super) fn note_stale(&mut self) -> bool {
        self.stale += 1;
        self.stale > 64 && self.stale * 2 > self.len()
    }

    /// Removes the stale entries.
    pub(super) fn sweep(&mut self, mut is_current: impl FnMut(ReadyEntry) -> bool) {
        self.in_order.retain(|entry| is_current(*entry));
        self.late.retain(|Reverse(entry)| is_current(*entry));
        self.in_order.shrink_to(64);
        self.late.shrink_to(64);
        self.stale = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.late.len()
    }

    /// Up to `max` entries that pass, in order.
    pub(super) fn first_entries(
        &self,
        max: usize,
        mut passes: impl FnMut(ReadyEntry) -> bool,
    ) -> Vec<ReadyEntry> {
        let mut entries: Vec<_> =
            self.in_order.iter().copied().filter(|entry| passes(*entry)).take(max).collect();
        if !self.late.is_empty() {
            entries.extend(self.late.iter().map(|Reverse(entry)| *entry).filter(|entry| passes(*entry)));
            entries.sort_unstable();
            entries.truncate(max);
        }
        entries
    }

    /// The entries before this one, in no particular order.
    pub(super) fn before(&self, entry: ReadyEntry) -> impl Iterator<Item = ReadyEntry> {
        let in_order = self.in_order.iter().copied().take_while(move |other| *other < entry);
        let late = self.late.iter().map(|Reverse(other)| *other).filter(move |other| *other < entry);
        in_order.chain(late)
    }
}

/// What the tasks of a lane have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LaneKey {
    /// Their type and priority, by number.
    pub(super) kind: u32,
    pub(super) fragile: bool,
}

/// The lanes of one queue.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    list: Vec<(LaneKey, Lane)>,
    positions: HashMap<LaneKey, usize>,
    /// The one last used: tasks of one kind often follow each other.
    last: usize,
}

impl Lanes {
    /// Above this many lanes, empty ones are removed: users invent types without limit.
    const KEPT_EMPTY: usize = 32;

    pub(super) fn lane_mut(&mut self, key: LaneKey) -> &mut Lane {
        if !self.list.get(self.last).is_some_and(|(last, _)| key == *last) {
            self.last = *self.positions.entry(key).or_insert_with(|| {
                self.list.push((key, Lane::default()));
                self.list.len() - 1
            });
        }
        &mut self.list[self.last].1
    }

    pub(super) fn list_mut(&mut self) -> &mut [(LaneKey, Lane)] {
        &mut self.list
    }

    pub(super) fn list(&self) -> &[(LaneKey, Lane)] {
        &self.list
    }

    pub(super) fn forget_empty(&mut self) {
        if self.list.len() <= Self::KEPT_EMPTY {
            return;
        }
        self.list.retain(|(_, lane)| !lane.is_empty());
        self.positions = self.list.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ready_at: i64, id: u64) -> ReadyEntry {
        ReadyEntry { ready_at: Timestamp::from_micros(ready_at), id: TaskId(id) }
    }

    #[test]
    fn a_lane_returns_its_entries_in_order_whatever_order_they_were_added_in() {
        let mut lane = Lane::default();
        for (ready_at, id) in [(5, 1), (7, 2), (6, 3), (7, 1), (5, 0), (9, 9)] {
            lane.push(entry(ready_at, id));
        }
        let order: Vec<_> = std::iter::from_fn(|| lane.pop_first()).collect();
        let expected = [(5, 0), (5, 1), (6, 3), (7, 1), (7, 2), (9, 9)];
        assert_eq!(order, expected.map(|(ready_at, id)| entry(ready_at, id)));
    }

    #[test]
    fn a_lane_entry_is_an_id_and_a_time_in_sixteen_bytes() {
        assert_eq!(size_of::<ReadyEntry>(), size_of::<TaskId>() + size_of::<Timestamp>());
        assert_eq!(size_of::<ReadyEntry>(), 16);
    }

    #[test]
    fn a_lane_is_swept_once_most_of_it_is_stale() {
        let mut lane = Lane::default();
        (0..100).for_each(|id| lane.push(entry(0, id)));
        let swept_at = (1..=100).find(|_| lane.note_stale());
        assert_eq!(swept_at, Some(65));
        lane.sweep(|entry| entry.id.0 >= 90);
        assert_eq!(lane.len(), 10);
    }
}
