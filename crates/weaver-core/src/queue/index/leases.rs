//! Every lease and cancellation hold with its expiry, for `overdue`.

use crate::id::TaskId;
use crate::time::Timestamp;

/// A dense list whose positions are kept in the index entries: adding, renewing and ending a lease is O(1),
/// and finding the expired ones is one pass over a few cache lines per thousand, once a second. A heap would
/// hold an entry for every renewal until it expires; a tree costs more on every lease than the pass saves.
#[derive(Debug, Default)]
pub(super) struct LeaseList {
    entries: Vec<LeaseEntry>,
}

#[derive(Debug, Clone, Copy)]
struct LeaseEntry {
    expires_at: Timestamp,
    id: TaskId,
}

/// The position of a task that has no lease.
pub(super) const NO_LEASE: u32 = u32::MAX;

impl LeaseList {
    /// Adds a lease; returns its position.
    pub(super) fn add(&mut self, id: TaskId, expires_at: Timestamp) -> u32 {
        self.entries.push(LeaseEntry { expires_at, id });
        u32::try_from(self.entries.len() - 1).expect("fewer than four thousand million leases")
    }

    pub(super) fn renew(&mut self, position: u32, expires_at: Timestamp) {
        self.entries[position as usize].expires_at = expires_at;
    }

    /// Removes a lease; returns the task that now has its position, if another was moved there.
    pub(super) fn remove(&mut self, position: u32) -> Option<TaskId> {
        self.entries.swap_remove(position as usize);
        self.entries.get(position as usize).map(|moved| moved.id)
    }

    pub(super) fn overdue(&self, now: Timestamp) -> impl Iterator<Item = TaskId> {
        self.entries.iter().filter(move |entry| entry.expires_at <= now).map(|entry| entry.id)
    }
}
