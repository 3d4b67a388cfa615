//! Consistency check: scans the tables for items that cannot be read, and changes nothing.
//!
//! A scan reads pages of at most a megabyte, and also finds items of namespaces that are not registered.

use std::collections::HashMap;

use weaver_core::error::{Error, Result};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::ports::{DocumentKey, QueueSettings};
use weaver_core::quarantine::{
    CheckProgress, CheckReport, DocumentReader, RecordKind, Unreadable, UnreadableRecord,
};
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

use crate::codec::texts::{self, Texts, bytes_of};
use crate::codec::value::Attributes;
use crate::codec::{damaged, foreign, record};
use crate::db::{AwsDb, Db, Item, Table};
use crate::keys;
use crate::unreadable::check_format;

/// A check in progress.
struct Check<'a> {
    db: &'a AwsDb,
    report: CheckReport,
    progress: CheckProgress<'a>,
    reads: DocumentReader<'a>,
}

/// Reads every task, queue setting, worker and document. `reads` validates the bodies of documents.
///
/// # Errors
/// If DynamoDB is unavailable.
pub async fn check_records(
    db: &AwsDb,
    progress: CheckProgress<'_>,
    reads: DocumentReader<'_>,
) -> Result<CheckReport> {
    let mut check = Check { db, report: CheckReport::default(), progress, reads };
    for table in Table::ALL {
        let mut start = None;
        loop {
            let found = db.scan(table, start).await?;
            for item in found.items {
                check.item(table, &item).await?;
            }
            start = found.next;
            if start.is_none() || check.report.is_cut_short {
                break;
            }
        }
    }
    Ok(check.report)
}

impl Check<'_> {
    async fn item(&mut self, table: Table, item: &Item) -> Result<()> {
        match table {
            Table::Queue => {
                let found = self.task(item).await?;
                self.met(RecordKind::Task, found);
            }
            // A directive for a worker that has not sent a heartbeat: there is nothing to check.
            Table::Runners if !item.contains_key("last_heartbeat") => {}
            Table::Runners => {
                let (namespace, id) = names(item, table);
                let why = why(readable_runner(item));
                let found = why.map(|why| UnreadableRecord::new(RecordKind::Runner, namespace, id, why));
                self.met(RecordKind::Runner, found);
            }
            Table::Data => self.data(item),
        }
        Ok(())
    }

    async fn task(&self, item: &Item) -> Result<Option<UnreadableRecord>> {
        let values = match self.texts(item).await? {
            Some(values) => values,
            // It is being purged: its large values are removed first.
            None => return Ok(None),
        };
        let found = why(check_format(item)).or_else(|| why(foreign::read(item, &values)));
        Ok(found.map(|why| unreadable_task(item, why)))
    }

    /// The large values of a task; `None` if one of them is missing.
    async fn texts(&self, item: &Item) -> Result<Option<Texts>> {
        let references = texts::references(item);
        let Ok(key) = record::key_of(item) else { return Ok(Some(Texts::new())) };
        if references.is_empty() {
            return Ok(Some(Texts::new()));
        }
        let partition = keys::texts(&key);
        let wanted = references.iter().map(|(_, sort)| keys::data(&partition, sort)).collect();
        let mut values = HashMap::new();
        for item in self.db.get(Table::Data, wanted).await? {
            let sort = item.text("sk").unwrap_or_default().to_owned();
            values.insert(sort, item.bytes("value").unwrap_or_default());
        }
        Ok(references.into_iter().map(|(name, sort)| Some((name, values.remove(&sort)?))).collect())
    }

    /// Queue settings and documents; other items of the table are not checked.
    fn data(&mut self, item: &Item) {
        let (partition, sort) = names(item, Table::Data);
        match keys::split(partition).as_slice() {
            ["queue", namespace] => {
                let why = why(readable_settings(item, namespace, sort));
                let found =
                    why.map(|why| UnreadableRecord::new(RecordKind::QueueSettings, *namespace, sort, why));
                self.met(RecordKind::QueueSettings, found);
            }
            ["doc", namespace, kind] if !item.flag("deleted") => {
                let why = why(readable_document(item, (namespace, kind, sort), self.reads));
                let id = format!("{kind}/{sort}");
                let found = why.map(|why| UnreadableRecord::new(RecordKind::Document, *namespace, id, why));
                self.met(RecordKind::Document, found);
            }
            _ => {}
        }
    }

    fn met(&mut self, kind: RecordKind, unreadable: Option<UnreadableRecord>) {
        self.report.met(kind, unreadable, self.progress);
    }
}

/// The two halves of an item's key.
fn names(item: &Item, table: Table) -> (&str, &str) {
    let (partition, sort) = table.key();
    (item.text(partition).unwrap_or_default(), item.text(sort).unwrap_or_default())
}

/// The readable attributes of an unreadable task.
fn unreadable_task(item: &Item, why: Unreadable) -> UnreadableRecord {
    let (namespace, name) = names(item, Table::Queue);
    let state = item.text("state").or_else(|| item.text("status")).map(str::to_owned);
    let has_ended = record::state_of(item).is_some_and(TaskState::is_terminal);
    UnreadableRecord {
        serial_key: item.text("serial_key").filter(|_| !has_ended).map(str::to_owned),
        holds_slot: item.flag("counted"),
        state,
        ..UnreadableRecord::new(RecordKind::Task, namespace, name, why)
    }
}

fn readable_runner(item: &Item) -> Result<()> {
    let (namespace, id) = names(item, Table::Runners);
    Namespace::try_from(namespace)?;
    WorkerId::try_from(id)?;
    let text = item.text("last_heartbeat").and_then(|text| text.parse::<Timestamp>().ok());
    match item.instant("last_heartbeat_us").or(text) {
        Some(_) => Ok(()),
        None => Err(damaged("`last_heartbeat` is not a timestamp")),
    }
}

fn readable_settings(item: &Item, namespace: &str, queue: &str) -> Result<()> {
    Namespace::try_from(namespace)?;
    QueueName::try_from(queue)?;
    let max_running = match item.get("max_running") {
        None => None,
        Some(_) => {
            let number = item.number("max_running").and_then(|max| u32::try_from(max).ok());
            Some(number.ok_or_else(|| damaged("`max_running` is not a valid number"))?)
        }
    };
    QueueSettings { paused: item.flag("paused"), max_running, ..QueueSettings::default() }.validate()?;
    Ok(())
}

fn readable_document(
    item: &Item,
    (namespace, kind, id): (&str, &str, &str),
    reads: DocumentReader<'_>,
) -> Result<()> {
    DocumentKey::new(Namespace::try_from(namespace)?, kind, id).validate()?;
    item.number("version").ok_or_else(|| damaged("it has no version"))?;
    let body = bytes_of(item, "body").ok_or_else(|| damaged("it has no body"))?;
    reads(kind, &body).map_err(damaged)
}

/// Why decoding failed, if it did.
fn why<T, E: IntoUnreadable>(read: Result<T, E>) -> Option<Unreadable> {
    read.err().map(IntoUnreadable::into_unreadable)
}

/// A decoding error as a finding.
trait IntoUnreadable {
    fn into_unreadable(self) -> Unreadable;
}

impl IntoUnreadable for Error {
    fn into_unreadable(self) -> Unreadable {
        let reason = match self {
            Self::Damaged { what, .. } => what,
            error => error.to_string(),
        };
        Unreadable::Undecodable { reason }
    }
}

impl IntoUnreadable for Unreadable {
    fn into_unreadable(self) -> Unreadable {
        self
    }
}
