//! Small documents with versions: definitions, settings, leadership.

use std::collections::HashSet;

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
/// The most writes of one batch.
pub const DOCUMENT_WRITES_MAX: usize = 1000;

/// Documents.
///
/// # Contract
/// - A write happens only if what is there is what the caller expects, else
///   [`Error::Conflict`](crate::error::Error::Conflict), and then changes nothing.
/// - Versions of one key only grow, also across deletion: a version seen once never means another body.
///   Leadership rests on it (see [`LeaderEpoch`](crate::queue::LeaderEpoch)).
/// - **G9** A document belongs to the namespace in its key.
#[async_trait]
pub trait Documents: Send + Sync {
    /// Reads a document.
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>>;

    /// Writes a document of at most [`DOCUMENT_MAX_BYTES`]. `due` is when
    /// [`due_documents`](Documents::due_documents) should bring it up.
    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version>;

    /// Removes a document. Removing what is not there is a conflict unless anything was expected.
    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()>;

    /// Writes or removes many documents, at most [`DOCUMENT_WRITES_MAX`], each as
    /// [`put_document`](Documents::put_document) or [`delete_document`](Documents::delete_document) would. If
    /// one member is invalid, or two are about one key, nothing is written, and the error names it; else each
    /// succeeds or conflicts by itself. Answers the new version of each, `None` for one that was removed.
    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>>;

    /// The documents of a kind whose id begins with `prefix`, by id.
    async fn list_documents(
        &self,
        namespace: &Namespace,
        kind: &str,
        prefix: &str,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Document>>;

    /// The documents of a kind, in any namespace, that are due at or before an instant, the most overdue
    /// first.
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

/// A write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWrite {
    /// Which document.
    pub key: DocumentKey,
    /// What it should say; `None` removes it.
    pub body: Option<Bytes>,
    /// What is expected to be there.
    pub expect: Expect,
    /// When it should be brought up.
    pub due: Option<Timestamp>,
}

impl DocumentWrite {
    /// Writes a document.
    pub fn put(key: DocumentKey, body: Bytes, expect: Expect, due: Option<Timestamp>) -> Self {
        Self { key, body: Some(body), expect, due }
    }

    /// Removes a document.
    pub fn delete(key: DocumentKey, expect: Expect) -> Self {
        Self { key, body: None, expect, due: None }
    }
}

/// Refuses batches that are too large, invalid members, and two about one key. Stores call it before they
/// write.
pub fn check_document_writes(writes: &[DocumentWrite]) -> Result<(), Invalid> {
    if writes.len() > DOCUMENT_WRITES_MAX {
        let (value, max) = (writes.len() as u64, DOCUMENT_WRITES_MAX as u64);
        return Err(Invalid::new("writes", Problem::OutOfRange { value, min: 0, max }));
    }
    let mut keys = HashSet::with_capacity(writes.len());
    for (index, write) in writes.iter().enumerate() {
        check_document(&write.key, write.body.as_deref().unwrap_or_default())
            .map_err(|invalid| invalid.at(index))?;
        if !keys.insert(&write.key) {
            return Err(Invalid::new("key", Problem::Repeated).at(index));
        }
    }
    Ok(())
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
