//! Documents.

use bytes::Bytes;
use weaver_core::id::Version;
use weaver_core::time::Timestamp;

use super::{FORMAT_VERSION, Reader, Undecodable, Writer};

/// A document's row value; its key is the row's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Grows with every write, across deletions too.
    pub version: Version,
    /// When `due_documents` returns it; `None`: never.
    pub due: Option<Timestamp>,
    /// Store time of the last write.
    pub updated_at: Timestamp,
    /// The content. `None`: deleted; the row stays as a tombstone, so that no version is used twice.
    pub body: Option<Bytes>,
}

/// Encodes version, times and body; the key is not part of it.
pub fn encode_document(writer: &mut Writer, document: &StoredDocument) {
    writer.u8(FORMAT_VERSION);
    writer.varint(document.version.0);
    writer.timestamp(document.updated_at);
    writer.option(document.due, Writer::timestamp);
    writer.option(document.body.as_deref(), Writer::bytes);
}

/// Decodes what [`encode_document`] wrote.
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
