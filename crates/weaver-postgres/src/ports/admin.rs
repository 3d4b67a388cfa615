//! The port `Admin`, and the maintenance that runs beside it: pruning, vacuum, log files.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Admin, Cursor, Expect, Page, PurgeRule, Purged, QueueInfo, QueueSettings};
use weaver_core::quarantine::{Quarantined, RecordKind};

use super::log_files::remove;
use super::{after, expectation};
use crate::PostgresStore;
use crate::error::{StoreFault, reason};
use crate::row::{RUN_FORMAT, dispatch_of, undecodable};
use crate::types::micros;

/// How often tables are checked for dead rows.
const VACUUM_INTERVAL: Duration = Duration::from_secs(2);
/// Dead rows below which a table is not vacuumed.
const DEAD_ROWS_MIN: i64 = 20_000;
/// How often one process prunes old moves, expired keys and silent workers.
const PRUNE_INTERVAL: Duration = Duration::from_secs(5);
/// Rows removed per table and call.
const PRUNE_BATCH: i32 = 5000;

#[async_trait]
impl Admin for PostgresStore {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        Ok(self.queues(namespace).await?)
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        settings.validate()?;
        let version = self.retry_transient(|| self.set_queue(namespace, queue, settings, expect)).await?;
        self.hints.work_ready();
        Ok(version)
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        rule.validate()?;
        let purged = self.retry_transient(|| self.purge(&rule, limit)).await?;
        self.maintain_if_due().await;
        Ok(purged)
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        check_page(limit)?;
        let after = after(cursor)?;
        Ok(self.namespaces(&after, limit).await?)
    }
}

impl PostgresStore {
    pub(crate) async fn queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>, StoreFault> {
        let mut queues: BTreeMap<QueueName, (QueueSettings, Version)> = BTreeMap::new();
        let names = self.sql.queue_names.query().bind(namespace.as_str());
        for row in names.fetch_all(&self.connections).await? {
            // A queue with an invalid name has only unreadable tasks.
            if let Ok(name) = QueueName::new(row.try_get::<String, _>(0)?) {
                queues.insert(name, (QueueSettings::default(), Version(0)));
            }
        }
        let settings = self.sql.queue_settings.query().bind(namespace.as_str());
        let mut unreadable = Vec::new();
        for row in settings.fetch_all(&self.connections).await? {
            let (text, version): (String, i64) = (row.try_get(0)?, row.try_get(3)?);
            let (settings, why) = match settings_of(&row) {
                Ok(settings) => (settings, None),
                // Paused, as in `weaver.is_set_to_pause`.
                Err(fault) => {
                    (QueueSettings { paused: true, ..QueueSettings::default() }, Some(undecodable(fault)))
                }
            };
            if let Some(why) = why {
                let (kind, found_at) = (RecordKind::QueueSettings, self.clock.now());
                let queue = QueueName::new(text.clone()).ok();
                let finding = Quarantined::new(kind, namespace.clone(), text.clone(), why, found_at);
                unreadable.push(Quarantined { queue, ..finding });
            }
            if let Ok(name) = QueueName::new(text) {
                queues.insert(name, (settings, Version(version.unsigned_abs())));
            }
        }
        self.quarantine.settle(namespace, RecordKind::QueueSettings, unreadable);
        let names: Vec<String> = queues.keys().map(QueueName::to_string).collect();
        let occupied = self.sql.occupied.scalar::<i64>().bind(namespace.as_str()).bind(names);
        let occupied = occupied.fetch_all(&self.connections).await?;
        let info = |((name, (settings, version)), occupied): ((QueueName, (QueueSettings, Version)), i64)| {
            QueueInfo { name, settings, version, occupied: occupied.unsigned_abs() }
        };
        Ok(queues.into_iter().zip(occupied).map(info).collect())
    }

    async fn set_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version, StoreFault> {
        let (word, version) = expectation(expect);
        let row = self
            .sql
            .put_queue
            .query()
            .bind(namespace.as_str())
            .bind(queue.as_str())
            .bind(settings.paused)
            .bind(settings.max_running.map(i64::from))
            .bind(i16::from(settings.dispatch.number()))
            .bind(word)
            .bind(version)
            .fetch_one(&self.connections)
            .await?;
        let found = row.try_get::<Option<i64>, _>(1)?.map(|found| Version(found.unsigned_abs()));
        match (row.try_get::<bool, _>(0)?, found) {
            (true, Some(version)) => Ok(version),
            _ => Err(expect.conflict(format!("queue {namespace}/{queue}"), found).into()),
        }
    }

