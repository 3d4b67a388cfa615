//! A schedule that is being processed: what was read, what is decided, and its conditional write.

use weaver_core::error::Error as StoreError;
use weaver_core::id::{TaskKey, Version};
use weaver_core::ports::{DOCUMENT_WRITES_MAX, Document, DocumentKey, DocumentWrite, Expect};

use crate::definition::Stored;
use crate::error::Result;
use crate::service::Scheduler;

/// A schedule and the document version it was read at.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) key: DocumentKey,
    pub(crate) version: Version,
    pub(crate) stored: Stored,
}

impl Work {
    pub(crate) fn open(document: &Document) -> Result<Self> {
        let stored = Stored::read(document)?.pin_version(document);
        Ok(Self { key: document.key.clone(), version: document.version, stored })
    }

    pub(crate) fn name(&self) -> &str {
        &self.key.id
    }

    /// The keys of its latest runs.
    pub(crate) fn run_keys(&self) -> impl Iterator<Item = TaskKey> {
        self.stored.state.runs.iter().map(|run| TaskKey::new(self.key.namespace.clone(), *run))
    }
}

impl Scheduler {
    /// Conditional write of each schedule on the version that was read. Returns those that were written, with
    /// their new version, and those that conflicted with another writer.
    pub(crate) async fn save(&self, works: Vec<Work>) -> Result<(Vec<Work>, Vec<Work>)> {
        let now = self.clock.now();
        let write = |work: &Work| {
            let (body, due) = (work.stored.body()?, work.stored.due(now));
            Ok(DocumentWrite::put(work.key.clone(), body, Expect::Version(work.version), due))
        };
        let writes = works.iter().map(write).collect::<Result<Vec<_>>>()?;
        let answers = self.write_all(writes).await?;
        let (mut won, mut lost) = (Vec::new(), Vec::new());
        for (mut work, answer) in works.into_iter().zip(answers) {
            match answer {
                Ok(version) => {
                    work.version = version.unwrap_or_default();
                    won.push(work);
                }
                Err(StoreError::Conflict { .. }) => lost.push(work),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((won, lost))
    }

    /// Writes documents in batches of [`DOCUMENT_WRITES_MAX`].
    pub(crate) async fn write_all(
        &self,
        mut writes: Vec<DocumentWrite>,
    ) -> Result<Vec<Result<Option<Version>, StoreError>>> {
        let mut answers = Vec::with_capacity(writes.len());
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(DOCUMENT_WRITES_MAX));
            answers.extend(self.store.write_documents(writes).await?);
            writes = rest;
        }
        Ok(answers)
    }
}
