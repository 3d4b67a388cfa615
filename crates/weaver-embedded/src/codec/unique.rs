//! Unique keys (idempotency keys and schedule runs): the task that holds one, and until when.

use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use super::{FORMAT_VERSION, Reader, Undecodable, Writer};

/// A unique key's row value; the key itself is the row's key (G8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredUniqueKey {
    /// The first task enqueued with it.
    pub task: TaskId,
    /// Until then an enqueue with the same key returns `task`.
    pub until: Timestamp,
}

/// Encodes task and expiry.
pub fn encode_unique_key(writer: &mut Writer, key: StoredUniqueKey) {
    writer.u8(FORMAT_VERSION);
    writer.varint(key.task.0);
    writer.timestamp(key.until);
}

/// Decodes what [`encode_unique_key`] wrote.
pub fn decode_unique_key(body: &[u8]) -> Result<StoredUniqueKey, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let task = TaskId(reader.varint("task")?);
    let until = reader.timestamp("until")?;
    reader.finish("unique key")?;
    Ok(StoredUniqueKey { task, until })
}
