//! Append-only streams: attempt logs, audit, statistics.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem, Result};
use crate::id::TaskKey;
use crate::name::{Namespace, check_name};
use crate::time::Timestamp;

/// The largest entry, in bytes.
pub const ENTRY_MAX_BYTES: usize = 64 * 1024;
/// The most bytes of one append, over all its entries.
pub const APPEND_MAX_BYTES: usize = 1024 * 1024;

/// Append-only streams of entries.
///
/// # Contract
/// - Entries of one append are stored together, in order, with consecutive numbers; numbers of a stream only
///   grow.
/// - Readers see an entry only after all before it. Trimmed entries (in memory: also those displaced by newer
///   ones) leave a gap in the numbers; entries are never renumbered.
/// - **G9** A stream belongs to the namespace in its key.
/// - The streams of a task are removed when the task is purged.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Adds entries of at most [`ENTRY_MAX_BYTES`] each; returns the number of the last one.
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq>;

    /// Reads entries, oldest first. A stream that was never written is empty.
    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage>;

    /// Removes entries from the beginning of a stream.
    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()>;
}

/// Refuses entries above [`ENTRY_MAX_BYTES`], and more than [`APPEND_MAX_BYTES`] in one append. Stores call
/// it before they write.
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

/// The identity of a stream: no two have the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamKey {
    /// The namespace to which the stream belongs.
    pub namespace: Namespace,
    /// Unique in the namespace; 1 to 255 bytes.
    pub name: String,
}

impl StreamKey {
    /// Refuses an invalid name. Stores call it before they write.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_name("stream", &self.name)
    }

    /// The key of a stream, not yet validated.
    pub fn new(namespace: Namespace, name: impl Into<String>) -> Self {
        Self { namespace, name: name.into() }
    }

    /// The audit stream of a namespace.
    pub fn audit(namespace: Namespace) -> Self {
        Self::new(namespace, "audit")
    }

    /// The log of one attempt of a task.
    pub fn attempt_log(task: &TaskKey, attempt: u32) -> Self {
        Self::new(task.namespace.clone(), format!("{}{attempt}", Self::of_task(task)))
    }

    /// The prefix of the names of a task's streams.
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

/// An entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the stream.
    pub seq: Seq,
    /// When it was stored, by the store's clock.
    pub at: Timestamp,
    /// Opaque to the store.
    pub body: Bytes,
}

/// Where a read begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// After this entry; `Seq(0)` reads from the beginning.
    After(Seq),
    /// At the last so many entries.
    Last(u32),
}

/// A page of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPage {
    /// In order of their numbers, oldest first.
    pub entries: Vec<Entry>,
    /// Whether there are more after them.
    pub more: bool,
}

/// Which entries to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimBefore {
    /// Entries with a smaller number.
    Seq(Seq),
    /// Entries stored before this time, by the store's clock.
    Time(Timestamp),
}
