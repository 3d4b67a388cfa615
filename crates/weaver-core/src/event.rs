//! The stream of transitions (G10).

use std::fmt;
use std::str::FromStr;

use crate::id::{TaskKey, Version};
use crate::task::{TaskRecord, TaskState};
use crate::time::Timestamp;

/// A task moved. Published at least once, after it is stored, in order per task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The task.
    pub key: TaskKey,
    /// Its version after the move: tells a repeated event from a new one.
    pub version: Version,
    /// Its state after the move.
    pub state: TaskState,
    /// When it moved, by the store's clock.
    pub at: Timestamp,
}

impl Change {
    /// The last move of a record.
    pub fn of(record: &TaskRecord) -> Self {
        let (key, version) = (record.key.clone(), record.version);
        Self { key, version, state: record.state, at: record.updated_at }
    }
}

/// A place in the stream of one incarnation of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeCursor {
    /// Which life of the store: a stream kept in memory does not outlive its process.
    pub incarnation: u64,
    /// How many changes came before.
    pub position: u64,
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}.{}", self.incarnation, self.position)
    }
}

/// Text that is not a [`ChangeCursor`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a place in the stream of changes: send back what an event carried")]
pub struct NotACursor(String);

impl FromStr for ChangeCursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let parse = || {
            let (incarnation, position) = text.split_once('.')?;
            let incarnation = u64::from_str_radix(incarnation, 16).ok()?;
            Some(Self { incarnation, position: position.parse().ok()? })
        };
        parse().ok_or_else(|| NotACursor(text.to_owned()))
    }
}

/// What happened after a place in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// These, in order.
    Next {
        /// The moves.
        items: Vec<Change>,
        /// Where to go on.
        next: ChangeCursor,
    },
    /// More than the store remembers: read the tasks you care about again, then go on from here.
    Resync {
        /// Where to go on.
        next: ChangeCursor,
    },
}
