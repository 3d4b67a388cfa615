//! Finished tasks in the order they ended, for retention.

use std::collections::VecDeque;

use crate::id::TaskId;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(super) struct Finished {
    order: VecDeque<(Timestamp, TaskId)>,
    /// Entries whose record was removed by a purge, not from here.
    stale: usize,
}

impl Finished {
    pub(super) fn push(&mut self, at: Timestamp, id: TaskId) {
        self.order.push_back((at, id));
    }

    /// How many finished records there are.
    pub(super) fn len(&self) -> usize {
        self.order.len() - self.stale
    }

    pub(super) fn first(&self) -> Option<(Timestamp, TaskId)> {
        self.order.front().copied()
    }

    pub(super) fn pop_first(&mut self, was_stale: bool) {
        self.order.pop_front();
        if was_stale {
            self.stale = self.stale.saturating_sub(1);
        }
    }

    /// Moves the first one to the end: its cancellation hold is not over.
    pub(super) fn postpone_first(&mut self) {
        self.order.rotate_left(1.min(self.order.len()));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Timestamp, TaskId)> {
        self.order.iter().copied()
    }

    /// Counts purged records; sweeps once most entries are stale.
    pub(super) fn note_purged(&mut self, count: usize, mut exists: impl FnMut(TaskId) -> bool) {
        self.stale += count;
        if self.stale > 64 && self.stale * 2 > self.order.len() {
            self.order.retain(|(_, id)| exists(*id));
            self.order.shrink_to(64);
            self.stale = 0;
        }
    }
}
