//! The port `Journal`. Task logs, the audit log and all other streams have a table each; entries that were
//! moved to a file are read from there.

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::error::Result;
use weaver_core::limits::check_page;
use weaver_core::ports::{Entry, Journal, JournalPage, ReadFrom, Seq, StreamKey, TrimBefore, check_entries};

use crate::PostgresStore;
use crate::error::StoreFault;
use crate::sql::{Statement, StatementOptions};
use crate::types::{At, storable};

/// The name of the stream [`StreamKey::audit`], and of its table.
const AUDIT: &str = "audit";

/// The tables that hold entries.
#[derive(Debug)]
pub(crate) struct StreamTables {
    logs: StreamTable,
    audit: StreamTable,
    others: StreamTable,
    append: Statement,
    last: Statement,
}

#[derive(Debug)]
struct StreamTable {
    name: &'static str,
    after: Statement,
    last: Statement,
    trim_seq: Statement,
    trim_time: Statement,
}

impl StreamTable {
    fn new(statement_options: StatementOptions<'_>, name: &'static str) -> Self {
        let statement = |text: String| Statement::new(statement_options, &text);
        let of_stream = format!("weaver.{name} WHERE namespace = $1 AND name = $2");
        Self {
            name,
            after: statement(format!(
                "SELECT seq, at, body FROM {of_stream} AND seq > $3 ORDER BY seq LIMIT $4"
            )),
            last: statement(format!(
                "SELECT * FROM (SELECT seq, at, body FROM {of_stream} ORDER BY seq DESC LIMIT $3) last ORDER BY seq"
            )),
            trim_seq: statement(trim(name, &format!("{of_stream} AND seq < $3"))),
            trim_time: statement(trim(name, &format!("{of_stream} AND at < $3"))),
        }
    }
}

/// The statement that trims a stream. A trim of the audit log is recorded in `purges` first: its guards
/// refuse any other delete.
fn trim(name: &str, of_stream: &str) -> String {
    let delete = format!("DELETE FROM {of_stream}");
    if name != AUDIT {
        return delete;
    }
    format!(
        "WITH announced AS (INSERT INTO weaver.purges (what) SELECT 'audit entries of ' || $1::text \
         WHERE EXISTS (SELECT FROM {of_stream})) {delete}"
    )
}

impl StreamTables {
    pub(crate) fn new(statement_options: StatementOptions<'_>) -> Self {
        Self {
            logs: StreamTable::new(statement_options, "job_run_logs"),
            audit: StreamTable::new(statement_options, AUDIT),
            others: StreamTable::new(statement_options, "journal"),
            append: Statement::new(statement_options, "SELECT weaver.append($1, $2, $3, $4, $5)"),
            last: Statement::new(
                statement_options,
                "SELECT coalesce((SELECT last_seq FROM weaver.streams WHERE namespace = $1 AND name = $2), 0)",
            ),
        }
    }

    fn of(&self, name: &str) -> &StreamTable {
        match run_of(name) {
            Some(_) => &self.logs,
            None if name == AUDIT => &self.audit,
            None => &self.others,
        }
    }
}

/// The run whose log this stream is.
fn run_of(name: &str) -> Option<i64> {
    name.strip_prefix("task/")?.split_once('/')?.0.parse().ok()
}

#[async_trait]
impl Journal for PostgresStore {
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
        stream.validate()?;
        check_entries(bodies)?;
        Ok(self.append(stream, bodies).await?)
    }

    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage> {
        check_page(limit)?;
        Ok(self.entries(stream, from, limit).await?)
    }

    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
        self.number_audit(stream).await?;
        let table = self.streams.of(&stream.name);
        let name = storable(&stream.name).into_owned();
        let trim = match before {
            TrimBefore::Seq(seq) => table
                .trim_seq
                .query()
                .bind(stream.namespace.as_str())
                .bind(name)
                .bind(i64::try_from(seq.0).unwrap_or(i64::MAX)),
            TrimBefore::Time(instant) => {
                table.trim_time.query().bind(stream.namespace.as_str()).bind(name).bind(At(instant))
            }
        };
        trim.execute(&self.connections).await.map_err(StoreFault::from)?;
        Ok(())
    }
}

