//! The port `Tasks`.

use async_trait::async_trait;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, TaskGroupId};
use weaver_core::ports::{Ahead, Counts, Cursor, GroupSummary, Page, Scope, TaskQuery, Tasks};
use weaver_core::task::TaskRecord;

use crate::EmbeddedStore;
use crate::codec::decode_group;
use crate::keys;
use crate::ports::check_limit;
use crate::rows;
use crate::unreadable::decode;

#[async_trait]
impl Tasks for EmbeddedStore {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        // Only Weaver writes to this file, so there are no foreign ids to resolve.
        let id = |text: &String| text.parse::<TaskId>().ok();
        Ok(ids.iter().map(|text| id(text).map(|id| TaskKey::new(namespace.clone(), id))).collect())
    }

    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        self.options.limits.check_batch("keys", keys.len())?;
        let read = self.read(|table| {
            let mut found = Vec::with_capacity(keys.len());
            let mut last: Option<(&Namespace, Option<u32>)> = None;
            for key in keys {
                let number = match last {
                    Some((namespace, number)) if *namespace == key.namespace => number,
                    _ => rows::namespace_number(table, &key.namespace)?,
                };
                last = Some((&key.namespace, number));
                found.push(match number {
                    Some(number) => self.find(table, &key.namespace, number, key.id)?,
                    None => None,
                });
            }
            Ok(found)
        });
        read.await
    }

    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        check_page(limit)?;
        if let Some(Cursor(text)) = &cursor {
            TaskGroupId::new(text.clone()).map_err(|_| Invalid::new("cursor", Problem::UnknownCursor))?;
        }
        let read = self.read(|table| {
            let Some(number) = rows::namespace_number(table, namespace)? else { return Ok(None) };
            let prefix = keys::of_namespace(keys::GROUP, number);
            let page = rows::page_by_name(table, &prefix, "", cursor.as_ref(), limit, |name, value| {
                let key = keys::named(keys::GROUP, number, name);
                let id = TaskGroupId::try_from(name).ok()?;
                // Counts, not a record: an unreadable group is skipped here and reported by `check`.
                let stored = decode(&key, value, decode_group).ok()?;
                Some(GroupSummary { id, counts: stored.counts, last_at: stored.last_at })
            });
            page.map(Some)
        });
        Ok(read.await?.unwrap_or(Page { items: Vec::new(), next: None, complete: true }))
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        self.list(query).await
    }

    async fn counts(&self, scope: Scope) -> Result<Counts> {
        self.read_memory(move |work| Ok(work.memory.index.counts(&scope))).await
    }

    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
        check_limit(cap)?;
        let key = key.clone();
        self.read_memory(move |work| {
            let index = &work.memory.index;
            let there = index.namespace_of(key.id).is_some_and(|namespace| *namespace == key.namespace);
            Ok(if there { index.ahead_of(key.id, cap) } else { None })
        })
        .await
    }
}
