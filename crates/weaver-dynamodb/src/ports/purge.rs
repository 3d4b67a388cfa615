//! Purges finished tasks. A task's side items are removed before it, so that an interrupted purge is found
//! and repeated.

use std::collections::HashSet;

use futures_util::stream::{self, StreamExt};
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::id::TaskKey;
use weaver_core::ports::{PurgeRule, Purged, StreamKey};
use weaver_core::projection::queue_item::Status;
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

use crate::codec::foreign::is_adopted;
use crate::codec::record::{key_of, name_of};
use crate::codec::value::{Attributes, iso, n};
use crate::db::{Index, Query, Range, Table, Write, Written};
use crate::keys;
use crate::ports::CONCURRENCY_MAX;
use crate::ports::enqueue::entries_of;
use crate::ports::overdue::data_key;
use crate::store::{DynamoStore, Stored};

impl DynamoStore {
    pub(super) async fn purge(&self, rule: &PurgeRule, limit: u32) -> Result<Purged> {
        if limit == 0 {
            let problem = Problem::OutOfRange { value: 0, min: 1, max: u32::MAX.into() };
            return Err(Invalid::new("limit", problem).into());
        }
        let limit = limit as usize;
        let mut seen = HashSet::new();
        let mut count = 0;
        // Tasks that this process finished recently may not be in the index yet.
        let recent = self.overlay.lock().ended();
        if self.purge_some(rule, recent, limit, &mut seen, &mut count).await? {
            return Ok(Purged { count, more: true });
        }
        let cut = self.now().saturating_sub(rule.finished_for);
        for status in statuses(rule.state) {
            // A task that finished before the cut was created before it.
            let range = Range::Before(format!("{}~", iso(cut)));
            let query = Query::index(Index::Status, status.as_str()).range(range).limit(100);
            let mut start = None;
            loop {
                let found = self.db.query(query.clone().after(start)).await?;
                let ours = found.items.iter().filter(|item| is_adopted(item));
                let tasks: Vec<TaskKey> = ours.filter_map(|item| key_of(item).ok()).collect();
                if self.purge_some(rule, tasks, limit, &mut seen, &mut count).await? {
                    return Ok(Purged { count, more: true });
                }
                match found.next {
                    Some(next) => start = Some(next),
                    None => break,
                }
            }
        }
        self.flush_counts_if_due().await;
        Ok(Purged { count, more: false })
    }

    /// Removes those of the tasks that match the rule; `true` if there are more than the limit allows.
    async fn purge_some(
        &self,
        rule: &PurgeRule,
        tasks: Vec<TaskKey>,
        limit: usize,
        seen: &mut HashSet<TaskKey>,
        count: &mut u32,
    ) -> Result<bool> {
        let tasks: Vec<TaskKey> = tasks.into_iter().filter(|task| seen.insert(task.clone())).collect();
        let mut found: Vec<Stored> = self.load(&tasks).await?.into_values().collect();
        found.sort_by(|one, other| one.record.key.cmp(&other.record.key));
        let now = self.now();
        found.retain(|stored| is_meant(rule, stored, now));
        let room = limit - *count as usize;
        let more = found.len() > room;
        found.truncate(room);
        let removed: Vec<Result<bool>> = stream::iter(found)
            .map(|stored| async move { self.purge_one(&stored).await })
            .buffer_unordered(CONCURRENCY_MAX)
            .collect()
            .await;
        for removed in removed {
            *count += u32::from(removed?);
        }
        Ok(more)
    }

    async fn purge_one(&self, stored: &Stored) -> Result<bool> {
        let record = &stored.record;
        let namespace = &record.key.namespace;
        let mut side = Vec::new();
        for item in self.query_all(Query::table(Table::Data, keys::texts(&record.key))).await? {
            side.push(data_key(&item));
        }
        side.extend(self.stream_keys(&record.key).await?);
        let entry = keys::padded(record.key.id.0);
        side.extend(entries_of(namespace, record).iter().map(|partition| keys::data(partition, &entry)));
        self.db.remove(Table::Data, side).await?;
        let version = stored.item.number("version").unwrap_or_default();
        let delete = Write::delete(Table::Queue, keys::task(namespace, &name_of(record)))
            .when("version = :version AND attribute_not_exists(lease_token)")
            .value(":version", n(version));
        let done = matches!(self.db.write(delete).await?, Written::Applied(_));
        if done {
            self.deltas.lock().add(record, -1);
            self.overlay.lock().removed(&record.key);
            self.forget(&record.key);
        }
        Ok(done)
    }

    /// The items of a task's streams.
    pub(super) async fn stream_keys(&self, task: &TaskKey) -> Result<Vec<crate::db::Item>> {
        let namespace = &task.namespace;
        let query = Query::table(Table::Data, keys::heads(namespace));
        let heads = self.query_all(query.range(Range::BeginsWith(StreamKey::of_task(task)))).await?;
        let mut wanted = Vec::new();
        for head in heads {
            let stream = StreamKey::new(namespace.clone(), head.text("sk").unwrap_or_default());
            for chunk in self.query_all(Query::table(Table::Data, keys::stream(&stream))).await? {
                wanted.push(data_key(&chunk));
            }
            wanted.push(data_key(&head));
        }
        Ok(wanted)
    }
}

/// Whether a rule matches a task: finished long enough ago, without a cancellation hold. Items that were not
/// adopted belong to other clients.
fn is_meant(rule: &PurgeRule, stored: &Stored, now: Timestamp) -> bool {
    let record = &stored.record;
    record.finished_at.is_some_and(|at| at.saturating_add(rule.finished_for) <= now)
        && rule.namespace.as_ref().is_none_or(|namespace| record.key.namespace == *namespace)
        && rule.queue.as_ref().is_none_or(|queue| record.spec.queue == *queue)
        && rule.state.is_none_or(|state| record.state == state)
        && !record.has_hold()
        && is_adopted(&stored.item)
}

fn statuses(state: Option<TaskState>) -> Vec<Status> {
    match state {
        Some(TaskState::Succeeded) => vec![Status::Complete],
        Some(TaskState::Dead) => vec![Status::Error],
        Some(TaskState::Cancelled) => vec![Status::Cancelled],
        _ => vec![Status::Complete, Status::Error, Status::Cancelled],
    }
}
