//! Append-only streams: attempt logs, audit, statistics.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem, Result};
use crate::id::TaskKey;
use crate::name::{Namespace, check_name};
use crate::time::Timestamp;

/// The largest entry.
pub const ENTRY_MAX_BYTES: usize = 64 * 1024;
/// The most one append may carry.
pub const APPEND_MAX_BYTES: usize = 1024 * 1024;

/// Streams of entries.
///
/// # Contract
/// - Entries of one append are stored together, in order, with consecutive numbers; numbers of a stream only
///   grow.
/// - Readers see an entry only after all before it. What was trimmed (or, in memory, pushed out by newer
///   entries) is a gap in the numbers, never a renumbering.
/// - **G9** A stream belongs to the namespace in its key.
/// - The streams of a task go when the task is purged.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Adds entries of at most [`ENTRY_MAX_BYTES`] each; answers the number of the last one.
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq>;

    /// Reads entries, oldest first. A stream nobody wrote is empty.
    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage>;

    /// Removes entries from the beginning of a stream.
    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()>;
}

/// Refuses entries that are too large, and more of them than fit one request. Stores call it before they
/// write.
pub fn check_entries(bodies: &[Bytes]) -> Result<(), Invalid> {
    for (index, body) in bodies.iter().enumerate() {
        if body.len() > ENTRY_MAX_BYTES {
            let problem = Problem::TooLong { bytes: body.len(), max_bytes: ENTRY_MAX_BYTES };
            return Err(Invalid::new("body", problem).at(index));
        }
    }
    let bytes = bodies.iter().map(Bytes::len).sum();
    if bytes > APPEND_MAX_BYTES {
        return Err(Invalid::new("bodies", Problem::TooLong { bytes, max_bytes: APPEND_MAX_BYTES }));
    }
    Ok(())
}

/// A stream's identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamKey {
    /// Where.
    pub namespace: Namespace,
    /// Which one.
    pub name: String,
}

impl StreamKey {
    /// Refuses a stream whose name is none. Stores call it before they write.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_name("stream", &self.name)
    }

    /// A stream by name.
    pub fn new(namespace: Namespace, name: impl Into<String>) -> Self {
        Self { namespace, name: name.into() }
    }

    /// What a task's attempt printed.
    pub fn attempt_log(task: &TaskKey, attempt: u32) -> Self {
        Self::new(task.namespace.clone(), format!("{}{attempt}", Self::of_task(task)))
    }

    /// The beginning of the names of a task's streams.
    pub fn of_task(task: &TaskKey) -> String {
        format!("task/{}/", task.id)
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.namespace, self.name)
    }
}

/// The number of an entry in its stream, from 1; 0 before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub seq: Seq,
    /// When it was stored.
    pub at: Timestamp,
    /// What it says.
    pub body: Bytes,
}

/// Where to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// After this entry.
    After(Seq),
    /// The last so many.
    Last(u32),
}

/// Part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPage {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether there are more after them.
    pub more: bool,
}

/// How much to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimBefore {
    /// Entries with a smaller number.
    Seq(Seq),
    /// Entries stored earlier.
    Time(Timestamp),
}
