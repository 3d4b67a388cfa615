//! A unique key: which task has it, and how long.

use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use super::{FORMAT_VERSION, Reader, Undecodable, Writer};

/// What is known of a unique key, which is the key of its row (G8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredUniqueKey {
    /// The task that had it first.
    pub task: TaskId,
    /// Until when a second enqueue finds it.
    pub until: Timestamp,
}

/// Writes a unique key.
pub fn encode_unique_key(writer: &mut Writer, key: StoredUniqueKey) {
    writer.u8(FORMAT_VERSION);
    writer.varint(key.task.0);
    writer.timestamp(key.until);
}

/// Reads a unique key.
pub fn decode_unique_key(body: &[u8]) -> Result<StoredUniqueKey, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let task = TaskId(reader.varint("task")?);
    let until = reader.timestamp("until")?;
    reader.finish("unique key")?;
    Ok(StoredUniqueKey { task, until })
}
