//! The port `Assignments`: what a leader reads.

use async_trait::async_trait;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::ports::{AssignableRequest, Assignments};
use weaver_core::task::TaskRecord;

use crate::PostgresStore;
use crate::error::StoreFault;
use crate::row::RUN_FORMAT;

#[async_trait]
impl Assignments for PostgresStore {
    async fn assignable(&self, requests: Vec<AssignableRequest>) -> Result<Vec<Vec<TaskRecord>>> {
        self.options.limits.check_batch("requests", requests.len())?;
        for (index, request) in requests.iter().enumerate() {
            request.validate().map_err(|invalid| invalid.at(index))?;
        }
        let mut found = Vec::with_capacity(requests.len());
        for request in &requests {
            found.push(self.assignable_tasks(request).await?);
        }
        Ok(found)
    }

    async fn assignments(&self, limit: u32) -> Result<Vec<TaskRecord>> {
        if limit == 0 {
            let problem = Problem::OutOfRange { value: 0, min: 1, max: u32::MAX.into() };
            return Err(Invalid::new("limit", problem).into());
        }
        let assigned = self.sql.assignments.query().bind(i64::from(limit)).bind(RUN_FORMAT);
        let rows = assigned.fetch_all(&self.connections).await.map_err(StoreFault::from)?;
        Ok(self.records(&rows).0)
    }
}

impl PostgresStore {
    async fn assignable_tasks(&self, request: &AssignableRequest) -> Result<Vec<TaskRecord>, StoreFault> {
        let queues: Vec<&str> = request.queues.iter().map(|queue| queue.as_str()).collect();
        let types: Option<Vec<&str>> =
            request.types.as_ref().map(|types| types.iter().map(|name| name.as_str()).collect());
        let rows = self
            .sql
            .assignable
            .query()
            .bind(request.namespace.as_str())
            .bind(queues)
            .bind(types)
            .bind(i32::try_from(request.max).unwrap_or(i32::MAX))
            .bind(RUN_FORMAT)
            .bind(self.skipped(&request.namespace))
            .fetch_all(&self.connections)
            .await?;
        Ok(self.records(&rows).0)
    }
}
