//! Queues, entries and links as documents of the store.
//!
//! Every write of a queue is a compare-and-set on its version, which fences out a process with an older view.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weaver_core::error::Error;
use weaver_core::id::Version;
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::Namespace;
use weaver_core::ports::{Document, DocumentKey, Expect, Store};

use super::{Certificate, EngineError, SignedLink};
use crate::domain::{EntryId, EntryOutcome, LinkId, MergeQueue, Notice, QueueEntry, QueueId};

/// Document kind of queues.
pub const QUEUE_KIND: &str = "merge_queue";
/// Document kind of entries.
pub const ENTRY_KIND: &str = "merge_entry";
/// Document kind of chain links.
pub const LINK_KIND: &str = "merge_link";

/// A queue and the version it was read at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedQueue {
    /// As it was read.
    pub queue: MergeQueue,
    /// Version of its document: the expected version of the next write.
    pub version: Version,
}

/// The document of an entry, kept after it completed. While it is in the queue, the queue's document is
/// authoritative.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryDetail {
    /// The entry as it was when this was written.
    pub entry: QueueEntry,
    /// None while it is in the queue.
    #[serde(rename = "departure")]
    pub outcome: Option<EntryOutcome>,
    /// Only if it landed.
    pub certificate: Option<Certificate>,
}

/// Reads and writes the documents of merge queues.
#[derive(Clone)]
pub struct MergeDocuments {
    store: Arc<dyn Store>,
}

impl MergeDocuments {
    /// Uses the document port of `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Loads a queue, also a removed one; `None` if there was never one of that id.
    pub async fn load(
        &self,
        namespace: &Namespace,
        id: &QueueId,
    ) -> Result<Option<VersionedQueue>, EngineError> {
        let found = self.store.get_document(&queue_key(namespace, id)).await?;
        found
            .map(|document| Ok(VersionedQueue { queue: decode_queue(&document)?, version: document.version }))
            .transpose()
    }

