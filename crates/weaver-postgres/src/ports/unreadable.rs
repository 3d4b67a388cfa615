//! The port `UnreadableRecords`: list, show and discard records that this process cannot read.

use async_trait::async_trait;
use sqlx::Row;
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page, UnreadableRecords};
use weaver_core::quarantine::{Discarded, Quarantined, RawTask, RecordKind};

use super::log_files::remove;
use crate::PostgresStore;
use crate::error::StoreFault;

#[async_trait]
impl UnreadableRecords for PostgresStore {
    async fn list_quarantined(
        &self,
        namespace: Option<&Namespace>,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>> {
        self.quarantine.page(namespace, cursor, limit)
    }

    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>> {
        let find = |key: &TaskKey| self.quarantine.get(&key.namespace, RecordKind::Task, &key.id.to_string());
        Ok(keys.iter().map(find).collect())
    }

    async fn raw_task(&self, key: &TaskKey) -> Result<Option<RawTask>> {
        Ok(self.raw(key).await?)
    }

    async fn discard_task(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded> {
        Ok(self.retry_transient(|| self.discard(key, expected)).await?)
    }
}

impl PostgresStore {
    async fn raw(&self, key: &TaskKey) -> Result<Option<RawTask>, StoreFault> {
        let Ok(id) = i64::try_from(key.id.0) else { return Ok(None) };
        let raw = self.sql.raw_run.scalar::<Option<String>>().bind(key.namespace.as_str()).bind(id);
        Ok(raw.fetch_one(&self.connections).await?.map(|text| RawTask { text }))
    }

    async fn discard(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded, StoreFault> {
        let Ok(id) = i64::try_from(key.id.0) else { return Ok(Discarded::Missing) };
        let discard = self.sql.discard.query().bind(key.namespace.as_str()).bind(id).bind(&expected.text);
        let row = discard.fetch_one(&self.connections).await?;
        let answer = match row.try_get::<&str, _>(0)? {
            "removed" => Discarded::Removed,
            "changed" => return Ok(Discarded::Changed),
            _ => Discarded::Missing,
        };
        self.quarantine.remove(&key.namespace, RecordKind::Task, &key.id.to_string());
        remove(&row.try_get::<Option<Vec<String>>, _>(1)?.unwrap_or_default());
        // A free key or slot is work for a waiting worker.
        self.hints.work_ready();
        Ok(answer)
    }
}
