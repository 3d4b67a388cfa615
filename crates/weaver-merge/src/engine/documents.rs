//! Queues and entries as documents.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weaver_core::error::Error;
use weaver_core::id::Version;
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::Namespace;
use weaver_core::ports::{Document, DocumentKey, Expect, Store};

use super::{Certificate, EngineError, SignedLink};
use crate::domain::{Departure, EntryId, LinkId, MergeQueue, Notice, QueueEntry, QueueId};

/// The kind of the documents that are queues.
pub const QUEUE_KIND: &str = "merge_queue";
/// The kind of the documents that are entries.
pub const ENTRY_KIND: &str = "merge_entry";
/// The kind of the documents that are links of chains.
pub const LINK_KIND: &str = "merge_link";

/// A queue and the version it was read at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The queue.
    pub queue: MergeQueue,
    /// Its document's version.
    pub version: Version,
}

/// What is kept of an entry, also after it left. While it is in the queue, the queue's own word counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryDetail {
    /// The entry as it was when this was written.
    pub entry: QueueEntry,
    /// How it left.
    pub departure: Option<Departure>,
    /// If it landed: what landed, and what says that it was tested.
    pub certificate: Option<Certificate>,
}

/// Reads and writes queues.
#[derive(Clone)]
pub struct Ledger {
    store: Arc<dyn Store>,
}

impl Ledger {
    /// Over a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// A queue.
    pub async fn load(&self, namespace: &Namespace, id: &QueueId) -> Result<Option<Stored>, EngineError> {
        let found = self.store.get_document(&queue_key(namespace, id)).await?;
        found.map(|document| Ok(Stored { queue: decode(&document)?, version: document.version })).transpose()
    }

    /// Every queue of a namespace, by name. One whose document cannot be read is left out and logged: it
    /// stops nothing but its own, and [`load`](Self::load) says what is wrong with it.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<MergeQueue>, EngineError> {
        let (mut queues, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.store.list_documents(namespace, QUEUE_KIND, "", cursor, PAGE_MAX).await?;
            for document in &page.items {
                queues.extend(readable(decode(document)));
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(queues);
            }
        }
    }

    /// Makes a queue, unless it is there.
    pub async fn create(&self, namespace: &Namespace, queue: &MergeQueue) -> Result<bool, EngineError> {
        queue.validate()?;
        self.put(&queue_key(namespace, &queue.id), queue, Expect::Absent)
            .await
            .map(|version| version.is_some())
    }

    /// Saves what comes after what is stored, entries first, those that landed with their certificates;
    /// `false` if that is no longer what is stored.
    pub async fn save(
        &self,
        namespace: &Namespace,
        stored: &mut Stored,
        next: MergeQueue,
        certificates: &[Certificate],
    ) -> Result<bool, EngineError> {
        next.validate_after(&stored.queue)?;
        let key = queue_key(namespace, &next.id);
        for notice in next.outbox.iter().filter(|notice| !stored.queue.outbox.contains(notice)) {
            let Some(detail) = detail_of(notice, certificates) else { continue };
            let entry_key = entry_key(namespace, &next.id, detail.entry.id);
            let written = self.store.get_document(&entry_key).await?;
            // Whoever stores the queue tells of the entry and writes it for good. Looked at in this order, a
            // process that comes too late cannot write over that.
            let now = self.store.get_document(&key).await?;
            if now.is_none_or(|now| now.version != stored.version) {
                return Ok(false);
            }
            let expect = written.map_or(Expect::Absent, |written| Expect::Version(written.version));
            self.put(&entry_key, &detail, expect).await?;
        }
        match self.put(&key, &next, Expect::Version(stored.version)).await? {
            Some(version) => {
                *stored = Stored { queue: next, version };
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Saves a queue whose invariants are broken already, to pause it.
    pub(super) async fn save_unchecked(
        &self,
        namespace: &Namespace,
        version: Version,
        next: &MergeQueue,
    ) -> Result<(), EngineError> {
        self.put(&queue_key(namespace, &next.id), next, Expect::Version(version)).await.map(drop)
    }

    /// An entry, in the queue or not.
    pub async fn entry(
        &self,
        namespace: &Namespace,
        queue: &QueueId,
        id: EntryId,
    ) -> Result<Option<EntryDetail>, EngineError> {
        let found = self.store.get_document(&entry_key(namespace, queue, id)).await?;
        found.as_ref().map(decode).transpose()
    }

    /// The entries of a queue that came last, the oldest of them first. Those that cannot be read are left
    /// out and logged.
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

    /// A link of a queue's chain, `None` if it is not there.
    pub async fn link(
        &self,
        namespace: &Namespace,
        queue: &QueueId,
        id: &LinkId,
    ) -> Result<Option<SignedLink>, EngineError> {
        let found = self.store.get_document(&link_key(namespace, queue, id)).await?;
        found.as_ref().map(decode).transpose()
    }

    /// Writes a link. Its name has its hash: two nodes that write it write the same.
    pub(super) async fn put_link(
        &self,
        namespace: &Namespace,
        queue: &QueueId,
        id: &LinkId,
        link: &SignedLink,
    ) -> Result<(), EngineError> {
        self.put(&link_key(namespace, queue, id), link, Expect::Anything).await.map(drop)
    }

    /// Writes what is kept of an entry that left.
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

fn decode<T: DeserializeOwned>(document: &Document) -> Result<T, EngineError> {
    serde_json::from_slice(&document.body).map_err(|error| EngineError::Unreadable {
        what: format!("{} `{}`", document.key.kind, document.key.id),
        problem: error.to_string(),
    })
}

/// Leaves out of a list what cannot be read, so that one damaged document does not hide all others.
fn readable<T>(read: Result<T, EngineError>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "left out of a list of the merge queue")).ok()
}

fn detail_of(notice: &Notice, certificates: &[Certificate]) -> Option<EntryDetail> {
    match notice {
        Notice::Added { entry, .. } => {
            Some(EntryDetail { entry: (**entry).clone(), departure: None, certificate: None })
        }
        // Written again when it is told: which link is the queue's is known only after the queue is written.
        Notice::Left { entry, departure, .. } => Some(EntryDetail {
            entry: (**entry).clone(),
            departure: Some(departure.clone()),
            certificate: certificates.iter().find(|certificate| certificate.entry == entry.id).cloned(),
        }),
        Notice::Foreign { .. } | Notice::Paused { .. } | Notice::Trouble { .. } => None,
    }
}
