//! The port `Runners`: heartbeats and directives of workers.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::error::Result;
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::ports::{Beat, Cursor, Directive, Page, RunnerKey, RunnerRecord, RunnerStatus, Runners};
use weaver_core::quarantine::{Quarantined, RecordKind};

use super::after;
use crate::PostgresStore;
use crate::error::StoreFault;
use crate::row::undecodable;
use crate::types::{At, storable};

#[async_trait]
impl Runners for PostgresStore {
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        self.options.limits.check_batch("beats", beats.len())?;
        for (index, beat) in beats.iter().enumerate() {
            beat.validate().map_err(|invalid| invalid.at(index))?;
        }
        let mut directives = Vec::with_capacity(beats.len());
        for beat in &beats {
            directives.push(self.retry_transient(|| self.beat_one(beat)).await?);
        }
        Ok(directives)
    }

    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
        let set = self
            .sql
            .set_directive
            .query()
            .bind(key.namespace.as_str())
            .bind(key.runner_id.as_str())
            .bind(directive.as_str());
        set.execute(&self.connections).await.map_err(StoreFault::from)?;
        Ok(())
    }

    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>> {
        check_page(limit)?;
        let page = self.runner_page(namespace, &after(cursor)?, limit).await?;
        page.unreadable.into_iter().for_each(|finding| self.quarantine.add(finding));
        Ok(Page { items: page.items, next: page.next.map(Cursor), complete: true })
    }

    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        let stop = self.sql.stop_runner.query();
        let stop = stop.bind(key.namespace.as_str()).bind(key.runner_id.as_str());
        stop.execute(&self.connections).await.map_err(StoreFault::from)?;
        Ok(())
    }
}

/// A page of workers.
pub(crate) struct RunnerPage {
    items: Vec<RunnerRecord>,
    pub(crate) unreadable: Vec<Quarantined>,
    /// The id the next page begins after.
    pub(crate) next: Option<String>,
}

impl PostgresStore {
    /// Workers after an id. An unreadable one counts as absent until its next heartbeat, which rewrites its
    /// row.
    pub(crate) async fn runner_page(
        &self,
        namespace: &Namespace,
        after: &str,
        limit: u32,
    ) -> Result<RunnerPage, StoreFault> {
        let list = self.sql.list_runners.query().bind(namespace.as_str()).bind(after);
        let rows = list.bind(i64::from(limit) + 1).fetch_all(&self.connections).await?;
        let mut page = RunnerPage { items: Vec::new(), unreadable: Vec::new(), next: None };
        for row in rows.iter().take(limit as usize) {
            let id: String = row.try_get(0)?;
            match runner(namespace, row) {
                Ok(item) => {
                    self.quarantine.remove(namespace, RecordKind::Runner, &id);
                    page.items.push(item);
                }
                Err(fault) => {
                    let (why, found_at) = (undecodable(fault), self.clock.now());
                    let kind = RecordKind::Runner;
                    page.unreadable.push(Quarantined::new(kind, namespace.clone(), &id, why, found_at));
                }
            }
            // An invalid name would be refused as a cursor.
            if rows.len() > limit as usize && weaver_core::name::name_problem(&id).is_none() {
                page.next = Some(id);
            }
        }
        Ok(page)
    }

    async fn beat_one(&self, beat: &Beat) -> Result<Directive, StoreFault> {
        let queues: Vec<&str> = beat.queues.iter().map(|name| name.as_str()).collect();
        let types: Option<Vec<&str>> =
            beat.types.as_ref().map(|types| types.iter().map(|name| name.as_str()).collect());
        let directive: String = self
            .sql
            .heartbeat
            .scalar()
            .bind(beat.key.namespace.as_str())
            .bind(beat.key.runner_id.as_str())
            .bind(beat.project_root.as_deref().map(|path| storable(path).into_owned()))
            .bind(At(beat.started_at))
            .bind(queues)
            .bind(types)
            .bind(i64::from(beat.capacity))
            .bind(i64::from(beat.running))
            .bind(beat.draining)
            .bind(beat.every.map(|every| i64::try_from(every.as_millis()).unwrap_or(i64::MAX)))
            .fetch_one(&self.connections)
            .await?;
        Ok(Directive::of_word(&directive))
    }
}

pub(crate) fn runner(namespace: &Namespace, row: &PgRow) -> Result<RunnerRecord, StoreFault> {
    let runner_id = WorkerId::new(row.try_get::<String, _>(0)?).map_err(StoreFault::unreadable)?;
    let queues = names(row.try_get(3)?, QueueName::new)?;
    let types: Option<Vec<String>> = row.try_get(4)?;
    let types = types.map(|types| names(types, TaskType::new)).transpose()?;
    let number = |at: usize| -> Result<u32, sqlx::Error> {
        Ok(u32::try_from(row.try_get::<i64, _>(at)?).unwrap_or(u32::MAX))
    };
    let beat = Beat {
        key: RunnerKey { namespace: namespace.clone(), runner_id },
        project_root: row.try_get(1)?,
        started_at: row.try_get::<At, _>(2)?.0,
        queues,
        types,
        capacity: number(5)?,
        running: number(6)?,
        draining: row.try_get(7)?,
        every: row.try_get::<Option<i64>, _>(11)?.map(|ms| Duration::from_millis(ms.unsigned_abs())),
    };
    let status = match row.try_get::<&str, _>(8)? {
        "stopped" => RunnerStatus::Stopped,
        _ => RunnerStatus::Running,
    };
    let directive = Directive::of_word(row.try_get(9)?);
    Ok(RunnerRecord { beat, last_heartbeat: row.try_get::<At, _>(10)?.0, status, directive })
}

fn names<T>(
    texts: Vec<String>,
    make: impl Fn(String) -> Result<T, weaver_core::error::Invalid>,
) -> Result<Vec<T>, StoreFault> {
    texts.into_iter().map(|text| make(text).map_err(StoreFault::unreadable)).collect()
}
