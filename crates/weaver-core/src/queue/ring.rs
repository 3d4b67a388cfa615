//! The ring of changes: the last of them, and an honest answer for everything before.

use std::collections::VecDeque;

use crate::event::{Change, ChangeCursor, Changes};

/// The last changes of a store, in order.
#[derive(Debug)]
pub struct Ring {
    changes: VecDeque<Change>,
    capacity: usize,
    /// How many changes there have been.
    end: u64,
    incarnation: u64,
}

impl Ring {
    /// An empty ring of one life of a store.
    pub fn new(capacity: usize, incarnation: u64) -> Self {
        Self { changes: VecDeque::new(), capacity: capacity.max(1), end: 0, incarnation }
    }

    /// Adds a change; the oldest goes if the ring is full.
    pub fn push(&mut self, change: Change) {
        if self.changes.len() == self.capacity {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.end += 1;
    }

    /// The end of the stream.
    pub fn cursor(&self) -> ChangeCursor {
        ChangeCursor { incarnation: self.incarnation, position: self.end }
    }

    /// Whether anything came after this place (or it cannot be told).
    pub fn has_after(&self, after: ChangeCursor) -> bool {
        after != self.cursor()
    }

    /// What came after a place; `None` asks for the end.
    pub fn read(&self, after: Option<ChangeCursor>, limit: usize) -> Changes {
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
