//! The port `Documents`. Kinds the seed has a table for have one; all others share one.

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::limits::check_page;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Document, DocumentKey, Documents, Expect, Page, check_document};
use weaver_core::time::Timestamp;

use super::{cut, expectation};
use crate::PostgresStore;
use crate::error::{Outcome, Trouble};
use crate::sql::Statement;
use crate::types::At;

/// The tables documents are in.
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
    /// A leader's document, kept as it is until the moves it guards are stored.
    pub(crate) leader: Statement,
    put: Statement,
}

impl DocumentTable {
    fn new(schema: &str, name: &'static str) -> Self {
        let columns = "namespace, id, version, due_at, updated_at, body";
        let statement = |text: String| Statement::new(schema, &text);
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
                schema,
                "SELECT done, current FROM weaver.put_document($1, $2, $3, $4, $5, $6, $7, $8)",
            ),
        }
    }
}

impl DocumentTables {
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            definitions: DocumentTable::new(schema, "job_definitions"),
            events: DocumentTable::new(schema, "events"),
            settings: DocumentTable::new(schema, "settings"),
            others: DocumentTable::new(schema, "documents"),
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
        let get = sqlx::query(self.tables.of(&key.kind).get.text())
            .bind(key.namespace.as_str())
            .bind(storable_key(&key.kind))
            .bind(storable_key(&key.id));
        let row = get.fetch_optional(&self.pool).await.map_err(Trouble::from)?;
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
        Ok(self.again(|| self.put(key, Some(&body), expect, due)).await?)
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        self.again(|| self.put(key, None, expect, None)).await?;
        Ok(())
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
        let rows = sqlx::query(self.tables.of(kind).list.text())
            .bind(namespace.as_str())
            .bind(storable_key(kind))
            .bind(storable_key(prefix))
            .bind(cursor.map(|cursor| storable_key(&cursor.0)).unwrap_or_default())
            .bind(i64::from(limit) + 1)
            .fetch_all(&self.pool)
            .await
            .map_err(Trouble::from)?;
        let mut items = rows.iter().map(|row| document(kind, row)).collect::<Outcome<Vec<_>>>()?;
        let next = cut(&mut items, limit, |document| document.key.id.clone());
        Ok(Page { items, next, complete: true })
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        check_page(limit)?;
        let rows = sqlx::query(self.tables.of(kind).due.text())
            .bind(storable_key(kind))
            .bind(At(before))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(Trouble::from)?;
        Ok(rows.iter().map(|row| document(kind, row)).collect::<Outcome<_>>()?)
    }
}

impl PostgresStore {
    async fn put(
        &self,
        key: &DocumentKey,
        body: Option<&Bytes>,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Outcome<Version> {
        let table = self.tables.of(&key.kind);
        let (word, version) = expectation(expect);
        let row = sqlx::query(table.put.text())
            .bind(table.name)
            .bind(key.namespace.as_str())
            .bind(storable_key(&key.kind))
            .bind(storable_key(&key.id))
            .bind(body.map(|body| body.as_ref()))
            .bind(due.map(At))
            .bind(word)
            .bind(version)
            .fetch_one(&self.pool)
            .await?;
        let found = row.try_get::<Option<i64>, _>(1)?.map(|found| Version(found.unsigned_abs()));
        if row.try_get(0)? {
            return Ok(found.unwrap_or_default());
        }
        let what = format!("document {}/{}/{}", key.namespace, key.kind, key.id);
        Err(expect.conflict(what, found).into())
    }
}

fn document(kind: &str, row: &PgRow) -> Outcome<Document> {
    let namespace = Namespace::new(row.try_get::<String, _>(0)?).map_err(Trouble::unreadable)?;
    Ok(Document {
        key: DocumentKey::new(namespace, kind, row.try_get::<String, _>(1)?),
        body: Bytes::copy_from_slice(row.try_get(5)?),
        version: Version(row.try_get::<i64, _>(2)?.unsigned_abs()),
        due: row.try_get::<Option<At>, _>(3)?.map(|at| at.0),
        updated_at: row.try_get::<At, _>(4)?.0,
    })
}

/// Reads may ask for any text; one that cannot be stored finds nothing.
fn storable_key(text: &str) -> String {
    crate::types::storable(text).into_owned()
}
