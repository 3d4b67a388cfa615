//! The ports `Tasks` and `Admin` over the state.

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::error::Result;
use crate::id::{TaskId, TaskKey, Version};
use crate::limits::check_page;
use crate::name::{Namespace, QueueName};
use crate::ports::{
    Admin, Ahead, Counts, Cursor, Expect, GroupSummary, Page, PurgeRule, Purged, QueueInfo, QueueSettings,
    Scope, TaskQuery, Tasks,
};
use crate::queue::memory::{InMemoryQueue, check_limit};
use crate::task::TaskRecord;

#[async_trait]
impl Tasks for InMemoryQueue {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        // No other client writes into this memory, so there are no external ids.
        let id = |text: &String| text.parse::<TaskId>().ok();
        Ok(ids.iter().map(|text| id(text).map(|id| TaskKey::new(namespace.clone(), id))).collect())
    }

    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        self.limits.check_batch("keys", keys.len())?;
        Ok(self.with(|state| keys.iter().map(|key| state.get(key).cloned()).collect()))
    }

    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        check_page(limit)?;
        self.with(|state| state.list_groups(namespace, cursor, limit as usize))
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        self.with(|state| state.list_tasks(&query))
    }

    async fn counts(&self, scope: Scope) -> Result<Counts> {
        Ok(self.with(|state| state.index.counts(&scope)))
    }

    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
        check_limit(cap)?;
        Ok(self.with(|state| {
            state.get(key)?;
            state.index.ahead_of(key.id, cap)
        }))
    }
}

#[async_trait]
impl Admin for InMemoryQueue {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        Ok(self.with(|state| state.index.list_queues(namespace)))
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        self.with(|state| state.index.put_queue(namespace, queue, settings, expect))
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        check_limit(limit)?;
        self.with(|state| state.purge(&rule, limit as usize))
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        check_page(limit)?;
        let mut names: BTreeSet<Namespace> = self.with(|state| state.index.namespaces().cloned().collect());
        names.extend(self.documents.lock().namespaces().cloned());
        names.extend(self.runners.lock().namespaces().cloned());
        let after = cursor.map(|Cursor(text)| text);
        let mut names =
            names.into_iter().filter(|name| after.as_deref().is_none_or(|after| name.as_str() > after));
        let items: Vec<_> = names.by_ref().take(limit as usize).collect();
        let next = names.next().and(items.last()).map(|last| Cursor(last.to_string()));
        Ok(Page { items, next, complete: true })
    }
}
