//! Small versioned documents: schedules, settings, leader election.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem, Result};
use crate::id::Version;
use crate::name::{Namespace, check_name};
use crate::ports::{Cursor, Expect, Page};
use crate::time::Timestamp;

/// The largest body of a document, in bytes.
pub const DOCUMENT_MAX_BYTES: usize = 256 * 1024;
/// The most writes of one batch.
pub const DOCUMENT_WRITES_MAX: usize = 1000;

/// Documents with optimistic concurrency: every write is conditional on [`Expect`].
///
/// # Contract
/// - A write is applied only if its condition holds, else it is
///   [`Error::Conflict`](crate::error::Error::Conflict) and changes nothing.
/// - Versions of one key only grow, also across deletion: a version never denotes two bodies. Leader election
///   depends on it (see [`LeaderEpoch`](crate::queue::LeaderEpoch)).
/// - **G9** A document belongs to the namespace in its key.
#[async_trait]
pub trait Documents: Send + Sync {
    /// Reads a document; `None` if there is none under the key.
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>>;

    /// Writes a document of at most [`DOCUMENT_MAX_BYTES`]; returns its new version. From `due` on,
    /// [`due_documents`](Documents::due_documents) lists it.
    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version>;

    /// Removes a document. Removing an absent one with [`Expect::Version`] is a conflict.
    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()>;

    /// Writes or removes many documents, at most [`DOCUMENT_WRITES_MAX`], each as
    /// [`put_document`](Documents::put_document) or [`delete_document`](Documents::delete_document) would. If
    /// one member is invalid, or two have the same key, nothing is written, and the error names it; else each
    /// succeeds or conflicts on its own. Returns the new version of each, `None` for one that was removed.
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

    /// The documents of a kind, in all namespaces, that are due at or before an instant, the most overdue
    /// first.
    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>>;
}

/// The identity of a document: no two have the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DocumentKey {
    /// The namespace to which the document belongs.
    pub namespace: Namespace,
    /// The sort of document, such as `schedule`; 1 to 255 bytes.
    pub kind: String,
    /// Unique among the documents of this kind in the namespace; 1 to 255 bytes.
    pub id: String,
}

impl DocumentKey {
    /// Refuses kinds and ids that are not valid names. Stores call it before they write.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_name("kind", &self.kind)?;
        check_name("id", &self.id)
    }

    /// The key of a document, not yet validated.
    pub fn new(namespace: Namespace, kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { namespace, kind: kind.into(), id: id.into() }
    }
}

/// A write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWrite {
    /// The document to write; unique in the batch.
    pub key: DocumentKey,
    /// The new body; `None` removes the document.
    pub body: Option<Bytes>,
    /// The condition of this write.
    pub expect: Expect,
    /// When [`due_documents`](Documents::due_documents) lists it; `None`: never.
    pub due: Option<Timestamp>,
}

impl DocumentWrite {
    /// Writes a document, like [`Documents::put_document`].
    pub fn put(key: DocumentKey, body: Bytes, expect: Expect, due: Option<Timestamp>) -> Self {
        Self { key, body: Some(body), expect, due }
    }

    /// Removes a document, like [`Documents::delete_document`].
    pub fn delete(key: DocumentKey, expect: Expect) -> Self {
        Self { key, body: None, expect, due: None }
    }
}

/// Refuses batches that are too large, invalid members, and two members with the same key. Stores call it
/// before they write.
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

/// Refuses invalid keys and bodies above [`DOCUMENT_MAX_BYTES`]. Stores call it before they write.
pub fn check_document(key: &DocumentKey, body: &[u8]) -> Result<(), Invalid> {
    key.validate()?;
    if body.len() > DOCUMENT_MAX_BYTES {
        let problem = Problem::TooLong { bytes: body.len(), max_bytes: DOCUMENT_MAX_BYTES };
        return Err(Invalid::new("body", problem));
    }
    Ok(())
}

/// A document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Namespace, kind and id.
    pub key: DocumentKey,
    /// Opaque to the store.
    pub body: Bytes,
    /// Grows with every write, also across deletion.
    pub version: Version,
    /// When [`due_documents`](Documents::due_documents) lists it; `None`: never.
    pub due: Option<Timestamp>,
    /// When it was last written, by the store's clock.
    pub updated_at: Timestamp,
}
