//! Lists tasks, by the namespace's partition or by index entries.

use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::name::{Namespace, TaskGroupId};
use weaver_core::ports::{Cursor, GroupSummary, Order, Page, Selector, StateCounts, TaskQuery};
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use crate::codec::value::Attributes;
use crate::db::{Query, Range, Table};
use crate::keys;
use crate::store::DynamoStore;

/// Records read per request.
const PAGE: usize = 100;

impl DynamoStore {
    pub(super) async fn list(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        let after = query.cursor.as_ref().map(check_cursor).transpose()?;
        let partition = match &query.selector {
            Selector::All | Selector::State(_) | Selector::Type(_) | Selector::Queue(_) => {
                return self.list_namespace(&query, after).await;
            }
            Selector::SerialKey(key) => {
                let ids = self.gate_tasks(&query.namespace, key).await?;
                return self.list_ids(&query, after, ids).await;
            }
            Selector::Worker(worker) => {
                let ids = self.held_by(&query.namespace, worker).await?;
                return self.list_ids(&query, after, ids).await;
            }
            Selector::Group(group) => keys::entries("group", &query.namespace, group.as_str()),
            Selector::Session(session) => keys::entries("session", &query.namespace, session.as_str()),
            Selector::Label(name, value) => {
                keys::entries("label", &query.namespace, &keys::join(&[name, value]))
            }
        };
        let items = self.query_all(Query::table(Table::Data, partition)).await?;
        let ids = items.iter().filter_map(|item| item.text("sk")?.parse().ok().map(TaskId)).collect();
        self.list_ids(&query, after, ids).await
    }

    /// Reads the namespace's partition; tasks that do not match are read and paid for as well.
    async fn list_namespace(&self, query: &TaskQuery, after: Option<String>) -> Result<Page<TaskRecord>> {
        let (limit, scan_max) = (query.limit as usize, query.scan_max as usize);
        let mut page = Page { items: Vec::new(), next: None, complete: true };
        let mut scanned = 0;
        let mut position = after;
        loop {
            let range = match (&position, query.order) {
                (None, _) => Range::All,
                (Some(after), Order::OldestFirst) => Range::After(after.clone()),
                (Some(after), Order::NewestFirst) => Range::Before(after.clone()),
            };
            let some = (scan_max - scanned).clamp(1, PAGE);
            let read = Query::table(Table::Queue, query.namespace.as_str()).range(range).limit(some as u32);
            let read = if query.order == Order::OldestFirst { read } else { read.backward() };
            let found = self.db.query(read).await?;
            let last = found.next.is_none();
            for item in found.items {
                let name = item.text("task_id").unwrap_or_default().to_owned();
                if page.items.len() == limit {
                    page.next = position.map(Cursor);
                    return Ok(page);
                }
                scanned += 1;
                for stored in self.read(vec![item]).await? {
                    if query.selector.selects(&stored.record) && query.filter.keeps(&stored.record) {
                        self.note_name(&stored.record.key).await?;
                        page.items.push(stored.record);
                    }
                }
                position = Some(name);
            }
            if last {
                return Ok(page);
            }
            if scanned >= scan_max || page.items.len() == limit {
                page.complete = page.items.len() == limit;
                page.next = position.map(Cursor);
                return Ok(page);
            }
        }
    }

    /// Reads tasks by id, in order.
    async fn list_ids(
        &self,
        query: &TaskQuery,
        after: Option<String>,
        mut ids: Vec<TaskId>,
    ) -> Result<Page<TaskRecord>> {
        let after = after.map(|name| TaskId::of_text(&name));
        ids.sort_unstable();
        ids.dedup();
        if query.order == Order::NewestFirst {
            ids.reverse();
        }
        ids.retain(|id| match (after, query.order) {
            (None, _) => true,
            (Some(after), Order::OldestFirst) => *id > after,
            (Some(after), Order::NewestFirst) => *id < after,
        });
        let mut page = Page { items: Vec::new(), next: None, complete: true };
        let mut scanned = 0;
        let mut last: Option<Cursor> = None;
        for some in ids.chunks(PAGE) {
            let wanted: Vec<_> = some.iter().map(|id| TaskKey::new(query.namespace.clone(), *id)).collect();
            let mut found = self.load(&wanted).await?;
            for key in wanted {
                if page.items.len() == query.limit as usize || scanned == query.scan_max as usize {
                    page.complete = page.items.len() == query.limit as usize;
                    page.next = last;
                    return Ok(page);
                }
                scanned += 1;
                let Some(stored) = found.remove(&key) else { continue };
                last = Some(Cursor(crate::codec::record::name_of(&stored.record)));
                if query.selector.selects(&stored.record) && query.filter.keeps(&stored.record) {
                    page.items.push(stored.record);
                }
            }
        }
        Ok(page)
    }

    pub(super) async fn groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        let mut page = Page { items: Vec::new(), next: None, complete: true };
        let mut position = cursor.map(|Cursor(text)| text);
        loop {
            let range = position.clone().map_or(Range::All, Range::After);
            let found = self
                .db
                .query(Query::table(Table::Data, keys::groups(namespace)).range(range).limit(100))
                .await?;
            let last = found.next.is_none();
            for item in found.items {
                let name = item.text("sk").unwrap_or_default().to_owned();
                if page.items.len() == limit as usize {
                    page.next = position.map(Cursor);
                    return Ok(page);
                }
                if let Ok(id) = TaskGroupId::try_from(name.as_str()) {
                    page.items.extend(self.group(namespace, id).await?);
                }
                position = Some(name);
            }
            if last {
                return Ok(page);
            }
        }
    }

    /// The summary of a group; `None` if all its tasks were purged.
    async fn group(&self, namespace: &Namespace, id: TaskGroupId) -> Result<Option<GroupSummary>> {
        let partition = keys::entries("group", namespace, id.as_str());
        let items = self.query_all(Query::table(Table::Data, partition)).await?;
        let tasks: Vec<_> = items
            .iter()
            .filter_map(|item| Some(TaskKey::new(namespace.clone(), TaskId(item.text("sk")?.parse().ok()?))))
            .collect();
        let found = self.load(&tasks).await?;
        let mut counts = StateCounts::default();
        let mut last_at = Timestamp::MIN;
        for stored in found.values() {
            counts.add(stored.record.state);
            last_at = last_at.max(stored.record.updated_at);
        }
        Ok((!found.is_empty()).then_some(GroupSummary { id, counts, last_at }))
    }
}

/// A cursor is the name of a task.
fn check_cursor(cursor: &Cursor) -> Result<String, Invalid> {
    let is_name = !cursor.0.is_empty() && !cursor.0.chars().any(char::is_control);
    if is_name { Ok(cursor.0.clone()) } else { Err(Invalid::new("cursor", Problem::UnknownCursor)) }
}
