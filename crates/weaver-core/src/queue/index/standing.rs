//! How a task stands: all that the views need to know of a record.

use crate::id::LeaseToken;
use crate::task::{ReadyBy, TaskRecord, TaskState};
use crate::time::Timestamp;

/// What the views depend on, of a record at one moment. Taken before a record moves, so that
/// [`Index::update`](super::Index::update) can compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub state: TaskState,
    /// When it is due, if it waits.
    pub ready_at: Timestamp,
    /// By which time.
    pub ready_by: ReadyBy,
    /// Whether it takes one of its queue's slots.
    pub occupies_slot: bool,
    /// Whether it holds its serial key.
    pub holds_key: bool,
    /// Whether it has never started.
    pub unstarted: bool,
    /// Whether it must start at once and alone in its batch.
    pub fragile: bool,
    /// Its lease or hold: the proof, and when it ends.
    pub lease: Option<(LeaseToken, Timestamp)>,
}

impl Standing {
    /// How a record stands.
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
        }
    }

    /// Whether any view has a place for it: it has not ended, or its handler has yet to stop.
    pub fn is_live(&self) -> bool {
        !self.state.is_terminal() || self.lease.is_some()
    }
}
