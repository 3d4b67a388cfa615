//! The port `Tasks`: reads of single tasks, groups, counts and queue positions.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::Row;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, TaskGroupId};
use weaver_core::ports::{Ahead, Counts, Cursor, GroupSummary, Page, Scope, StateCounts, TaskQuery, Tasks};
use weaver_core::task::{TaskRecord, TaskState};

use super::{after, cut};
use crate::PostgresStore;
use crate::error::StoreFault;
use crate::types::At;

#[async_trait]
impl Tasks for PostgresStore {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        // Ids are drawn from a sequence: no other client assigns ids.
        let id = |text: &String| text.parse::<TaskId>().ok();
        Ok(ids.iter().map(|text| id(text).map(|id| TaskKey::new(namespace.clone(), id))).collect())
    }

    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        self.options.limits.check_batch("keys", keys.len())?;
        Ok(self.read(keys).await?)
    }

    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        check_page(limit)?;
        let after = after(cursor)?;
        Ok(self.groups(namespace, &after, limit).await?)
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        query.validate()?;
        Ok(self.list(&query).await?)
    }

    async fn counts(&self, scope: Scope) -> Result<Counts> {
        Ok(self.count(&scope).await?)
    }

    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
        if cap == 0 {
            let problem = Problem::OutOfRange { value: 0, min: 1, max: u32::MAX.into() };
            return Err(Invalid::new("cap", problem).into());
        }
        Ok(self.ahead(key, cap).await?)
    }
}

impl PostgresStore {
    /// Reads live and finished runs in one snapshot, so that a run that ends meanwhile is found in exactly
    /// one table.
    pub(crate) async fn read(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>, StoreFault> {
        let known = |key: &&TaskKey| i64::try_from(key.id.0).is_ok();
        let namespaces: Vec<&str> = keys.iter().filter(known).map(|key| key.namespace.as_str()).collect();
        let ids: Vec<i64> = keys.iter().filter(known).map(|key| key.id.0 as i64).collect();
        if ids.is_empty() {
            return Ok(vec![None; keys.len()]);
        }
        let rows = self.sql.get.query().bind(namespaces).bind(ids).fetch_all(&self.connections).await?;
        let records = self.records(&rows).0.into_iter();
        let found: HashMap<TaskKey, TaskRecord> =
            records.map(|record| (record.key.clone(), record)).collect();
        self.forget_missing(keys, &rows);
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    async fn groups(
        &self,
        namespace: &Namespace,
        after: &str,
        limit: u32,
    ) -> Result<Page<GroupSummary>, StoreFault> {
        let (mut after, mut items) = (after.to_owned(), Vec::new());
        loop {
            let (found, last) = self.groups_after(namespace, &after, limit as i32 + 1).await?;
            items.extend(found);
            match last {
                // Invalid names were skipped: the page is filled from the rows after them.
                Some(last) if items.len() <= limit as usize => after = last,
                _ => break,
            }
        }
        let next = cut(&mut items, limit, |group| group.id.to_string());
        Ok(Page { items, next, complete: true })
    }

    /// Groups after a name, and the last name read if there may be more.
    async fn groups_after(
        &self,
        namespace: &Namespace,
        after: &str,
        count: i32,
    ) -> Result<(Vec<GroupSummary>, Option<String>), StoreFault> {
        let groups = self.sql.groups.query().bind(namespace.as_str()).bind(after).bind(count);
        let rows = groups.fetch_all(&self.connections).await?;
        let mut items = Vec::with_capacity(rows.len());
        let mut last = None;
        for row in &rows {
            let name = row.try_get::<String, _>(0)?;
            last = Some(name.clone()).filter(|_| rows.len() == count as usize);
            // Its tasks are unreadable as well, and are quarantined when they are read.
            let Ok(id) = TaskGroupId::new(name) else { continue };
            let (states, numbers): (Vec<i16>, Vec<i64>) = (row.try_get(1)?, row.try_get(2)?);
            let mut counts = StateCounts::default();
            for (state, number) in states.into_iter().zip(numbers) {
                add(&mut counts, state, number);
            }
            items.push(GroupSummary { id, counts, last_at: row.try_get::<At, _>(3)?.0 });
        }
        Ok((items, last))
    }

    async fn count(&self, scope: &Scope) -> Result<Counts, StoreFault> {
        let (namespace, queue) = match scope {
            Scope::Namespace(namespace) => (namespace, None),
            Scope::Queue(namespace, queue) => (namespace, Some(queue.as_str())),
        };
        let rows =
            self.sql.counts.query().bind(namespace.as_str()).bind(queue).fetch_all(&self.connections).await?;
        let mut values = StateCounts::default();
        let mut queues: Vec<String> = Vec::new();
        for row in &rows {
            let name: String = row.try_get(0)?;
            let (state, count): (i16, i64) = (row.try_get(1)?, row.try_get(2)?);
            add(&mut values, state, count);
            if matches!(state, 0 | 1 | 5) && !queues.contains(&name) {
                queues.push(name);
            }
        }
        let row = self
            .sql
            .oldest_ready_at
            .query()
            .bind(namespace.as_str())
            .bind(queues)
            .fetch_one(&self.connections)
            .await?;
        let (as_of, oldest) = (row.try_get::<At, _>(0)?.0, row.try_get::<Option<At>, _>(1)?);
        Ok(Counts { values, oldest_ready_at: oldest.map(|at| at.0), as_of, exact: true })
    }

    async fn ahead(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>, StoreFault> {
        let Ok(id) = i64::try_from(key.id.0) else { return Ok(None) };
        let count: Option<i64> = self
            .sql
            .ahead_of
            .scalar()
            .bind(key.namespace.as_str())
            .bind(id)
            .bind(i32::try_from(cap).unwrap_or(i32::MAX))
            .fetch_one(&self.connections)
            .await?;
        let ahead = |count: i64| {
            let count = u32::try_from(count).unwrap_or(cap).min(cap);
            Ahead { count, capped: count == cap }
        };
        Ok(count.map(ahead))
    }
}

/// Adds to a count by the number of the state; an unknown number is ignored.
pub(super) fn add(counts: &mut StateCounts, state: i16, count: i64) {
    let state = usize::try_from(state).ok().and_then(|index| TaskState::ALL.get(index));
    if let (Some(state), Ok(count)) = (state, u64::try_from(count)) {
        counts.add_many(*state, count);
    }
}
