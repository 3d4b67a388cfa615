//! Reading every record, to find those that cannot be read. Nothing is changed.
//!
//! Page by page in the order of the primary keys: no statement runs long or holds a snapshot that would delay
//! vacuum. The rows of a page are streamed, so that large payloads do not accumulate in memory.

use futures_util::TryStreamExt;
use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::error::Result;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{DocumentKey, QueueSettings};
use weaver_core::quarantine::{
    CheckProgress, CheckReport, DocumentReader, RecordKind, Unreadable, UnreadableRecord,
};

use crate::PostgresStore;
use crate::error::StoreFault;
use crate::names::Interner;
use crate::ports::runner;
use crate::row::{dispatch_of, record};

use crate::sql::Statement;
use crate::types::Token;

const PAGE: i64 = 500;
const DOCUMENTS: [&str; 4] = ["documents", "job_definitions", "events", "settings"];

/// A check in progress.
struct Check<'a> {
    report: CheckReport,
    progress: CheckProgress<'a>,
    reads: DocumentReader<'a>,
}

impl PostgresStore {
    /// Reads every task, live and finished, and every queue setting, worker and document; `reads` decodes the
    /// bodies of documents.
    pub async fn check(&self, progress: CheckProgress<'_>, reads: DocumentReader<'_>) -> Result<CheckReport> {
        let mut check = Check { report: CheckReport::default(), progress, reads };
        self.check_runs(&mut check).await?;
        self.check_places(&mut check).await?;
        self.check_queues(&mut check).await?;
        self.check_runners(&mut check).await?;
        for table in DOCUMENTS {
            self.check_documents(table, &mut check).await?;
        }
        Ok(check.report)
    }

    fn statement(&self, text: &str) -> Statement {
        Statement::new(self.options.statement_options(), text)
    }

    async fn check_runs(&self, check: &mut Check<'_>) -> Result<(), StoreFault> {
        let page = self.statement(&format!(
            "SELECT {} FROM (SELECT s.id FROM weaver.tasks s WHERE s.id > $1 ORDER BY s.id LIMIT $2) i \
             CROSS JOIN LATERAL (SELECT * FROM weaver.all_job_runs a WHERE a.id = i.id OFFSET 0) r ORDER BY i.id",
            crate::sql::RUN_COLUMNS
        ));
        let mut last = (String::new(), i64::MIN);
        loop {
            let (mut interner, mut count) = (Interner::default(), 0);
            let mut rows = page.query().bind(last.1).bind(PAGE).fetch(&self.connections);
            while let Some(row) = rows.try_next().await? {
                // By name, so that this does not depend on the column order.
                last = (row.try_get("namespace")?, row.try_get("id")?);
                count += 1;
                let found = record(&row, &mut interner).err().map(|why| if_placed(&row, why));
                check.met(RecordKind::Task, found.map(|why| unreadable_run(&row, &last, why)));
            }
            if count < PAGE || check.report.is_cut_short {
                return Ok(());
            }
        }
    }

    /// Tasks in two of `ready`, `leases` and `ended`, or in one of them without a spec. One that is in none
    /// was found unreadable.
    async fn check_places(&self, check: &mut Check<'_>) -> Result<(), StoreFault> {
        let places = self.statement("SELECT p.namespace, p.id, p.problem FROM weaver.misplaced($1) p");
        for row in places.query().bind(PAGE).fetch_all(&self.connections).await? {
            let (namespace, id): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            let why = Unreadable::Undecodable { reason: row.try_get(2)? };
            let found = UnreadableRecord::new(RecordKind::Task, &namespace, id.to_string(), why);
            check.met(RecordKind::Task, Some(found));
        }
        Ok(())
    }

    async fn check_queues(&self, check: &mut Check<'_>) -> Result<(), StoreFault> {
        let page = self.statement(
            "SELECT namespace, queue, paused, max_running, dispatch FROM weaver.queues \
             WHERE (namespace, queue) > ($1, $2) \
             ORDER BY namespace, queue LIMIT $3",
        );
        let mut last = (String::new(), String::new());
        loop {
            let query = page.query().bind(last.0.clone()).bind(last.1.clone()).bind(PAGE);
            let rows = query.fetch_all(&self.connections).await?;
            for row in &rows {
                last = (row.try_get(0)?, row.try_get(1)?);
                let why = readable_settings(row).err().map(Unreadable::from);
                let found =
                    why.map(|why| UnreadableRecord::new(RecordKind::QueueSettings, &last.0, &last.1, why));
                check.met(RecordKind::QueueSettings, found);
            }
            if rows.len() < PAGE as usize || check.report.is_cut_short {
                return Ok(());
            }
        }
    }

