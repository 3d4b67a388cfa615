//! The port `Documents`.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::id::Version;
use weaver_core::limits::check_page;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, DOCUMENT_MAX_BYTES, Document, DocumentKey, Documents, Expect, Page};
use weaver_core::time::Timestamp;

use crate::EmbeddedStore;
use crate::codec::decode_document;
use crate::keys;
use crate::rows;
use crate::trouble::{OfRow, Trouble};
use crate::work::document;

#[async_trait]
impl Documents for EmbeddedStore {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        let read = self.read(|table| {
            let Some(number) = rows::namespace_number(table, &key.namespace)? else { return Ok(None) };
            let stored = rows::read(table, &keys::document(number, key), decode_document)?;
            Ok(stored.map(|stored| document(key.clone(), stored)))
        });
        read.await
    }

    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        key.validate()?;
        if body.len() > DOCUMENT_MAX_BYTES {
            let problem = Problem::TooLong { bytes: body.len(), max_bytes: DOCUMENT_MAX_BYTES };
            return Err(Invalid::new("body", problem).into());
        }
        let key = key.clone();
        self.write(move |work| work.put_document(&key, body, expect, due)).await
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        let key = key.clone();
        self.write(move |work| work.remove_document(&key, expect)).await
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
        let read = self.read(|table| {
            let mut items = Vec::new();
            let Some(number) = rows::namespace_number(table, namespace)? else {
                return Ok(Page { items, next: None, complete: true });
            };
            let of_kind = keys::documents(number, kind);
            let begin = [&of_kind[..], prefix.as_bytes()].concat();
            let from = match &cursor {
                Some(Cursor(id)) => Bound::Excluded([&of_kind[..], id.as_bytes()].concat()),
                None => Bound::Unbounded,
            };
            for row in rows::scan(table, &begin, from, Bound::Unbounded)? {
                let (key, value) = row?;
                if items.len() == limit as usize {
                    let next = items.last().map(|last: &Document| Cursor(last.key.id.clone()));
                    return Ok(Page { items, next, complete: true });
                }
                let id = std::str::from_utf8(&key.value()[of_kind.len()..]);
                let id = id.map_err(|_| Trouble::damaged(key.value(), "its id is not text"))?;
                let stored =
                    decode_document(rows::body_of(key.value(), value.value())?).of_row(key.value())?;
                items.push(document(DocumentKey::new(namespace.clone(), kind, id), stored));
            }
            Ok(Page { items, next: None, complete: true })
        });
        read.await
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        check_page(limit)?;
        let kind = kind.to_owned();
        self.consult(move |work| work.due_documents(&kind, before, limit as usize)).await
    }
}
