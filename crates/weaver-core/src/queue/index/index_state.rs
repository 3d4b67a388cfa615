//! The part of a record that the index depends on.

use crate::id::LeaseToken;
use crate::name::WorkerId;
use crate::task::{ReadyBy, TaskRecord, TaskState};
use crate::time::Timestamp;

/// What the index depends on of a record. Taken before and after a transition, so that
/// [`Index::update`](super::Index::update) can compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexState {
    /// Decides which views have the task.
    pub state: TaskState,
    /// When it is due, if it waits.
    pub ready_at: Timestamp,
    /// Which clock decides that it is due.
    pub ready_by: ReadyBy,
    /// Whether it takes one of its queue's slots.
    pub occupies_slot: bool,
    /// Whether it holds its serial key.
    pub holds_key: bool,
    /// Whether no handler was ever started for it.
    pub unstarted: bool,
    /// Whether it counts against the slots of a lease call.
    pub fragile: bool,
    /// The token and the expiry of its lease or cancellation hold.
    pub lease: Option<(LeaseToken, Timestamp)>,
    /// The worker it is assigned to, until that starts it.
    pub assigned_to: Option<WorkerId>,
}

impl IndexState {
    /// The index state of a record as it is now.
    pub fn of(record: &TaskRecord) -> Self {
        Self {
            state: record.state,
            ready_at: record.ready_at,
            ready_by: record.ready_by,
            occupies_slot: record.occupies_slot(),
            holds_key: record.holds_key(),
            unstarted: record.is_unstarted(),
            fragile: record.is_fragile(),
            lease: record.lease.as_ref().map(|held| (held.token, held.expires_at)),
            assigned_to: match (record.state, &record.assignment) {
                (TaskState::Assigned, Some(given)) => Some(given.worker.clone()),
                _ => None,
            },
        }
    }

    /// Whether the index keeps it: it has not ended, or it has a cancellation hold.
    pub fn is_live(&self) -> bool {
        !self.state.is_terminal() || self.lease.is_some()
    }
}
