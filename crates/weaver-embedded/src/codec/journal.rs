//! An entry of a journal stream.

use bytes::Bytes;
use weaver_core::time::Timestamp;

use super::{FORMAT_VERSION, Reader, Undecodable, Writer};

/// An entry beside its stream and number, which are the key of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// When it was stored.
    pub at: Timestamp,
    /// What it says.
    pub body: Bytes,
}

/// Writes an entry; the body is taken as a slice, so that nobody needs to own it to write it.
pub fn encode_entry(writer: &mut Writer, at: Timestamp, body: &[u8]) {
    writer.u8(FORMAT_VERSION);
    writer.timestamp(at);
    writer.bytes(body);
}

/// Reads an entry.
pub fn decode_entry(body: &[u8]) -> Result<StoredEntry, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let at = reader.timestamp("at")?;
    let body = Bytes::copy_from_slice(reader.bytes("body")?);
    reader.finish("entry")?;
    Ok(StoredEntry { at, body })
}
