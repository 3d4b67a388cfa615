//! The port `Documents`. A deleted document stays as a tombstone, so that its versions keep growing.

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::limits::check_page;
use weaver_core::name::Namespace;
use weaver_core::ports::{
    Cursor, Document, DocumentKey, DocumentWrite, Documents, Expect, Page, check_document,
    check_document_writes,
};
use weaver_core::quarantine::{RecordKind, Unreadable};
use weaver_core::time::Timestamp;

use crate::codec::damaged;
use crate::codec::texts::{bytes_attribute, bytes_of};
use crate::codec::value::{Attributes, n, us};
use crate::db::{Item, Query, Range, Table, Write, Written};
use crate::keys;
use crate::ports::CONCURRENCY_MAX;
use crate::ports::overdue::{data_key, is_old};
use crate::records::too_contended;
use crate::store::DynamoStore;
use crate::unreadable::check_format;

/// Maximum number of attempts of a contended write.
const TRIES_MAX: usize = 20;

#[async_trait]
impl Documents for DynamoStore {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        if key.validate().is_err() {
            return Ok(None);
        }
        let found = self.db.get(Table::Data, vec![keys::document(key)]).await?;
        let read = found.first().and_then(|item| read_document(key.clone(), item));
        read.transpose().map_err(|why| {
            self.document_set_aside(key, why.clone());
            damaged(format!("{}: {why}; it", shown(key)))
        })
    }

    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        check_document(key, &body)?;
        self.put_once(keys::NAMESPACES.to_owned(), key.namespace.as_str()).await?;
        if let Some(due) = due {
            let mut entry = keys::due_entry(due, key);
            entry.insert("put_at_us".to_owned(), us(self.now()));
            let _ = self.db.write(Write::put(Table::Data, entry)).await?;
        }
        let set = "SET version = if_not_exists(version, :zero) + :one, body = :body, updated_at_us = :now, \
             due_was_us = if_not_exists(due_at_us, :none)";
        let expression = match due {
            Some(_) => format!("{set}, due_at_us = :due REMOVE deleted, #format"),
            None => format!("{set} REMOVE deleted, #format, due_at_us"),
        };
        let mut write = Write::update(Table::Data, keys::document(key), expression)
            .name("#format", "format")
            .value(":zero", n(0))
            .value(":one", n(1))
            .value(":none", n(-1))
            .value(":body", bytes_attribute(&body))
            .value(":now", us(self.now()));
        if let Some(due) = due {
            write = write.value(":due", us(due));
        }
        let item = self.write_document(key, write, expect).await?;
        self.drop_due_entry(key, &item, due).await;
        Ok(Version(item.number("version").unwrap_or_default()))
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        if key.validate().is_err() {
            return if expect == Expect::Anything { Ok(()) } else { Err(expect.conflict(shown(key), None)) };
        }
        if expect == Expect::Absent {
            let found = self.version_of(key).await?;
            return match found {
                None => Ok(()),
                found => Err(expect.conflict(shown(key), found)),
            };
        }
        let expression = "SET deleted = :true, version = version + :one, \
             due_was_us = if_not_exists(due_at_us, :none) REMOVE body, due_at_us";
        let write = Write::update(Table::Data, keys::document(key), expression)
            .when("attribute_exists(pk) AND attribute_not_exists(deleted)")
            .value(":true", AttributeValue::Bool(true))
            .value(":one", n(1))
            .value(":none", n(-1));
        if expect == Expect::Anything && self.version_of(key).await?.is_none() {
            return Ok(());
        }
        match self.write_document(key, write, expect).await {
            Ok(item) => {
                self.drop_due_entry(key, &item, None).await;
                Ok(())
            }
            Err(error) if expect == Expect::Anything => match self.version_of(key).await? {
                None => Ok(()),
                Some(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        check_document_writes(&writes)?;
        let write = |DocumentWrite { key, body, expect, due }| async move {
            match body {
                Some(body) => self.put_document(&key, body, expect, due).await.map(Some),
                None => self.delete_document(&key, expect).await.map(|()| None),
            }
        };
        // Independent writes: a transaction would fail as a whole on one conflict, and is limited to ten.
        Ok(stream::iter(writes).map(write).buffered(CONCURRENCY_MAX).collect().await)
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
        let mut page = Page { items: Vec::new(), next: None, complete: true };
        let mut position = cursor.map(|Cursor(text)| text);
        loop {
            let range = match (&position, prefix) {
                (Some(after), _) => Range::After(after.clone()),
                (None, "") => Range::All,
                (None, prefix) => Range::BeginsWith(prefix.to_owned()),
            };
            let query = Query::table(Table::Data, keys::documents(namespace, kind)).range(range).limit(limit);
            let found = self.db.query(query).await?;
            let last = found.next.is_none();
            for item in found.items {
                let id = item.text("sk").unwrap_or_default().to_owned();
                if !id.starts_with(prefix) {
                    return Ok(page);
                }
                let key = DocumentKey::new(namespace.clone(), kind, id.as_str());
                if let Some(document) = self.document_or_aside(&key, &item) {
                    if page.items.len() == limit as usize {
                        page.next = page.items.last().map(|last| Cursor(last.key.id.clone()));
                        return Ok(page);
                    }
                    page.items.push(document);
                }
                position = Some(id);
            }
            if last {
                return Ok(page);
            }
        }
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        check_page(limit)?;
        let next = before.saturating_add(std::time::Duration::from_micros(1));
        let query = Query::table(Table::Data, keys::due(kind)).range(Range::Before(next.to_string()));
        let (mut due, mut start): (Vec<Document>, _) = (Vec::new(), None);
        loop {
            let found = self.db.query(query.clone().limit(100).after(start)).await?;
            let entries = found.items.iter().filter_map(|item| Some((due_of(kind, item)?, item)));
            let entries: Vec<((Timestamp, DocumentKey), &Item)> = entries.collect();
            let wanted: Vec<Item> = entries.iter().map(|((_, key), _)| keys::document(key)).collect();
            let mut dangling = Vec::new();
            let documents = self.documents_of(wanted).await?;
            for ((at, key), entry) in entries {
                match documents.iter().find(|document| document.key == key && document.due == Some(at)) {
                    Some(document) if due.len() < limit as usize => due.push(document.clone()),
                    Some(_) => return Ok(due),
                    None if is_old(entry, self.now()) && !self.is_document_quarantined(&key) => {
                        dangling.push(data_key(entry));
                    }
                    None => {}
                }
            }
            self.db.remove(Table::Data, dangling).await?;
            match found.next {
                Some(next) if due.len() < limit as usize => start = Some(next),
                _ => return Ok(due),
            }
        }
    }
}

impl DynamoStore {
    /// Decodes a document; an unreadable one is quarantined.
    fn document_or_aside(&self, key: &DocumentKey, item: &Item) -> Option<Document> {
        match read_document(key.clone(), item)? {
            Ok(document) => Some(document),
            Err(why) => {
                self.document_set_aside(key, why);
                None
            }
        }
    }

    fn is_document_quarantined(&self, key: &DocumentKey) -> bool {
        let id = format!("{}/{}", key.kind, key.id);
        self.quarantine.get(&key.namespace, RecordKind::Document, &id).is_some()
    }

    async fn version_of(&self, key: &DocumentKey) -> Result<Option<Version>> {
        let found = self.db.get(Table::Data, vec![keys::document(key)]).await?;
        let live = found.first().filter(|item| !item.flag("deleted"));
        Ok(live.and_then(|item| item.number("version")).map(Version))
    }

    async fn documents_of(&self, mut wanted: Vec<Item>) -> Result<Vec<Document>> {
        wanted.sort_by_key(|key| (key.text("pk").map(str::to_owned), key.text("sk").map(str::to_owned)));
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let items = self.db.get(Table::Data, wanted).await?;
        let read = |item: &Item| {
            let parts = keys::split(item.text("pk")?);
            let [_, namespace, kind] = parts.as_slice() else { return None };
            let namespace = Namespace::try_from(*namespace).ok()?;
            self.document_or_aside(&DocumentKey::new(namespace, *kind, item.text("sk")?), item)
        };
        Ok(items.iter().filter_map(read).collect())
    }

    async fn write_document(&self, key: &DocumentKey, write: Write, expect: Expect) -> Result<Item> {
        let write = match expect {
            Expect::Anything => write,
            Expect::Absent => write.when("attribute_not_exists(pk) OR attribute_exists(deleted)"),
            Expect::Version(version) => write
                .when("version = :expected AND attribute_not_exists(deleted)")
                .value(":expected", n(version.0)),
        };
        for _ in 0..TRIES_MAX {
            match self.db.write(write.clone()).await? {
                Written::Applied(item) => return Ok(item),
                Written::ConditionFailed => {
                    return Err(expect.conflict(shown(key), self.version_of(key).await?));
                }
                Written::Conflict => crate::db::backoff(1).await,
            }
        }
        Err(too_contended(&shown(key)))
    }

    /// Removes the entry of the document's previous due time.
    async fn drop_due_entry(&self, key: &DocumentKey, item: &Item, due: Option<Timestamp>) {
        let was = item.instant("due_was_us").filter(|_| item.number("due_was_us").is_some());
        if let Some(was) = was.filter(|was| Some(*was) != due) {
            self.write_best_effort(Write::delete(Table::Data, keys::due_entry(was, key))).await;
        }
    }
}

fn shown(key: &DocumentKey) -> String {
    format!("document {}/{}/{}", key.namespace, key.kind, key.id)
}

/// Decodes a document's item; `None` if it was deleted.
pub(crate) fn read_document(key: DocumentKey, item: &Item) -> Option<Result<Document, Unreadable>> {
    if item.flag("deleted") {
        return None;
    }
    let document = || {
        Some(Document {
            key,
            body: bytes_of(item, "body")?,
            version: Version(item.number("version")?),
            due: item.instant("due_at_us"),
            updated_at: item.instant("updated_at_us").unwrap_or_default(),
        })
    };
    let undecodable = || Unreadable::Undecodable { reason: "its attribute `body` or `version`".to_owned() };
    Some(check_format(item).and_then(|()| document().ok_or_else(undecodable)))
}

fn due_of(kind: &str, item: &Item) -> Option<(Timestamp, DocumentKey)> {
    let parts = keys::split(item.text("sk")?);
    let [at, namespace, id] = parts.as_slice() else { return None };
    Some((at.parse().ok()?, DocumentKey::new(Namespace::try_from(*namespace).ok()?, kind, *id)))
}
