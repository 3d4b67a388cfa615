//! Small documents with versions: definitions, settings, leadership.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem, Result};
use crate::id::Version;
use crate::name::{Namespace, check_name};
use crate::ports::{Cursor, Expect, Page};
use crate::time::Timestamp;

/// The largest body.
pub const DOCUMENT_MAX_BYTES: usize = 256 * 1024;

/// Documents.
///
/// # Contract
/// - A write happens only if what is there is what the caller expects, else
///   [`Error::Conflict`](crate::error::Error::Conflict), and then changes nothing.
/// - Versions of one key only grow, also across deletion: a version seen once never means another body. Leadership
///   rests on it (see [`LeaderEpoch`](crate::queue::LeaderEpoch)).
/// - **G9** A document belongs to the namespace in its key.
#[async_trait]
pub trait Documents: Send + Sync {
    /// Reads a document.
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>>;

    /// Writes a document of at most [`DOCUMENT_MAX_BYTES`]. `due` is when [`due_documents`](Documents::due_documents)
    /// should bring it up.
    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version>;

    /// Removes a document. Removing what is not there is a conflict unless anything was expected.
    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()>;

    /// The documents of a kind whose id begins with `prefix`, by id.
    async fn list_documents(
        &self,
        namespace: &Namespace,
        kind: &str,
        prefix: &str,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Document>>;

    /// The documents of a kind, in any namespace, that are due at or before an instant, the most overdue first.
    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>>;
}

/// A document's identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DocumentKey {
    /// Where.
    pub namespace: Namespace,
    /// What sort of document.
    pub kind: String,
    /// Which one.
    pub id: String,
}

impl DocumentKey {
    /// Refuses kinds and ids that are no names. Stores call it before they write.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_name("kind", &self.kind)?;
        check_name("id", &self.id)
    }

    /// Joins the three parts.
    pub fn new(namespace: Namespace, kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { namespace, kind: kind.into(), id: id.into() }
    }
}

/// Refuses keys that are no names and bodies that are too large. Stores call it before they write.
pub fn check_document(key: &DocumentKey, body: &[u8]) -> Result<(), Invalid> {
    key.validate()?;
    if body.len() > DOCUMENT_MAX_BYTES {
        let problem = Problem::TooLong { bytes: body.len(), max_bytes: DOCUMENT_MAX_BYTES };
        return Err(Invalid::new("body", problem));
    }
    Ok(())
}

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its identity.
    pub key: DocumentKey,
    /// What it says.
    pub body: Bytes,
    /// Grows with every write.
    pub version: Version,
    /// When it should be brought up.
    pub due: Option<Timestamp>,
    /// When it was written.
    pub updated_at: Timestamp,
}
