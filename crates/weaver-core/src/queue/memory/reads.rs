//! Reads of the state: records, lists, groups.

use std::ops::Bound;

use crate::error::{Invalid, Problem, Result};
use crate::id::{TaskId, TaskKey};
use crate::name::{Namespace, TaskGroupId};
use crate::ports::{Cursor, GroupSummary, Order, Page, Selector, TaskQuery};
use crate::queue::memory::state::InMemoryQueueState;
use crate::task::TaskRecord;

impl InMemoryQueueState {
    /// The record of a task, if it is in that namespace (G9).
    pub(super) fn get(&self, key: &TaskKey) -> Option<&TaskRecord> {
        let record = self.records.get(key.id)?;
        (record.key.namespace == key.namespace).then_some(record)
    }

    pub(super) fn list_tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord>> {
        query.validate()?;
        let after = query.cursor.as_ref().map(parse_cursor).transpose()?;
        let by_index: Option<Vec<TaskId>> = match &query.selector {
            Selector::SerialKey(key) => Some(self.index.members(&query.namespace, key).collect()),
            Selector::Worker(_) => Some(self.index.held(&query.namespace, TaskId(0), TaskId(u64::MAX))),
            _ => None,
        };
        if let Some(ids) = by_index {
            let records = ids.into_iter().filter_map(|id| self.records.get(id));
            return Ok(match query.order {
                Order::OldestFirst => {
                    page(query, records.filter(|record| after.is_none_or(|id| record.key.id > id)))
                }
                Order::NewestFirst => {
                    page(query, records.rev().filter(|record| after.is_none_or(|id| record.key.id < id)))
                }
            });
        }
        Ok(match (query.order, after) {
            (Order::OldestFirst, after) => {
                let from = after.map_or(TaskId(0), |id| TaskId(id.0.saturating_add(1)));
                page(query, self.records.ascending(from))
            }
            (Order::NewestFirst, None) => page(query, self.records.descending(TaskId(self.next_id))),
            (Order::NewestFirst, Some(TaskId(0))) => page(query, std::iter::empty()),
            (Order::NewestFirst, Some(id)) => page(query, self.records.descending(TaskId(id.0 - 1))),
        })
    }

    pub(super) fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<GroupSummary>> {
        let start = match cursor {
            Some(Cursor(text)) => {
                let id =
                    TaskGroupId::new(text).map_err(|_| Invalid::new("cursor", Problem::UnknownCursor))?;
                Bound::Excluded((namespace.clone(), id))
            }
            // No group's id is smaller than this one.
            None => Bound::Included((namespace.clone(), TaskGroupId::new(" ")?)),
        };
        let groups = self.groups.range((start, Bound::Unbounded));
        let mut groups = groups.take_while(|((owner, _), _)| owner == namespace);
        let items: Vec<_> = groups
            .by_ref()
            .take(limit)
            .map(|((_, id), group)| GroupSummary {
                id: id.clone(),
                counts: group.counts,
                last_at: group.last_at,
            })
            .collect();
        let next = groups.next().and(items.last()).map(|last| Cursor(last.id.to_string()));
        Ok(Page { items, next, complete: true })
    }
}

fn parse_cursor(cursor: &Cursor) -> Result<TaskId, Invalid> {
    cursor.0.parse().map_err(|_| Invalid::new("cursor", Problem::UnknownCursor))
}

/// Fills a page from records in the order of the query, reading at most `scan_max` of them.
fn page<'a>(query: &TaskQuery, mut records: impl Iterator<Item = &'a TaskRecord>) -> Page<TaskRecord> {
    let mut items = Vec::new();
    let mut last = None;
    for _ in 0..query.scan_max {
        let Some(record) = records.next() else { return Page { items, next: None, complete: true } };
        last = Some(record.key.id);
        if record.key.namespace == query.namespace
            && query.selector.selects(record)
            && query.filter.keeps(record)
        {
            items.push(record.clone());
            if items.len() == query.limit as usize {
                let next = records.next().and(last).map(Cursor::from);
                return Page { items, next, complete: true };
            }
        }
    }
    let next = records.next().and(last).map(Cursor::from);
    Page { items, complete: next.is_none(), next }
}
