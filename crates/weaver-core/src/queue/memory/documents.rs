//! Documents in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Result;
use crate::id::Version;
use crate::limits::check_page;
use crate::name::Namespace;
use crate::ports::{
    Cursor, Document, DocumentKey, DocumentWrite, Documents, Expect, Page, check_document,
    check_document_writes,
};
use crate::queue::memory::InMemoryQueue;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(super) struct DocumentsState {
    documents: BTreeMap<DocumentKey, Document>,
    due: BTreeSet<(String, Timestamp, DocumentKey)>,
    /// One counter for all: a document that is deleted and written again never repeats a version.
    last_version: u64,
}

impl DocumentsState {
    pub(super) fn version(&self, key: &DocumentKey) -> Option<Version> {
        self.documents.get(key).map(|document| document.version)
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.documents.keys().map(|key| &key.namespace)
    }

    fn check(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        let found = self.version(key);
        if expect.is_met(found) {
            return Ok(());
        }
        Err(expect.conflict(format!("document {}/{}/{}", key.namespace, key.kind, key.id), found))
    }

    fn put(
        &mut self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
        updated_at: Timestamp,
    ) -> Result<Version> {
        self.check(key, expect)?;
        self.remove(key);
        self.last_version += 1;
        let version = Version(self.last_version);
        if let Some(due) = due {
            self.due.insert((key.kind.clone(), due, key.clone()));
        }
        let document = Document { key: key.clone(), body, version, due, updated_at };
        self.documents.insert(key.clone(), document);
        Ok(version)
    }

    fn delete(&mut self, key: &DocumentKey, expect: Expect) -> Result<()> {
        self.check(key, expect)?;
        self.remove(key);
        Ok(())
    }

    fn remove(&mut self, key: &DocumentKey) {
        if let Some(Document { key, due: Some(due), .. }) = self.documents.remove(key) {
            self.due.remove(&(key.kind.clone(), due, key));
        }
    }
}

#[async_trait]
impl Documents for InMemoryQueue {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        Ok(self.documents.lock().documents.get(key).cloned())
    }

    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        check_document(key, &body)?;
        let updated_at = self.clock.now().steady;
        self.documents.lock().put(key, body, expect, due, updated_at)
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        self.documents.lock().delete(key, expect)
    }

    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        check_document_writes(&writes)?;
        let updated_at = self.clock.now().steady;
        let mut state = self.documents.lock();
        let write = |DocumentWrite { key, body, expect, due }| match body {
            Some(body) => state.put(&key, body, expect, due, updated_at).map(Some),
            None => state.delete(&key, expect).map(|()| None),
        };
        Ok(writes.into_iter().map(write).collect())
    }

    async fn list_documents(
        &self,
        namespace: &Namespace,
        kind: &str,
        prefix: &str,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Document>> {
        check_page(limit)?;
        let start = match cursor {
            Some(Cursor(id)) => Bound::Excluded(DocumentKey::new(namespace.clone(), kind, id)),
            None => Bound::Included(DocumentKey::new(namespace.clone(), kind, prefix)),
        };
        let state = self.documents.lock();
        let documents = state.documents.range((start, Bound::Unbounded)).map(|(_, document)| document);
        let mut documents = documents.take_while(|document| {
            let key = &document.key;
            key.namespace == *namespace && key.kind == kind && key.id.starts_with(prefix)
        });
        let items: Vec<_> = documents.by_ref().take(limit as usize).cloned().collect();
        let next = documents.next().and(items.last()).map(|last| Cursor(last.key.id.clone()));
        Ok(Page { items, next, complete: true })
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        check_page(limit)?;
        let state = self.documents.lock();
        // No key sorts before one of empty texts; no name can be empty, so a space stands for it.
        let first = DocumentKey::new(Namespace::new(" ")?, "", "");
        let due = state.due.range((kind.to_owned(), Timestamp::MIN, first)..);
        let due = due.take_while(|(of_kind, at, _)| of_kind == kind && *at <= before).take(limit as usize);
        Ok(due.filter_map(|(_, _, key)| state.documents.get(key).cloned()).collect())
    }
}
