//! The port `Documents`.

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::limits::check_page;
use weaver_core::name::Namespace;
use weaver_core::ports::{
    Cursor, Document, DocumentKey, DocumentWrite, Documents, Expect, Page, check_document,
    check_document_writes,
};
use weaver_core::time::Timestamp;

use crate::EmbeddedStore;
use crate::codec::decode_document;
use crate::keys;
use crate::rows;
use crate::unreadable::decode;
use crate::work::{document, document_finding};

#[async_trait]
impl Documents for EmbeddedStore {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        let read = self.read(|table| {
            let Some(number) = rows::namespace_number(table, &key.namespace)? else { return Ok(None) };
            let row = keys::document(number, key);
            if let Some(value) = table.get(row.as_slice())?
                && let Err(why) = decode(&row, value.value(), decode_document)
            {
                self.shared.quarantine.add(document_finding(key, why, self.clock.now()));
            }
            let stored = rows::read(table, &row, decode_document)?;
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
        check_document(key, &body)?;
        let key = key.clone();
        self.write(move |work| work.put_document(&key, body, expect, due)).await
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        let key = key.clone();
        self.write(move |work| work.remove_document(&key, expect)).await
    }

    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        check_document_writes(&writes)?;
        self.write(move |work| work.write_documents(writes)).await
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
            let Some(number) = rows::namespace_number(table, namespace)? else { return Ok(None) };
            let of_kind = keys::documents(number, kind);
            let page = rows::page_by_name(table, &of_kind, prefix, cursor.as_ref(), limit, |id, value| {
                let key = DocumentKey::new(namespace.clone(), kind, id);
                match decode(&keys::document(number, &key), value, decode_document) {
                    Ok(stored) => Some(document(key, stored)),
                    Err(why) => {
                        self.shared.quarantine.add(document_finding(&key, why, self.clock.now()));
                        None
                    }
                }
            });
            page.map(Some)
        });
        Ok(read.await?.unwrap_or(Page { items: Vec::new(), next: None, complete: true }))
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        check_page(limit)?;
        let kind = kind.to_owned();
        self.read_memory(move |work| work.due_documents(&kind, before, limit as usize)).await
    }
}
