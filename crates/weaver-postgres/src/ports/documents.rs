//! The port `Documents`: conditional writes with optimistic concurrency. Kinds that the seed has a table for
//! have their own; all others share one.

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::limits::check_page;
use weaver_core::name::Namespace;
use weaver_core::ports::{
    Cursor, Document, DocumentKey, DocumentWrite, Documents, Expect, Page, check_document,
    check_document_writes,
};
use weaver_core::time::Timestamp;

use super::{cut, expectation};
use crate::PostgresStore;
use crate::error::StoreFault;
use crate::row::undecodable;
use crate::sql::{Statement, StatementOptions};
use crate::types::At;

/// Documents per statement: each takes an advisory lock, and the server has a few thousand for all clients.
const WRITES_AT_ONCE_MAX: usize = 500;

/// The tables that hold documents.
#[derive(Debug)]
pub(crate) struct DocumentTables {
    definitions: DocumentTable,
    events: DocumentTable,
    settings: DocumentTable,
    others: DocumentTable,
}

/// A table of documents, with the statements that read it.
#[derive(Debug)]
pub(crate) struct DocumentTable {
    name: &'static str,
    get: Statement,
    list: Statement,
    due: Statement,
    /// Reads a leader's document and locks it until its transitions are committed.
    pub(crate) leader: Statement,
    put: Statement,
    put_many: Statement,
}

impl DocumentTable {
    fn new(statement_options: StatementOptions<'_>, name: &'static str) -> Self {
        let columns = "namespace, id, version, due_at, updated_at, body";
        let statement = |text: String| Statement::new(statement_options, &text);
        Self {
            name,
            get: statement(format!(
                "SELECT {columns} FROM weaver.{name} WHERE namespace = $1 AND kind = $2 AND id = $3"
            )),
            list: statement(format!(
                "SELECT {columns} FROM weaver.{name} WHERE namespace = $1 AND kind = $2 AND id >= $3 AND id > $4 \
                 AND starts_with(id, $3) ORDER BY id LIMIT $5"
            )),
            due: statement(format!(
                "SELECT {columns} FROM weaver.{name} WHERE kind = $1 AND due_at <= $2 \
                 ORDER BY due_at, namespace, id LIMIT $3"
            )),
            leader: statement(format!(
                "SELECT version FROM weaver.{name} WHERE namespace = $1 AND kind = $2 AND id = $3 FOR SHARE"
            )),
            put: Statement::new(
                statement_options,
                "SELECT done, current FROM weaver.put_document($1, $2, $3, $4, $5, $6, $7, $8)",
            ),
            // In one order, so that two batches cannot deadlock.
            put_many: Statement::new(
                statement_options,
                "SELECT i.place, p.done, p.current
                 FROM (SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[],
                     $7::text[], $8::bigint[]) WITH ORDINALITY AS i (namespace, kind, id, body, due_at, expect, version, place)
                     ORDER BY i.namespace COLLATE \"C\", i.kind COLLATE \"C\", i.id COLLATE \"C\" OFFSET 0) i
                 CROSS JOIN LATERAL weaver.put_document($1, i.namespace, i.kind, i.id, i.body, i.due_at, i.expect, i.version) p",
            ),
        }
    }
}

impl DocumentTables {
    pub(crate) fn new(statement_options: StatementOptions<'_>) -> Self {
        Self {
            definitions: DocumentTable::new(statement_options, "job_definitions"),
            events: DocumentTable::new(statement_options, "events"),
            settings: DocumentTable::new(statement_options, "settings"),
            others: DocumentTable::new(statement_options, "documents"),
        }
    }

    /// The table of a kind.
    pub(crate) fn of(&self, kind: &str) -> &DocumentTable {
        match kind {
            "job_definition" => &self.definitions,
            "event" => &self.events,
            "setting" => &self.settings,
            _ => &self.others,
        }
    }
}

#[async_trait]
impl Documents for PostgresStore {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        let get = self
            .tables
            .of(&key.kind)
            .get
            .query()
            .bind(key.namespace.as_str())
            .bind(storable_key(&key.kind))
            .bind(storable_key(&key.id));
        let row = get.fetch_optional(&self.connections).await.map_err(StoreFault::from)?;
        Ok(row.map(|row| document(&key.kind, &row)).transpose()?)
    }

    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        check_document(key, &body)?;
        Ok(self.retry_transient(|| self.put(key, Some(&body), expect, due)).await?)
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        self.retry_transient(|| self.put(key, None, expect, None)).await?;
        Ok(())
    }

    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        check_document_writes(&writes)?;
        let mut answers: Vec<Option<Result<Option<Version>>>> = Vec::new();
        answers.resize_with(writes.len(), || None);
        let mut by_table: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, write) in writes.iter().enumerate() {
            by_table.entry(self.tables.of(&write.key.kind).name).or_default().push(index);
        }
        for indexes in by_table.into_values() {
            for members in indexes.chunks(WRITES_AT_ONCE_MAX) {
                let found = self.retry_transient(|| self.put_many(&writes, members)).await?;
                for (index, answer) in found {
                    answers[index] = Some(answer);
                }
            }
        }
        let missing = || StoreFault::unreadable("put_document returned no row for a document of the batch");
        answers.into_iter().map(|answer| Ok(answer.ok_or_else(missing)?)).collect()
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
        let rows = self
            .tables
            .of(kind)
            .list
            .query()
            .bind(namespace.as_str())
            .bind(storable_key(kind))
            .bind(storable_key(prefix))
            .bind(cursor.map(|cursor| storable_key(&cursor.0)).unwrap_or_default())
            .bind(i64::from(limit) + 1)
            .fetch_all(&self.connections)
            .await
            .map_err(StoreFault::from)?;
        let mut items = readable(kind, &rows);
        let next = cut(&mut items, limit, |document| document.key.id.clone());
        Ok(Page { items, next, complete: true })
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        check_page(limit)?;
        let rows = self
            .tables
            .of(kind)
            .due
            .query()
            .bind(storable_key(kind))
            .bind(At(before))
            .bind(i64::from(limit))
            .fetch_all(&self.connections)
            .await
            .map_err(StoreFault::from)?;
        Ok(readable(kind, &rows))
    }
}

