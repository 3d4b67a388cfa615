//! The port `Assignments`.

use async_trait::async_trait;
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::ports::{AssignableRequest, Assignments, Tasks};
use weaver_core::task::TaskRecord;

use crate::EmbeddedStore;
use crate::ports::check_limit;

#[async_trait]
impl Assignments for EmbeddedStore {
    async fn assignable(&self, requests: Vec<AssignableRequest>) -> Result<Vec<Vec<TaskRecord>>> {
        self.options.limits.check_batch("requests", requests.len())?;
        for (index, request) in requests.iter().enumerate() {
            request.validate().map_err(|invalid| invalid.at(index))?;
        }
        let find = move |work: &mut crate::work::Work<'_>| {
            let index = &work.memory.index;
            let keys = |request: &AssignableRequest| -> Vec<TaskKey> {
                let ids = index.assignable(request).into_iter();
                ids.map(|id| TaskKey::new(request.namespace.clone(), id)).collect()
            };
            Ok(requests.iter().map(keys).collect::<Vec<_>>())
        };
        let mut found = Vec::new();
        for keys in self.read_memory(find).await? {
            found.push(self.records_of(&keys).await?);
        }
        Ok(found)
    }

    async fn assignments(&self, limit: u32) -> Result<Vec<TaskRecord>> {
        check_limit(limit)?;
        let find = |work: &mut crate::work::Work<'_>| {
            let index = &work.memory.index;
            let key = |id| Some(TaskKey::new(index.namespace_of(id)?.clone(), id));
            Ok(index.assigned_or_orphaned().filter_map(key).collect::<Vec<_>>())
        };
        let keys = self.read_memory(find).await?;
        let mut records = self.records_of(&keys).await?;
        records.sort_by_key(|record| (record.updated_at, record.key.id));
        records.truncate(limit as usize);
        Ok(records)
    }
}

impl EmbeddedStore {
    /// The records of tasks; without those that are gone or unreadable.
    async fn records_of(&self, keys: &[TaskKey]) -> Result<Vec<TaskRecord>> {
        let mut records = Vec::with_capacity(keys.len());
        for keys in keys.chunks(self.options.limits.max_batch.max(1)) {
            records.extend(self.get_tasks(keys).await?.into_iter().flatten());
        }
        Ok(records)
    }
}
