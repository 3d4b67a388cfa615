//! Documents: conditional writes by version.

use bytes::Bytes;
use redb::ReadableTable;
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::ports::{Document, DocumentKey, DocumentWrite, Expect};
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};
use weaver_core::time::Timestamp;

use crate::codec::{StoredDocument, decode_document, encode_document};
use crate::fault::{StoreFault, StoreResult};
use crate::keys;
use crate::rows;
use crate::unreadable::decode;
use crate::work::Work;

impl Work<'_> {
    pub(super) fn document_version(&self, key: &DocumentKey) -> StoreResult<Option<Version>> {
        Ok(self.stored_document(key)?.and_then(Result::ok).map(|stored| stored.version))
    }

    pub(crate) fn put_document(
        &mut self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> StoreResult<Version> {
        self.remove_document(key, expect)?;
        let number = self.number_or_new(&key.namespace)?;
        self.memory.counters.last_document_version += 1;
        let version = Version(self.memory.counters.last_document_version);
        // The clock's current time, not the batch's: nothing is scheduled by a document's timestamp.
        let stored = StoredDocument { version, due, updated_at: self.clock.now().steady, body: Some(body) };
        self.put(&keys::document(number, key), |writer| encode_document(writer, &stored))?;
        if let Some(due) = due {
            self.put_mark(&keys::document_due(number, key, due))?;
        }
        Ok(version)
    }

    /// Independent conditional writes: one that fails has written nothing, and the others go on.
    pub(crate) fn write_documents(
        &mut self,
        writes: Vec<DocumentWrite>,
    ) -> StoreResult<Vec<Result<Option<Version>>>> {
        let mut answers = Vec::with_capacity(writes.len());
        for DocumentWrite { key, body, expect, due } in writes {
            let answer = match body {
                Some(body) => self.put_document(&key, body, expect, due).map(Some),
                None => self.remove_document(&key, expect).map(|()| None),
            };
            answers.push(match answer {
                Ok(version) => Ok(version),
                Err(StoreFault::Refused(error)) => Err(error),
                Err(broken) => return Err(broken),
            });
        }
        Ok(answers)
    }

    /// Removes a document, if its version is what the caller expects.
    pub(crate) fn remove_document(&mut self, key: &DocumentKey, expect: Expect) -> StoreResult<()> {
        let stored = self.stored_document(key)?;
        // An unreadable document exists, at a version that no caller can expect.
        let version = |stored: &Result<StoredDocument, _>| {
            stored.as_ref().map_or(Version(u64::MAX), |stored| stored.version)
        };
        let found = stored.as_ref().map(version);
        if !expect.is_met(found) {
            let what = format!("document {}/{}/{}", key.namespace, key.kind, key.id);
            return Err(expect.conflict(what, found).into());
        }
        let (Some(stored), Some(number)) = (stored, self.memory.names.number(&key.namespace)) else {
            return Ok(());
        };
        let marks = match stored {
            Ok(stored) => stored.due.map(|due| keys::document_due(number, key, due)).into_iter().collect(),
            Err(_) => {
                self.memory.quarantine.remove(&key.namespace, RecordKind::Document, &shown(key));
                self.due_marks(number, key)?
            }
        };
        self.delete(&keys::document(number, key))?;
        for mark in marks {
            self.delete(&mark)?;
        }
        Ok(())
    }

    /// The documents of a kind that are due, the most overdue first.
    pub(crate) fn due_documents(
        &self,
        kind: &str,
        before: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Document>> {
        let mut items = Vec::new();
        for row in rows::scan_all(&self.table, &keys::due_of_kind(kind))? {
            let (key, _) = row?;
            let Some((due, number, id)) = keys::split_document_due(kind, key.value()) else { continue };
            if due > before {
                break;
            }
            let Some(namespace) = self.memory.names.name(number) else { continue };
            let wanted = DocumentKey::new(namespace.clone(), kind, id);
            let row = keys::document(number, &wanted);
            let Some(value) = self.table.get(row.as_slice())? else { continue };
            match decode(&row, value.value(), decode_document) {
                Ok(stored) => items.push(document(wanted, stored)),
                Err(why) => self.memory.quarantine.add(finding(&wanted, why, self.now())),
            }
            if items.len() == limit {
                break;
            }
        }
        Ok(items)
    }

    fn stored_document(&self, key: &DocumentKey) -> StoreResult<Option<Result<StoredDocument, Unreadable>>> {
        let Some(number) = self.memory.names.number(&key.namespace) else { return Ok(None) };
        let row = keys::document(number, key);
        let Some(value) = self.table.get(row.as_slice())? else { return Ok(None) };
        Ok(Some(decode(&row, value.value(), decode_document)))
    }

    /// All due rows of a document, by a scan: an unreadable document does not say its due time.
    fn due_marks(&self, number: u32, key: &DocumentKey) -> StoreResult<Vec<Vec<u8>>> {
        let mut marks = Vec::new();
        for row in rows::scan_all(&self.table, &keys::due_of_kind(&key.kind))? {
            let (mark, _) = row?;
            let split = keys::split_document_due(&key.kind, mark.value());
            if split.is_some_and(|(_, of, id)| of == number && id == key.id) {
                marks.push(mark.value().to_vec());
            }
        }
        Ok(marks)
    }
}

/// A document's id in the quarantine list.
fn shown(key: &DocumentKey) -> String {
    format!("{}/{}", key.kind, key.id)
}

/// The quarantine entry of an unreadable document.
pub(crate) fn finding(key: &DocumentKey, why: Unreadable, found_at: Timestamp) -> Quarantined {
    Quarantined::new(RecordKind::Document, key.namespace.clone(), shown(key), why, found_at)
}

/// The port's document from a stored one.
pub(crate) fn document(key: DocumentKey, stored: StoredDocument) -> Document {
    let StoredDocument { version, due, updated_at, body } = stored;
    Document { key, body: body.unwrap_or_default(), version, due, updated_at }
}
