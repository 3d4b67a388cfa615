//! Listing tasks: each selector has an index, and a time range becomes a range of ids.
//!
//! ```text
//! type, queue, group, session, label, final state  ─▶ index rows   ┐
//! all                                              ─▶ spec rows    ├─ ids in order ─▶ records ─▶ filter ─▶ page
//! live state, serial key                           ─▶ the index    ┘
//! ```

use std::ops::Bound;

use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::id::TaskId;
use weaver_core::ports::{Cursor, Order, Page, Selector, TaskFilter, TaskQuery};
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use crate::EmbeddedStore;
use crate::codec::decode_spec;
use crate::fault::{StoreFault, StoreResult};
use crate::keys;
use crate::rows::{self, Rows};
use crate::store::Snapshot;
use crate::unreadable::decode;
use crate::work::decode_counters;

/// The ids a page may be filled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: TaskId,
    to: TaskId,
}

impl EmbeddedStore {
    pub(super) async fn list(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        query.validate()?;
        let after = query.cursor.as_ref().map(parse_cursor).transpose()?;
        let Some(span) = Span::of(query.order, after) else { return Ok(empty()) };
        let candidates = self.candidates(&query, span).await?;
        let page = self.read(|table| {
            let Some(number) = rows::namespace_number(table, &query.namespace)? else { return Ok(empty()) };
            match &candidates {
                Some(ids) => self.fill(table, &query, number, ids.iter().map(|id| Ok(*id))),
                None => self.fill_from_rows(table, &query, number, span),
            }
        });
        page.await
    }

    /// Ids from the in-memory index, in order; one more than `scan_max`, so that the page knows whether there
    /// are more.
    async fn candidates(&self, query: &TaskQuery, span: Span) -> Result<Option<Vec<TaskId>>> {
        let wanted = match &query.selector {
            Selector::State(state) if !state.is_terminal() => query.selector.clone(),
            Selector::SerialKey(_) | Selector::Worker(_) => query.selector.clone(),
            _ => return Ok(None),
        };
        let (namespace, order) = (query.namespace.clone(), query.order);
        let count = query.scan_max as usize + 1;
        let ids = self.read_memory(move |work| {
            let index = &work.memory.index;
            let in_order = |ids: &mut dyn DoubleEndedIterator<Item = TaskId>| -> Vec<TaskId> {
                match order {
                    Order::OldestFirst => ids.take(count).collect(),
                    Order::NewestFirst => ids.rev().take(count).collect(),
                }
            };
            Ok(match &wanted {
                Selector::SerialKey(key) => {
                    let members = index.members(&namespace, key);
                    in_order(&mut members.filter(|id| *id >= span.from && *id <= span.to))
                }
                Selector::State(state) => {
                    in_order(&mut index.in_state(&namespace, *state, span.from, span.to))
                }
                Selector::Worker(_) => {
                    let held = index.held(&namespace, span.from, span.to);
                    in_order(&mut held.into_iter())
                }
                _ => Vec::new(),
            })
        });
        ids.await.map(Some)
    }
}

impl Span {
    fn of(order: Order, after: Option<TaskId>) -> Option<Self> {
        let (first, last) = (TaskId(0), TaskId(u64::MAX));
        match (order, after) {
            (_, None) => Some(Self { from: first, to: last }),
            (Order::OldestFirst, Some(id)) => Some(Self { from: TaskId(id.0.checked_add(1)?), to: last }),
            (Order::NewestFirst, Some(id)) => Some(Self { from: first, to: TaskId(id.0.checked_sub(1)?) }),
        }
    }