    async fn check_runners(&self, check: &mut Check<'_>) -> Result<(), StoreFault> {
        let page = self.statement(
            "SELECT runner_id, project_root, started_at, queues, types, capacity, running, draining, status, directive, \
             last_heartbeat, every_ms, namespace FROM weaver.runners WHERE (namespace, runner_id) > ($1, $2) \
             AND last_heartbeat IS NOT NULL ORDER BY namespace, runner_id LIMIT $3",
        );
        let mut last = (String::new(), String::new());
        loop {
            let query = page.query().bind(last.0.clone()).bind(last.1.clone()).bind(PAGE);
            let rows = query.fetch_all(&self.connections).await?;
            for row in &rows {
                last = (row.try_get("namespace")?, row.try_get(0)?);
                let namespace = Namespace::new(last.0.clone()).map_err(StoreFault::from);
                let why = namespace.and_then(|namespace| runner(&namespace, row)).err().map(Unreadable::from);
                let found = why.map(|why| UnreadableRecord::new(RecordKind::Runner, &last.0, &last.1, why));
                check.met(RecordKind::Runner, found);
            }
            if rows.len() < PAGE as usize || check.report.is_cut_short {
                return Ok(());
            }
        }
    }

    async fn check_documents(&self, table: &str, check: &mut Check<'_>) -> Result<(), StoreFault> {
        let page = self.statement(&format!(
            "SELECT namespace, kind, id, body FROM weaver.{table} WHERE (namespace, kind, id) > ($1, $2, $3) \
             ORDER BY namespace, kind, id LIMIT $4"
        ));
        let mut last = (String::new(), String::new(), String::new());
        loop {
            let mut count = 0;
            let query = page.query().bind(last.0.clone()).bind(last.1.clone()).bind(last.2.clone());
            let mut rows = query.bind(PAGE).fetch(&self.connections);
            while let Some(row) = rows.try_next().await? {
                last = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                count += 1;
                let found = readable_document(&row, &last, check.reads).err().map(|reason| {
                    let id = format!("{}/{}", last.1, last.2);
                    let why = Unreadable::Undecodable { reason };
                    UnreadableRecord::new(RecordKind::Document, &last.0, id, why)
                });
                check.met(RecordKind::Document, found);
            }
            if count < PAGE || check.report.is_cut_short {
                return Ok(());
            }
        }
    }
}

impl Check<'_> {
    fn met(&mut self, kind: RecordKind, unreadable: Option<UnreadableRecord>) {
        self.report.met(kind, unreadable, self.progress);
    }
}

/// A task that is in none of the tables has no version, and is unreadable for that reason.
fn if_placed(row: &PgRow, why: Unreadable) -> Unreadable {
    let is_in_none = matches!(row.try_get_raw("version"), Ok(value) if sqlx::ValueRef::is_null(&value));
    let reason = "it is in none of the tables ready, leases and ended".to_owned();
    if is_in_none { Unreadable::Undecodable { reason } } else { why }
}

/// The report entry for an unreadable run.
fn unreadable_run(row: &PgRow, (namespace, id): &(String, i64), why: Unreadable) -> UnreadableRecord {
    let text = |name: &str| row.try_get::<Option<String>, _>(name).ok().flatten();
    let is_live = matches!(row.try_get_raw("finished_at"), Ok(value) if sqlx::ValueRef::is_null(&value));
    let is_leased = row.try_get::<Option<Token>, _>("lease_token").ok().flatten().is_some();
    let state = text("state");
    UnreadableRecord {
        serial_key: text("serial_key").filter(|_| is_live),
        holds_slot: is_leased || matches!(state.as_deref(), Some("ASSIGNED" | "ORPHANED")),
        state,
        ..UnreadableRecord::new(RecordKind::Task, namespace, id.to_string(), why)
    }
}

fn readable_settings(row: &PgRow) -> Result<(), StoreFault> {
    Namespace::new(row.try_get::<String, _>(0)?)?;
    QueueName::new(row.try_get::<String, _>(1)?)?;
    let max_running: Option<i64> = row.try_get(3)?;
    let max_running = max_running.map(u32::try_from).transpose().map_err(StoreFault::unreadable)?;
    let dispatch = dispatch_of(row.try_get(4)?)?;
    QueueSettings { paused: row.try_get(2)?, max_running, dispatch }.validate()?;
    Ok(())
}

fn readable_document(
    row: &PgRow,
    (namespace, kind, id): &(String, String, String),
    reads: DocumentReader<'_>,
) -> Result<(), String> {
    let namespace = Namespace::new(namespace.clone()).map_err(|invalid| invalid.to_string())?;
    let key = DocumentKey::new(namespace, kind.as_str(), id.as_str());
    key.validate().map_err(|invalid| invalid.to_string())?;
    reads(kind, row.try_get(3).map_err(|error| error.to_string())?)
}

/// The reason why a row cannot be decoded.
impl From<StoreFault> for Unreadable {
    fn from(fault: StoreFault) -> Self {
        use weaver_core::error::Error;
        let reason = match fault {
            StoreFault::Refused(Error::Damaged { what, .. }) => what,
            StoreFault::Refused(error) => error.to_string(),
            StoreFault::Database(error) => error.to_string(),
        };
        Self::Undecodable { reason }
    }
}
