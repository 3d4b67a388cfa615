//! The ring of changes: the last of them, and an honest answer for everything before.

use std::collections::VecDeque;

use crate::event::{Change, ChangeCursor, Changes};

#[derive(Debug)]
pub(super) struct Ring {
    changes: VecDeque<Change>,
    capacity: usize,
    /// How many changes there have been.
    end: u64,
    incarnation: u64,
}

impl Ring {
    pub(super) fn new(capacity: usize, incarnation: u64) -> Self {
        Self { changes: VecDeque::new(), capacity: capacity.max(1), end: 0, incarnation }
    }

    pub(super) fn push(&mut self, change: Change) {
        if self.changes.len() == self.capacity {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.end += 1;
    }

    pub(super) fn cursor(&self) -> ChangeCursor {
        ChangeCursor { incarnation: self.incarnation, position: self.end }
    }

    /// Whether anything came after this place (or it cannot be told).
    pub(super) fn has_after(&self, after: ChangeCursor) -> bool {
        after != self.cursor()
    }

    pub(super) fn read(&self, after: Option<ChangeCursor>, limit: usize) -> Changes {
        let Some(after) = after else {
            return Changes::Next { items: Vec::new(), next: self.cursor() };
        };
        let oldest = self.end - self.changes.len() as u64;
        if after.incarnation != self.incarnation || after.position < oldest || after.position > self.end {
            return Changes::Resync { next: self.cursor() };
        }
        let skipped = (after.position - oldest) as usize;
        let items: Vec<_> = self.changes.iter().skip(skipped).take(limit).cloned().collect();
        let position = after.position + items.len() as u64;
        Changes::Next { items, next: ChangeCursor { position, ..after } }
    }
}