    /// Restricts the range to tasks created within the filter's times: ids are assigned in order of time.
    fn within(self, table: &Snapshot, number: u32, filter: &TaskFilter) -> StoreResult<Self> {
        if filter.created_from.is_none() && filter.created_before.is_none() {
            return Ok(self);
        }
        let counters = rows::read(table, &keys::meta("counters"), decode_counters)?.unwrap_or_default();
        if !counters.in_time_order {
            return Ok(self);
        }
        let mut span = self;
        if let Some(instant) = filter.created_from
            && let Some(first) = first_created_at(table, number, instant, counters.next_task)?
        {
            span.from = span.from.max(first);
        }
        if let Some(instant) = filter.created_before
            && let Some(end) = first_created_at(table, number, instant, counters.next_task)?
        {
            span.to = span.to.min(TaskId(end.0.saturating_sub(1)));
        }
        Ok(span)
    }
}

/// The first id created at or after an instant, by binary search (about thirty lookups). `None` if a spec on
/// the way cannot be read.
fn first_created_at(
    table: &impl Rows,
    number: u32,
    instant: Timestamp,
    end: u64,
) -> StoreResult<Option<TaskId>> {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        let from = Bound::Included(keys::task(keys::SPEC, number, TaskId(middle)).to_vec());
        let prefix = keys::of_namespace(keys::SPEC, number);
        let next = rows::scan(table, &prefix, from, Bound::Unbounded)?.next().transpose()?;
        let Some((key, value)) = next else {
            high = middle;
            continue;
        };
        let created_at = decode(key.value(), value.value(), decode_spec).map(|(_, created_at)| created_at);
        match (keys::id_of(key.value()), created_at) {
            // Its time is unknown: the caller scans all tasks.
            (_, Err(_)) => return Ok(None),
            (Some(id), Ok(created_at)) if created_at < instant => low = id.0 + 1,
            _ => high = middle,
        }
    }
    Ok(Some(TaskId(low)))
}

impl EmbeddedStore {
    fn fill_from_rows(
        &self,
        table: &Snapshot,
        query: &TaskQuery,
        number: u32,
        span: Span,
    ) -> StoreResult<Page<TaskRecord>> {
        let span = span.within(table, number, &query.filter)?;
        let prefix = keys::lookup_prefix(number, &query.selector);
        let prefix = prefix.unwrap_or_else(|| keys::of_namespace(keys::SPEC, number));
        let bound = |id: TaskId| Bound::Included([&prefix[..], &id.0.to_be_bytes()].concat());
        // Only the key is needed here; whether the task matches is decided on its own rows.
        let rows = rows::scan(table, &prefix, bound(span.from), bound(span.to))?.map(|row| {
            let (key, _) = row?;
            keys::id_of(key.value()).ok_or_else(|| StoreFault::damaged(key.value(), "it has no id"))
        });
        match query.order {
            Order::OldestFirst => self.fill(table, query, number, rows),
            Order::NewestFirst => self.fill(table, query, number, rows.rev()),
        }
    }

    /// Fills a page from ids in query order, reading at most `scan_max` of them.
    fn fill(
        &self,
        table: &Snapshot,
        query: &TaskQuery,
        number: u32,
        mut ids: impl Iterator<Item = StoreResult<TaskId>>,
    ) -> StoreResult<Page<TaskRecord>> {
        let mut items = Vec::new();
        let mut last = None;
        for _ in 0..query.scan_max {
            let Some(id) = ids.next() else { return Ok(Page { items, next: None, complete: true }) };
            let id = id?;
            last = Some(id);
            let Some(record) = self.find(table, &query.namespace, number, id)? else { continue };
            if query.selector.selects(&record) && query.filter.keeps(&record) {
                items.push(record);
                if items.len() == query.limit as usize {
                    let next = ids.next().transpose()?.and(last).map(Cursor::from);
                    return Ok(Page { items, next, complete: true });
                }
            }
        }
        let next = ids.next().transpose()?.and(last).map(Cursor::from);
        Ok(Page { items, complete: next.is_none(), next })
    }
}

fn parse_cursor(cursor: &Cursor) -> Result<TaskId, Invalid> {
    cursor.0.parse().map_err(|_| Invalid::new("cursor", Problem::UnknownCursor))
}

fn empty() -> Page<TaskRecord> {
    Page { items: Vec::new(), next: None, complete: true }
}
