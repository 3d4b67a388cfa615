//! Definitions and events that this node cannot read. It passes over them and writes nothing: a node of a
//! newer version reads them, and what is written here would bind it too.

use std::collections::HashMap;

use parking_lot::Mutex;
use weaver_core::id::Version;
use weaver_core::limits::PAGE_MAX;
use weaver_core::ports::{Document, DocumentKey};
use weaver_core::time::Timestamp;

use crate::error::{Result, SchedulerError};
use crate::service::Scheduler;

/// The most documents a node remembers as unreadable. With more it begins anew, and logs them again.
const PASSED_OVER_MAX: usize = 10_000;

/// What a node could not read, at which version: written again, a document is looked at again.
#[derive(Debug, Default)]
pub(crate) struct PassedOver(Mutex<HashMap<DocumentKey, Version>>);

impl PassedOver {
    fn count(&self, kind: &str) -> usize {
        self.0.lock().keys().filter(|key| key.kind == kind).count()
    }

    fn contains(&self, document: &Document) -> bool {
        self.0.lock().get(&document.key) == Some(&document.version)
    }

    /// Says whether it is new.
    fn insert(&self, document: &Document) -> bool {
        let mut known = self.0.lock();
        if known.len() >= PASSED_OVER_MAX {
            known.clear();
        }
        known.insert(document.key.clone(), document.version) != Some(document.version)
    }
}

impl Scheduler {
    /// Due documents that this node can read, as far as it knows; those it cannot keep their place in front,
    /// and take none of the limit.
    pub(super) async fn due_readable(
        &self,
        kind: &str,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<Document>> {
        let unreadable = u32::try_from(self.passed_over.count(kind)).unwrap_or(u32::MAX);
        let asked = limit.saturating_add(unreadable).min(PAGE_MAX.max(limit));
        let mut documents = self.store.due_documents(kind, before, asked).await?;
        documents.retain(|document| !self.passed_over.contains(document));
        documents.truncate(limit as usize);
        Ok(documents)
    }

    /// Remembers a document that cannot be read, and logs it once.
    pub(super) fn pass_over(&self, document: &Document, error: &SchedulerError) {
        if self.passed_over.insert(document) {
            tracing::error!(%error, "passed over until it is written again");
        }
    }
}