    async fn purge(&self, rule: &PurgeRule, limit: u32) -> Result<Purged, StoreFault> {
        // A full batch means that there may be more.
        let row = self
            .sql
            .purge
            .query()
            .bind(rule.namespace.as_ref().map(|name| name.as_str()))
            .bind(rule.queue.as_ref().map(|name| name.as_str()))
            .bind(rule.state.map(|state| vec![state.index() as i16]))
            .bind(micros(rule.finished_for))
            .bind(i32::try_from(limit).unwrap_or(i32::MAX))
            .bind(RUN_FORMAT)
            .fetch_one(&self.connections)
            .await?;
        let count = row.try_get::<i32, _>(0)?.unsigned_abs();
        remove(&row.try_get::<Option<Vec<String>>, _>(1)?.unwrap_or_default());
        Ok(Purged { count, more: count == limit && limit > 0 })
    }

    async fn namespaces(&self, after: &str, limit: u32) -> Result<Page<Namespace>, StoreFault> {
        let rows = self
            .sql
            .namespaces
            .query()
            .bind(after)
            .bind(i64::from(limit) + 1)
            .fetch_all(&self.connections)
            .await?;
        let name = |row: &PgRow| Namespace::new(row.try_get::<String, _>(0).ok()?).ok();
        // Invalid names are skipped; the page is then shorter.
        let items: Vec<Namespace> = rows.iter().take(limit as usize).filter_map(name).collect();
        let last = items.last().filter(|_| rows.len() > limit as usize);
        let next = last.map(|name| Cursor(name.to_string()));
        Ok(Page { items, next, complete: true })
    }

    /// Maintenance off the hot path: every few seconds, in batches, on one node at a time by advisory lock.
    /// Failed work is retried at the next call.
    pub(crate) async fn maintain_if_due(&self) {
        self.vacuum_if_due().await;
        let now = self.clock.monotonic();
        {
            let mut pruned_at = self.pruned_at.lock();
            if pruned_at.is_some_and(|at| now < at.saturating_add(PRUNE_INTERVAL)) {
                return;
            }
            *pruned_at = Some(now);
        }
        let prune = self.sql.prune.scalar::<bool>().bind(PRUNE_BATCH).fetch_one(&self.connections);
        match prune.await {
            // More than one batch is pending: the next call continues without waiting for the interval.
            Ok(true) => *self.pruned_at.lock() = None,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(reason = reason(&error), "pruning failed; retrying at the next interval");
            }
        }
        self.move_old_logs().await;
        if let Err(fault) = self.review_if_due().await {
            let reason = weaver_core::error::Error::from(fault).to_string();
            tracing::debug!(reason, "review of unreadable records failed; retrying at the next interval");
        }
    }

    /// Vacuums tables with many dead rows. Autovacuum checks once a minute, in which a busy queue produces
    /// several times its size in dead rows.
    async fn vacuum_if_due(&self) {
        let now = self.clock.monotonic();
        {
            let mut vacuumed_at = self.vacuumed_at.lock();
            if vacuumed_at.is_some_and(|at| now < at.saturating_add(VACUUM_INTERVAL)) {
                return;
            }
            *vacuumed_at = Some(now);
        }
        let worn = self
            .sql
            .bloated_tables
            .scalar::<String>()
            .bind(&self.options.schema)
            .bind(DEAD_ROWS_MIN)
            .fetch_all(&self.connections);
        for table in worn.await.unwrap_or_default() {
            // SKIP_LOCKED: it waits for no lock. TRUNCATE OFF: no statement waits for it.
            let text = format!("VACUUM (SKIP_LOCKED, TRUNCATE OFF) {}.{table}", self.options.schema);
            if let Err(error) = self.connections.execute_bare(text).await {
                tracing::debug!(reason = reason(&error), table, "vacuum failed; left to autovacuum");
            }
        }
    }
}

fn settings_of(row: &PgRow) -> Result<QueueSettings, StoreFault> {
    let max_running: Option<i64> = row.try_get(2)?;
    let max_running = max_running.map(u32::try_from).transpose().map_err(StoreFault::unreadable)?;
    let dispatch = dispatch_of(row.try_get(4)?)?;
    let settings = QueueSettings { paused: row.try_get(1)?, max_running, dispatch };
    settings.validate()?;
    Ok(settings)
}
