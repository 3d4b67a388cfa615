//! Schedules and events that this node cannot decode. It skips them and writes nothing: a node of a newer
//! version may be able to read them.

use std::collections::HashMap;

use parking_lot::Mutex;
use weaver_core::id::Version;
use weaver_core::limits::PAGE_MAX;
use weaver_core::ports::{Document, DocumentKey};
use weaver_core::time::Timestamp;

use crate::error::{Result, SchedulerError};
use crate::service::Scheduler;

/// The most documents a node remembers as unreadable. Beyond that it forgets them all and logs them again.
const UNREADABLE_MAX: usize = 10_000;

/// Unreadable documents with their versions: a document is tried again after a new write.
#[derive(Debug, Default)]
pub(crate) struct UnreadableDocuments(Mutex<HashMap<DocumentKey, Version>>);

impl UnreadableDocuments {
    fn count(&self, kind: &str) -> usize {
        self.0.lock().keys().filter(|key| key.kind == kind).count()
    }

    fn contains(&self, document: &Document) -> bool {
        self.0.lock().get(&document.key) == Some(&document.version)
    }

    /// Returns whether it is new.
    fn insert(&self, document: &Document) -> bool {
        let mut known = self.0.lock();
        if known.len() >= UNREADABLE_MAX {
            known.clear();
        }
        known.insert(document.key.clone(), document.version) != Some(document.version)
    }
}

impl Scheduler {
    /// Due documents except those known to be unreadable, which do not count towards the limit.
    pub(super) async fn due_readable(
        &self,
        kind: &str,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<Document>> {
        let unreadable = u32::try_from(self.unreadable.count(kind)).unwrap_or(u32::MAX);
        let asked = limit.saturating_add(unreadable).min(PAGE_MAX.max(limit));
        let mut documents = self.store.due_documents(kind, before, asked).await?;
        documents.retain(|document| !self.unreadable.contains(document));
        documents.truncate(limit as usize);
        Ok(documents)
    }

    /// Remembers an unreadable document, and logs it once.
    pub(super) fn skip_unreadable(&self, document: &Document, error: &SchedulerError) {
        if self.unreadable.insert(document) {
            tracing::error!(%error, "unreadable document skipped until it is written again");
        }
    }
}
