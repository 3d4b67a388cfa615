//! Looking at the state: lists, counts, positions.

use std::ops::Bound;

use crate::error::{Invalid, Problem, Result};
use crate::id::{TaskId, TaskKey};
use crate::name::{Namespace, TaskGroupId};
use crate::ports::{
    Ahead, Counts, Cursor, GroupSummary, Order, Page, QueueInfo, Scope, Selector, StateCounts, TaskQuery,
};
use crate::queue::memory::lane::ReadyEntry;
use crate::queue::memory::records::Slot;
use crate::queue::memory::state::InMemoryQueueState;
use crate::queue::memory::take::is_true;
use crate::task::TaskRecord;

impl InMemoryQueueState {
    /// The record of a task, if it is of that namespace (G9).
    pub(super) fn get(&self, key: &TaskKey) -> Option<&TaskRecord> {
        let record = &self.records.get(key.id)?.record;
        (record.key.namespace == key.namespace).then_some(record)
    }

    pub(super) fn list_tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord>> {
        query.validate()?;
        let after = query.cursor.as_ref().map(parse_cursor).transpose()?;
        if let Selector::SerialKey(key) = &query.selector {
            let members = self.gates.get(&query.namespace, key).map(|gate| &gate.members);
            let ids: Vec<_> = members.into_iter().flatten().copied().collect();
            let slots = ids.iter().filter_map(|id| self.records.get(*id));
            return Ok(match query.order {
                Order::OldestFirst => {
                    page(query, slots.filter(|slot| after.is_none_or(|id| slot.record.key.id > id)))
                }
                Order::NewestFirst => {
                    page(query, slots.rev().filter(|slot| after.is_none_or(|id| slot.record.key.id < id)))
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

    /// Counts are kept, not taken: the cost is that of a few queues, whatever the number of records.
    pub(super) fn counts(&mut self, scope: &Scope) -> Counts {
        let numbers: Vec<u32> = match scope {
            Scope::Namespace(namespace) => {
                self.queues.of_namespace(namespace).map(|(number, _)| number).collect()
            }
            Scope::Queue(namespace, queue) => self.queues.number(namespace, queue).into_iter().collect(),
        };
        let mut values = StateCounts::default();
        let mut oldest: Option<ReadyEntry> = None;
        for number in numbers {
            values += self.queues.get(number).counts;
            for lane in 0..self.queues.get(number).lanes.list().len() {
                let first = self.first_of(number, lane);
                oldest = [oldest, first].into_iter().flatten().min();
            }
        }
        Counts { values, oldest_ready_at: oldest.map(|entry| entry.ready_at), as_of: self.now, exact: true }
    }

    pub(super) fn ahead_of(&self, key: &TaskKey, cap: u32) -> Option<Ahead> {
        let record = self.get(key)?;
        if !record.state.is_waiting() {
            return None;
        }
        let slot = self.records.get(key.id)?;
        let entry = ReadyEntry { ready_at: record.ready_at, id: key.id };
        let lanes = self.queues.get(slot.queue).lanes.list();
        let more_urgent = lanes.iter().filter(|(lane, _)| lane.priority < record.spec.priority);
        let as_urgent = lanes.iter().filter(|(lane, _)| lane.priority == record.spec.priority);
        let last = ReadyEntry { ready_at: crate::time::Timestamp::MAX, id: TaskId(u64::MAX) };
        let before = more_urgent.flat_map(|(_, lane)| lane.before(last));
        let before = before.chain(as_urgent.flat_map(|(_, lane)| lane.before(entry)));
        let true_ones = before.filter(|other| is_true(&self.records, &self.gates, *other));
        let in_queue = true_ones.take(cap as usize).count();
        let gate = record.spec.serial_key.as_ref().and_then(|serial| self.gates.get(&key.namespace, serial));
        // Those of its key that go first are at least as many as stand before it in the queue, or the other way round.
        let count = in_queue.max(gate.map_or(0, |gate| gate.due_before(key.id))).min(cap as usize);
        Some(Ahead { count: count as u32, capped: count == cap as usize })
    }

    pub(super) fn list_queues(&self, namespace: &Namespace) -> Vec<QueueInfo> {
        let queues = self.queues.of_namespace(namespace).map(|(_, queue)| queue);
        let info = queues.map(|queue| QueueInfo {
            name: queue.name.clone(),
            settings: queue.settings,
            version: queue.version,
            occupied: queue.occupied,
        });
        info.collect()
    }
}

fn parse_cursor(cursor: &Cursor) -> Result<TaskId, Invalid> {
    cursor.0.parse().map_err(|_| Invalid::new("cursor", Problem::UnknownCursor))
}

/// Fills a page from records in the order of the query, looking at no more than `scan_max` of them.
fn page<'a>(query: &TaskQuery, mut slots: impl Iterator<Item = &'a Slot>) -> Page<TaskRecord> {
    let mut items = Vec::new();
    let mut last = None;
    for _ in 0..query.scan_max {
        let Some(slot) = slots.next() else { return Page { items, next: None, complete: true } };
        let record = &slot.record;
        last = Some(record.key.id);
        if record.key.namespace == query.namespace
            && query.selector.selects(record)
            && query.filter.keeps(record)
        {
            items.push(record.clone());
            if items.len() == query.limit as usize {
                let next = slots.next().and(last).map(Cursor::from);
                return Page { items, next, complete: true };
            }
        }
    }
    let next = slots.next().and(last).map(Cursor::from);
    Page { items, complete: next.is_none(), next }
}
