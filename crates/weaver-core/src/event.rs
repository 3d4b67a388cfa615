//! The change stream: every transition, for events, pages and metrics (G10).

use std::fmt;
use std::str::FromStr;

use crate::id::{TaskKey, Version};
use crate::task::{TaskRecord, TaskState};
use crate::time::Timestamp;

/// A transition of a task. Published at least once, after it is stored, in order per task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The task that changed.
    pub key: TaskKey,
    /// Its version after the transition: tells a repeated event from a new one.
    pub version: Version,
    /// Its state after the transition.
    pub state: TaskState,
    /// When the transition was applied, by the store's clock.
    pub at: Timestamp,
}

impl Change {
    /// The last transition of a record.
    pub fn of(record: &TaskRecord) -> Self {
        let (key, version) = (record.key.clone(), record.version);
        Self { key, version, state: record.state, at: record.updated_at }
    }
}

/// A position in the change stream of one incarnation of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeCursor {
    /// The incarnation of the store: a stream kept in memory does not outlive its process.
    pub incarnation: u64,
    /// The number of changes before this position.
    pub position: u64,
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}.{}", self.incarnation, self.position)
    }
}

/// Text that is not a [`ChangeCursor`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a change cursor: send the id of a received event, unchanged")]
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

/// The changes after a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// The next changes, in order; none if the cursor is at the end.
    Next {
        /// At most as many as the caller's limit.
        items: Vec<Change>,
        /// The cursor for the next read.
        next: ChangeCursor,
    },
    /// The reader has fallen behind what the store keeps: read the tasks of interest again, then continue
    /// from here.
    Resync {
        /// The end of the stream.
        next: ChangeCursor,
    },
}