impl PostgresStore {
    async fn put(
        &self,
        key: &DocumentKey,
        body: Option<&Bytes>,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version, StoreFault> {
        let table = self.tables.of(&key.kind);
        let (word, version) = expectation(expect);
        let row = table
            .put
            .query()
            .bind(table.name)
            .bind(key.namespace.as_str())
            .bind(storable_key(&key.kind))
            .bind(storable_key(&key.id))
            .bind(body.map(|body| body.as_ref()))
            .bind(due.map(At))
            .bind(word)
            .bind(version)
            .fetch_one(&self.connections)
            .await?;
        let found = row.try_get::<Option<i64>, _>(1)?.map(|found| Version(found.unsigned_abs()));
        if row.try_get(0)? {
            return Ok(found.unwrap_or_default());
        }
        Err(expect.conflict(shown(key), found).into())
    }
}

/// The answers of a batch, by index.
type Answers = Vec<(usize, Result<Option<Version>>)>;

impl PostgresStore {
    /// Writes the members of a batch that go to one table, in one statement.
    async fn put_many(&self, writes: &[DocumentWrite], members: &[usize]) -> Result<Answers, StoreFault> {
        let Some(first) = members.first() else { return Ok(Vec::new()) };
        let table = self.tables.of(&writes[*first].key.kind);
        let of = || members.iter().map(|index| &writes[*index]);
        let rows = table
            .put_many
            .query()
            .bind(table.name)
            .bind(of().map(|write| write.key.namespace.as_str()).collect::<Vec<_>>())
            .bind(of().map(|write| storable_key(&write.key.kind)).collect::<Vec<_>>())
            .bind(of().map(|write| storable_key(&write.key.id)).collect::<Vec<_>>())
            .bind(of().map(|write| write.body.as_deref()).collect::<Vec<_>>())
            .bind(of().map(|write| write.due.map(At)).collect::<Vec<_>>())
            .bind(of().map(|write| expectation(write.expect).0).collect::<Vec<_>>())
            .bind(of().map(|write| expectation(write.expect).1).collect::<Vec<_>>())
            .fetch_all(&self.connections)
            .await?;
        let answer = |row: &PgRow| {
            let place = usize::try_from(row.try_get::<i64, _>(0)? - 1).map_err(StoreFault::unreadable)?;
            let index = *members
                .get(place)
                .ok_or_else(|| StoreFault::unreadable("put_document returned an index beyond the batch"))?;
            let found = row.try_get::<Option<i64>, _>(2)?.map(|found| Version(found.unsigned_abs()));
            let write = &writes[index];
            if row.try_get(1)? {
                return Ok((index, Ok(found.filter(|_| write.body.is_some()))));
            }
            Ok((index, Err(write.expect.conflict(shown(&write.key), found))))
        };
        rows.iter().map(answer).collect()
    }
}

fn shown(key: &DocumentKey) -> String {
    format!("document {}/{}/{}", key.namespace, key.kind, key.id)
}

/// The documents of an answer. A body is any bytes: only a row with an invalid namespace cannot be read, and
/// it is skipped.
fn readable(kind: &str, rows: &[PgRow]) -> Vec<Document> {
    let read = |row: &PgRow| match document(kind, row) {
        Ok(document) => Some(document),
        Err(fault) => {
            let reason = undecodable(fault);
            tracing::error!(kind, %reason, "unreadable document skipped; `weaver store check` names it");
            None
        }
    };
    rows.iter().filter_map(read).collect()
}

fn document(kind: &str, row: &PgRow) -> Result<Document, StoreFault> {
    let namespace = Namespace::new(row.try_get::<String, _>(0)?).map_err(StoreFault::unreadable)?;
    Ok(Document {
        key: DocumentKey::new(namespace, kind, row.try_get::<String, _>(1)?),
        body: Bytes::copy_from_slice(row.try_get(5)?),
        version: Version(row.try_get::<i64, _>(2)?.unsigned_abs()),
        due: row.try_get::<Option<At>, _>(3)?.map(|at| at.0),
        updated_at: row.try_get::<At, _>(4)?.0,
    })
}

/// A read may ask for any text; one that cannot be stored matches nothing.
fn storable_key(text: &str) -> String {
    crate::types::storable(text).into_owned()
}
