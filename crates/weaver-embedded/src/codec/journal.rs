//! Entries of journal streams.

use bytes::Bytes;
use weaver_core::time::Timestamp;

use super::{FORMAT_VERSION, Reader, Undecodable, Writer};

/// A journal entry's row value; stream and sequence number are the row's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Store time of the append.
    pub at: Timestamp,
    /// The entry's content, opaque to the store.
    pub body: Bytes,
}

/// Encodes an entry; takes the body as a slice, so that the caller need not own it.
pub fn encode_entry(writer: &mut Writer, at: Timestamp, body: &[u8]) {
    writer.u8(FORMAT_VERSION);
    writer.timestamp(at);
    writer.bytes(body);
}

/// Decodes what [`encode_entry`] wrote; copies the body.
pub fn decode_entry(body: &[u8]) -> Result<StoredEntry, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let at = reader.timestamp("at")?;
    let body = Bytes::copy_from_slice(reader.bytes("body")?);
    reader.finish("entry")?;
    Ok(StoredEntry { at, body })
}
