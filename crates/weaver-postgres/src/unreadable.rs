//! Quarantine of rows that this process cannot read. Each is a separate finding and fails no call about
//! others.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::name::Namespace;
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};
use weaver_core::task::TaskRecord;

use crate::PostgresStore;
use crate::error::Result;
use crate::names::Interner;
use crate::row::{RUN_FORMAT, finding, record};

/// How often quarantined records are read again, and rows of unknown formats are searched for.
const REVIEW_INTERVAL: Duration = Duration::from_secs(30);
/// Runs read again per statement.
const REVIEW_BATCH: usize = 500;

impl PostgresStore {
    /// The runs of an answer, and the ids of those that cannot be decoded. Unreadable ones are quarantined.
    pub(crate) fn records(&self, rows: &[PgRow]) -> (Vec<TaskRecord>, Vec<i64>) {
        let mut interner = Interner::default();
        let (mut records, mut undecodable) = (Vec::with_capacity(rows.len()), Vec::new());
        let was_empty = self.quarantine.is_empty();
        for row in rows {
            match record(row, &mut interner) {
                Ok(record) => {
                    if !was_empty {
                        self.is_readable(&record.key);
                    }
                    records.push(record);
                }
                Err(why) => {
                    let is_damaged = matches!(why, Unreadable::Undecodable { .. });
                    let Some((id, finding)) = finding(row, why, self.clock.now()) else {
                        tracing::error!("skipped a task row without a readable id or namespace");
                        continue;
                    };
                    if is_damaged {
                        undecodable.push(id);
                    }
                    self.quarantine.add(finding);
                }
            }
        }
        (records, undecodable)
    }

    fn is_readable(&self, key: &TaskKey) {
        self.quarantine.remove(&key.namespace, RecordKind::Task, &key.id.to_string());
    }

    /// Removes findings about tasks that no longer exist.
    pub(crate) fn forget_missing(&self, keys: &[TaskKey], rows: &[PgRow]) {
        if self.quarantine.is_empty() {
            return;
        }
        let place =
            |row: &PgRow| -> Option<(String, i64)> { Some((row.try_get(2).ok()?, row.try_get(1).ok()?)) };
        let there: HashSet<(String, i64)> = rows.iter().filter_map(place).collect();
        let is_missing = |key: &&TaskKey| !there.contains(&(key.namespace.to_string(), key.id.0 as i64));
        keys.iter().filter(is_missing).for_each(|key| self.is_readable(key));
    }

    /// The tasks of a namespace that a lease call skips; usually `None`.
    pub(crate) fn skipped(&self, namespace: &Namespace) -> Option<Vec<i64>> {
        let ids = self.quarantine.task_ids(namespace);
        (!ids.is_empty()).then(|| ids.into_iter().map(|id| id.0 as i64).collect())
    }

    /// The ids of the tasks that lease expiry skips.
    pub(crate) fn skipped_everywhere(&self) -> Vec<i64> {
        if self.quarantine.is_empty() {
            return Vec::new();
        }
        task_keys(self.quarantine.all()).into_iter().map(|key| key.id.0 as i64).collect()
    }

    /// Whether this process found a task unreadable, and so must not change it.
    pub(crate) fn is_quarantined(&self, key: &TaskKey) -> bool {
        self.quarantine.get(&key.namespace, RecordKind::Task, &key.id.to_string()).is_some()
    }

    /// Reads quarantined records again, and searches for rows of formats that only a newer Weaver knows.
    pub(crate) async fn review_if_due(&self) -> Result<()> {
        let now = self.clock.monotonic();
        {
            let mut reviewed_at = self.reviewed_at.lock();
            if reviewed_at.is_some_and(|at| now < at.saturating_add(REVIEW_INTERVAL)) {
                return Ok(());
            }
            *reviewed_at = Some(now);
        }
        let unknown = self.sql.unknown_formats.query().bind(RUN_FORMAT).bind(REVIEW_BATCH as i64);
        let mut keys: BTreeSet<TaskKey> = BTreeSet::new();
        for row in unknown.fetch_all(&self.connections).await? {
            if let Ok(namespace) = Namespace::new(row.try_get::<String, _>(0)?) {
                keys.insert(TaskKey::new(namespace, TaskId(row.try_get::<i64, _>(1)?.unsigned_abs())));
            }
        }
        let found = self.quarantine.all();
        let places: BTreeSet<(Namespace, RecordKind)> =
            found.iter().map(|each| (each.namespace.clone(), each.kind)).collect();
        keys.extend(task_keys(found));
        let keys: Vec<TaskKey> = keys.into_iter().collect();
        for part in keys.chunks(REVIEW_BATCH) {
            self.read(part).await?;
        }
        for (namespace, kind) in places {
            match kind {
                RecordKind::QueueSettings => drop(self.queues(&namespace).await?),
                RecordKind::Runner => self.review_runners(&namespace).await?,
                // The store does not interpret a document's body.
                RecordKind::Task | RecordKind::Document => {}
            }
        }
        Ok(())
    }

    async fn review_runners(&self, namespace: &Namespace) -> Result<()> {
        let (mut after, mut unreadable) = (Some(String::new()), Vec::new());
        while let Some(last) = after {
            let page = self.runner_page(namespace, &last, REVIEW_BATCH as u32).await?;
            unreadable.extend(page.unreadable);
            after = page.next;
        }
        self.quarantine.settle(namespace, RecordKind::Runner, unreadable);
        Ok(())
    }
}

fn task_keys(found: Vec<Quarantined>) -> Vec<TaskKey> {
    let tasks = found.into_iter().filter(|each| each.kind == RecordKind::Task);
    tasks.filter_map(|each| Some(TaskKey::new(each.namespace, each.id.parse().ok()?))).collect()
}
