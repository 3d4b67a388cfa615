//! A document.

use bytes::Bytes;
use weaver_core::id::Version;
use weaver_core::time::Timestamp;

use super::{FORMAT_VERSION, Reader, Undecodable, Writer};

/// A document beside its key, which is the key of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Grows with every write, also across deletion.
    pub version: Version,
    /// When it should be brought up.
    pub due: Option<Timestamp>,
    /// When it was written.
    pub updated_at: Timestamp,
    /// What it says. `None`: deleted; the row stays to keep its version, so that no version is ever used
    /// twice.
    pub body: Option<Bytes>,
}

/// Writes a document.
pub fn encode_document(writer: &mut Writer, document: &StoredDocument) {
    writer.u8(FORMAT_VERSION);
    writer.varint(document.version.0);
    writer.timestamp(document.updated_at);
    writer.option(document.due, Writer::timestamp);
    writer.option(document.body.as_deref(), Writer::bytes);
}

/// Reads a document.
pub fn decode_document(body: &[u8]) -> Result<StoredDocument, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let document = StoredDocument {
        version: Version(reader.varint("version")?),
        updated_at: reader.timestamp("updated_at")?,
        due: reader.option("due", |reader| reader.timestamp("due"))?,
        body: reader.option("body", |reader| reader.bytes("body").map(Bytes::copy_from_slice))?,
    };
    reader.finish("document")?;
    Ok(document)
}