impl PostgresStore {
    async fn append(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq, StoreFault> {
        let last: i64 = if bodies.is_empty() {
            self.streams
                .last
                .scalar()
                .bind(stream.namespace.as_str())
                .bind(&stream.name)
                .fetch_one(&self.connections)
                .await?
        } else {
            let bodies: Vec<&[u8]> = bodies.iter().map(|body| body.as_ref()).collect();
            self.streams
                .append
                .scalar()
                .bind(self.streams.of(&stream.name).name)
                .bind(stream.namespace.as_str())
                .bind(&stream.name)
                .bind(run_of(&stream.name))
                .bind(bodies)
                .fetch_one(&self.connections)
                .await?
        };
        Ok(Seq(last.unsigned_abs()))
    }

    /// Moves the entries that enqueues left to the audit stream.
    async fn number_audit(&self, stream: &StreamKey) -> Result<(), StoreFault> {
        if stream.name == AUDIT {
            let number = self.sql.number_audit.query().bind(stream.namespace.as_str());
            number.execute(&self.connections).await?;
        }
        Ok(())
    }

    async fn entries(
        &self,
        stream: &StreamKey,
        from: ReadFrom,
        limit: u32,
    ) -> Result<JournalPage, StoreFault> {
        self.number_audit(stream).await?;
        let table = self.streams.of(&stream.name);
        let name = storable(&stream.name).into_owned();
        let read = match from {
            ReadFrom::After(seq) => table
                .after
                .query()
                .bind(stream.namespace.as_str())
                .bind(name)
                .bind(i64::try_from(seq.0).unwrap_or(i64::MAX))
                .bind(i64::from(limit) + 1),
            ReadFrom::Last(count) => {
                table.last.query().bind(stream.namespace.as_str()).bind(name).bind(i64::from(count))
            }
        };
        let rows = read.fetch_all(&self.connections).await?;
        let mut entries = rows.iter().map(entry).collect::<Result<Vec<_>, sqlx::Error>>()?;
        if run_of(&stream.name).is_some() {
            self.add_moved(stream, from, &mut entries).await?;
        }
        let more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        Ok(JournalPage { entries, more })
    }
}

impl PostgresStore {
    /// Prepends the entries that were moved to a file.
    async fn add_moved(
        &self,
        stream: &StreamKey,
        from: ReadFrom,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StoreFault> {
        let wanted = match from {
            ReadFrom::After(_) => usize::MAX,
            ReadFrom::Last(count) => (count as usize).saturating_sub(entries.len()),
        };
        if wanted == 0 {
            return Ok(());
        }
        let Some(reference) = self.moved(stream).await? else { return Ok(()) };
        if matches!(from, ReadFrom::After(seq) if seq.0 >= reference.seq) {
            return Ok(());
        }
        let (until, mut moved) = (reference.seq, self.read_moved(reference).await?);
        match from {
            ReadFrom::After(seq) => moved.retain(|entry| entry.seq > seq),
            ReadFrom::Last(_) => {
                moved.drain(..moved.len().saturating_sub(wanted));
            }
        }
        // Entries moved between the two reads are in the file now.
        moved.extend(entries.drain(..).filter(|entry| entry.seq.0 > until));
        *entries = moved;
        Ok(())
    }
}

fn entry(row: &PgRow) -> Result<Entry, sqlx::Error> {
    Ok(Entry {
        seq: Seq(row.try_get::<i64, _>(0)?.unsigned_abs()),
        at: row.try_get::<At, _>(1)?.0,
        body: Bytes::copy_from_slice(row.try_get(2)?),
    })
}
