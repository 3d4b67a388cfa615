//! The port `Assignments` over the state.

use async_trait::async_trait;

use crate::error::Result;
use crate::ports::{AssignableRequest, Assignments};
use crate::queue::memory::{InMemoryQueue, check_limit};
use crate::task::TaskRecord;

#[async_trait]
impl Assignments for InMemoryQueue {
    async fn assignable(&self, requests: Vec<AssignableRequest>) -> Result<Vec<Vec<TaskRecord>>> {
        self.limits.check_batch("requests", requests.len())?;
        for (index, request) in requests.iter().enumerate() {
            request.validate().map_err(|invalid| invalid.at(index))?;
        }
        Ok(self.with(|state| {
            let found = requests.iter().map(|request| state.index.assignable(request));
            found
                .map(|ids| ids.into_iter().filter_map(|id| state.records.get(id).cloned()).collect())
                .collect()
        }))
    }

    async fn assignments(&self, limit: u32) -> Result<Vec<TaskRecord>> {
        check_limit(limit)?;
        let mut records: Vec<TaskRecord> = self.with(|state| {
            state.index.assigned_or_orphaned().filter_map(|id| state.records.get(id).cloned()).collect()
        });
        records.sort_by_key(|record| (record.updated_at, record.key.id));
        records.truncate(limit as usize);
        Ok(records)
    }
}
