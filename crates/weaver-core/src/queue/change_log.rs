//! The change log: the last changes of a store, in a ring buffer. A reader that has fallen behind its oldest
//! change gets a resync.

use std::collections::VecDeque;

use crate::event::{Change, ChangeCursor, Changes};

/// The last changes of a store, oldest first.
#[derive(Debug)]
pub struct ChangeLog {
    changes: VecDeque<Change>,
    capacity: usize,
    /// The number of changes since the log was created.
    end: u64,
    incarnation: u64,
}

impl ChangeLog {
    /// An empty log of one incarnation of a store, for at least one change.
    pub fn new(capacity: usize, incarnation: u64) -> Self {
        Self { changes: VecDeque::new(), capacity: capacity.max(1), end: 0, incarnation }
    }

    /// Adds a change; drops the oldest if the log is full.
    pub fn push(&mut self, change: Change) {
        if self.changes.len() == self.capacity {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.end += 1;
    }

    /// The cursor after the last change.
    pub fn cursor(&self) -> ChangeCursor {
        ChangeCursor { incarnation: self.incarnation, position: self.end }
    }

    /// Whether a read after this cursor returns anything: changes, or a resync.
    pub fn has_after(&self, after: ChangeCursor) -> bool {
        after != self.cursor()
    }

    /// The changes after a cursor, at most `limit`; `None` returns the cursor of the end.
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