    /// All queues of a namespace that are not removed, by id. An unreadable document is skipped and logged,
    /// so that it does not stop other queues; [`load`](Self::load) reports what is wrong with it.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<MergeQueue>, EngineError> {
        let (mut queues, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.store.list_documents(namespace, QUEUE_KIND, "", cursor, PAGE_MAX).await?;
            for document in &page.items {
                queues.extend(readable(decode_queue(document)).filter(|queue| !queue.is_removed()));
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(queues);
            }
        }
    }

    /// Creates a queue; false if it exists.
    pub async fn create(&self, namespace: &Namespace, queue: &MergeQueue) -> Result<bool, EngineError> {
        queue.validate()?;
        self.put_queue(namespace, queue, Expect::Absent).await.map(|version| version.is_some())
    }

    /// Saves `next` if `stored` is still the current version, documents of its entries first; false on a
    /// conflict.
    pub async fn save(
        &self,
        namespace: &Namespace,
        stored: &mut VersionedQueue,
        next: MergeQueue,
        certificates: &[Certificate],
    ) -> Result<bool, EngineError> {
        next.validate_after(&stored.queue)?;
        let key = queue_key(namespace, &next.id);
        for notice in next.outbox.iter().filter(|notice| !stored.queue.outbox.contains(notice)) {
            let Some(detail) = detail_of(notice, certificates) else { continue };
            let entry_key = entry_key(namespace, &next.id, detail.entry.id);
            let written = self.store.get_document(&entry_key).await?;
            // The process that saves the queue publishes the entry and writes its final document. Reading in
            // this order fences out a process that is too late.
            let now = self.store.get_document(&key).await?;
            if now.is_none_or(|now| now.version != stored.version) {
                return Ok(false);
            }
            let expect = written.map_or(Expect::Absent, |written| Expect::Version(written.version));
            self.put(&entry_key, &detail, expect).await?;
        }
        match self.put_queue(namespace, &next, Expect::Version(stored.version)).await? {
            Some(version) => {
                *stored = VersionedQueue { queue: next, version };
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Saves a corrupted queue without validation, to pause or remove it; false on a conflict.
    pub(super) async fn save_unchecked(
        &self,
        namespace: &Namespace,
        version: Version,
        next: &MergeQueue,
    ) -> Result<bool, EngineError> {
        let saved = self.put_queue(namespace, next, Expect::Version(version)).await?;
        Ok(saved.is_some())
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &MergeQueue,
        expect: Expect,
    ) -> Result<Option<Version>, EngineError> {
        let key = queue_key(namespace, &queue.id);
        if queue.namespace.is_none() && queue.removal.is_none() {
            return self.put(&key, queue, expect).await;
        }
        self.put(&key, &Wrapped { queue }, expect).await
    }

    /// Loads the document of an entry.
    pub async fn entry(
        &self,
        namespace: &Namespace,
        queue: &QueueId,
        id: EntryId,
    ) -> Result<Option<EntryDetail>, EngineError> {
        let found = self.store.get_document(&entry_key(namespace, queue, id)).await?;
        found.as_ref().map(decode).transpose()
    }

    /// The last `count` entries of a queue, oldest first. Unreadable documents are skipped and logged.
    pub async fn entries(
        &self,
        namespace: &Namespace,
        queue: &MergeQueue,
        count: u64,
    ) -> Result<Vec<EntryDetail>, EngineError> {
        let first = queue.next_entry.saturating_sub(count).max(1);
        let mut entries = Vec::new();
        for number in first..queue.next_entry {
            let read = match self.entry(namespace, &queue.id, EntryId(number)).await {
                Err(error) if !error.is_unreadable() => return Err(error),
                read => read,
            };
            entries.extend(readable(read).flatten());
        }
        Ok(entries)
    }

    /// Loads a link of a queue's chain; `None` if it is missing.
    pub async fn link(
        &self,
        namespace: &Namespace,
        queue: &QueueId,
        id: &LinkId,
    ) -> Result<Option<SignedLink>, EngineError> {
        let found = self.store.get_document(&link_key(namespace, queue, id)).await?;
        found.as_ref().map(decode).transpose()
    }

    /// Writes a link. Its name contains its hash, so concurrent writes are identical.
    pub(super) async fn put_link(
        &self,
        namespace: &Namespace,
        queue: &QueueId,
        id: &LinkId,
        link: &SignedLink,
    ) -> Result<(), EngineError> {
        self.put(&link_key(namespace, queue, id), link, Expect::Anything).await.map(drop)
    }

    /// Writes the final document of a completed entry.
    pub(super) async fn put_entry(
        &self,
        namespace: &Namespace,
        queue: &QueueId,
        detail: &EntryDetail,
    ) -> Result<(), EngineError> {
        self.put(&entry_key(namespace, queue, detail.entry.id), detail, Expect::Anything).await.map(drop)
    }

    async fn put<T: Serialize>(
        &self,
        key: &DocumentKey,
        body: &T,
        expect: Expect,
    ) -> Result<Option<Version>, EngineError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| EngineError::Unreadable { what: key.id.clone(), problem: error.to_string() })?;
        match self.store.put_document(key, body.into(), expect, None).await {
            Ok(version) => Ok(Some(version)),
            Err(Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn queue_key(namespace: &Namespace, id: &QueueId) -> DocumentKey {
    DocumentKey::new(namespace.clone(), QUEUE_KIND, id.0.clone())
}

fn entry_key(namespace: &Namespace, queue: &QueueId, id: EntryId) -> DocumentKey {
    DocumentKey::new(namespace.clone(), ENTRY_KIND, format!("{queue}/{:010}", id.0))
}

fn link_key(namespace: &Namespace, queue: &QueueId, id: &LinkId) -> DocumentKey {
    let hash = id.hash.get(..32).unwrap_or(&id.hash);
    DocumentKey::new(namespace.clone(), LINK_KIND, format!("{queue}/{:010}-{hash}", id.sequence))
}

/// A queue with fields that older versions do not know. They would drop these with their next write: the
/// queue would lose its access namespace, or come back from its removal. They cannot read this, so they leave
/// it alone.
#[derive(Serialize, Deserialize)]
struct Wrapped<Q> {
    queue: Q,
}

/// Decodes the body of a queue's document, plain or wrapped.
pub(super) fn read_queue(body: &[u8]) -> Result<MergeQueue, serde_json::Error> {
    serde_json::from_slice(body).or_else(|plain| {
        serde_json::from_slice::<Wrapped<_>>(body).map_or(Err(plain), |found| Ok(found.queue))
    })
}

fn decode_queue(document: &Document) -> Result<MergeQueue, EngineError> {
    read_queue(&document.body).map_err(|error| unreadable(document, &error))
}

fn decode<T: DeserializeOwned>(document: &Document) -> Result<T, EngineError> {
    serde_json::from_slice(&document.body).map_err(|error| unreadable(document, &error))
}

fn unreadable(document: &Document, error: &serde_json::Error) -> EngineError {
    let what = format!("{} `{}`", document.key.kind, document.key.id);
    EngineError::Unreadable { what, problem: error.to_string() }
}

/// Skips an unreadable document of a list, so that it does not hide the others.
fn readable<T>(read: Result<T, EngineError>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "skipped an unreadable merge queue document")).ok()
}

fn detail_of(notice: &Notice, certificates: &[Certificate]) -> Option<EntryDetail> {
    match notice {
        Notice::Added { entry, .. } => {
            Some(EntryDetail { entry: (**entry).clone(), outcome: None, certificate: None })
        }
        // Written again when published: which link is the queue's is known only after the queue is saved.
        Notice::Completed { entry, outcome, .. } => Some(EntryDetail {
            entry: (**entry).clone(),
            outcome: Some(outcome.clone()),
            certificate: certificates.iter().find(|certificate| certificate.entry == entry.id).cloned(),
        }),
        Notice::Foreign { .. }
        | Notice::Paused { .. }
        | Notice::Fault { .. }
        | Notice::QueueRemoved { .. } => None,
    }
}
