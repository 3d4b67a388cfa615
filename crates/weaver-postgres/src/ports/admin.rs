//! The port `Admin`, and what is tidied up on the way.

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
use crate::error::{Outcome, Trouble, reason};
use crate::names::words_of;
use crate::row::{RUN_FORMAT, undecodable};
use crate::types::micros;

/// How often tables are looked at for rows that are gone.
const VACUUM_EVERY: Duration = Duration::from_secs(2);
/// Fewer of them are not worth it.
const DEAD_ROWS_MIN: i64 = 20_000;
/// How often one process tidies up.
const TIDY_EVERY: Duration = Duration::from_secs(5);
/// How many rows it removes at once.
const TIDY_BATCH: i32 = 5000;

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
        let version = self.again(|| self.set_queue(namespace, queue, settings, expect)).await?;
        self.hints.work();
        Ok(version)
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        rule.validate()?;
        let purged = self.again(|| self.purge(&rule, limit)).await?;
        self.tidy_now_and_then().await;
        Ok(purged)
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        check_page(limit)?;
        let after = after(cursor)?;
        Ok(self.namespaces(&after, limit).await?)
    }
}

impl PostgresStore {
    pub(crate) async fn queues(&self, namespace: &Namespace) -> Outcome<Vec<QueueInfo>> {
        let mut queues: BTreeMap<QueueName, (QueueSettings, Version)> = BTreeMap::new();
        let names = self.sql.queue_names.query().bind(namespace.as_str());
        for row in names.fetch_all(&self.connections).await? {
            // A queue whose name is none has only tasks that cannot be read.
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
                // As `weaver.is_set_to_pause` has it.
                Err(trouble) => {
                    (QueueSettings { paused: true, max_running: None }, Some(undecodable(trouble)))
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
    ) -> Outcome<Version> {
        let (word, version) = expectation(expect);
        let row = self
            .sql
            .put_queue
            .query()
            .bind(namespace.as_str())
            .bind(queue.as_str())
            .bind(settings.paused)
            .bind(settings.max_running.map(i64::from))
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

    async fn purge(&self, rule: &PurgeRule, limit: u32) -> Outcome<Purged> {
        // One more than may go is not asked for: a full batch means that there may be more.
        let row = self
            .sql
            .purge
            .query()
            .bind(rule.namespace.as_ref().map(|name| name.as_str()))
            .bind(rule.queue.as_ref().map(|name| name.as_str()))
            .bind(rule.state.map(words_of))
            .bind(micros(rule.finished_for))
            .bind(i32::try_from(limit).unwrap_or(i32::MAX))
            .bind(RUN_FORMAT)
            .fetch_one(&self.connections)
            .await?;
        let count = row.try_get::<i32, _>(0)?.unsigned_abs();
        remove(&row.try_get::<Option<Vec<String>>, _>(1)?.unwrap_or_default());
        Ok(Purged { count, more: count == limit && limit > 0 })
    }

    async fn namespaces(&self, after: &str, limit: u32) -> Outcome<Page<Namespace>> {
        let rows = self
            .sql
            .namespaces
            .query()
            .bind(after)
            .bind(i64::from(limit) + 1)
            .fetch_all(&self.connections)
            .await?;
        let name = |row: &PgRow| Namespace::new(row.try_get::<String, _>(0).ok()?).ok();
        // Names that are none have no place in a list; the page is shorter by them.
        let items: Vec<Namespace> = rows.iter().take(limit as usize).filter_map(name).collect();
        let last = items.last().filter(|_| rows.len() > limit as usize);
        let next = last.map(|name| Cursor(name.to_string()));
        Ok(Page { items, next, complete: true })
    }

    /// Off everybody's way: a few seconds apart, a batch at a time, by one node at once. What fails is done
    /// next time.
    pub(crate) async fn tidy_now_and_then(&self) {
        self.vacuum_now_and_then().await;
        let now = self.clock.monotonic();
        {
            let mut tidied_at = self.tidied_at.lock();
            if tidied_at.is_some_and(|at| now < at.saturating_add(TIDY_EVERY)) {
                return;
            }
            *tidied_at = Some(now);
        }
        let tidy = self.sql.tidy.scalar::<bool>().bind(TIDY_BATCH).fetch_one(&self.connections);
        match tidy.await {
            // There is more than one batch: the next call goes on.
            Ok(true) => *self.tidied_at.lock() = None,
            Ok(false) => {}
            Err(error) => tracing::debug!(reason = reason(&error), "tidying up is put off"),
        }
        self.move_old_logs().await;
        if let Err(trouble) = self.review_now_and_then().await {
            let reason = weaver_core::error::Error::from(trouble).to_string();
            tracing::debug!(reason, "unreadable records are looked at again later");
        }
    }

    /// Gives the room of rows that are gone back to their tables. The server's own vacuum looks once a
    /// minute, in which a busy queue leaves many times its size behind; what it finds in order it leaves
    /// alone, and so does this.
    async fn vacuum_now_and_then(&self) {
        let now = self.clock.monotonic();
        {
            let mut vacuumed_at = self.vacuumed_at.lock();
            if vacuumed_at.is_some_and(|at| now < at.saturating_add(VACUUM_EVERY)) {
                return;
            }
            *vacuumed_at = Some(now);
        }
        let worn = self
            .sql
            .worn_tables
            .scalar::<String>()
            .bind(&self.options.schema)
            .bind(DEAD_ROWS_MIN)
            .fetch_all(&self.connections);
        for table in worn.await.unwrap_or_default() {
            // Nobody waits for it, and it waits for nobody.
            let text = format!("VACUUM (SKIP_LOCKED, TRUNCATE OFF) {}.{table}", self.options.schema);
            if let Err(error) = self.connections.execute_bare(text).await {
                tracing::debug!(reason = reason(&error), table, "vacuuming is left to the server");
            }
        }
    }
}

fn settings_of(row: &PgRow) -> Outcome<QueueSettings> {
    let max_running: Option<i64> = row.try_get(2)?;
    let max_running = max_running.map(u32::try_from).transpose().map_err(Trouble::unreadable)?;
    let settings = QueueSettings { paused: row.try_get(1)?, max_running };
    settings.validate()?;
    Ok(settings)
}
