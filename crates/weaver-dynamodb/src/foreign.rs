//! Items of other clients, which know only seed 000: they are found, adopted, and expired with their runner.

use std::collections::HashMap;
use std::time::Duration;

use weaver_core::error::Result;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lifecycle::OverdueReason;
use weaver_core::name::WorkerId;
use weaver_core::ports::{ALIVE_WITHIN, RunnerKey};
use weaver_core::projection::queue_item::Status;
use weaver_core::queue::Overdue;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::{Monotonic, Timestamp};

use crate::codec::foreign::{FOREIGN_TOKEN, is_adopted, is_moved};
use crate::codec::record::name_of;
use crate::codec::value::{Attributes, s};
use crate::db::{Index, Item, Query, Table, Write, Written};
use crate::keys;
use crate::store::{DynamoStore, Stored};

/// Interval at which a process polls for other clients' tasks: seed 000's polling interval.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Items read per query: the index projects all attributes, and each is paid for.
const PAGE: u32 = 25;

/// Positions of this process's polls.
#[derive(Debug, Default)]
pub(crate) struct PollState {
    polled_at: Option<Monotonic>,
    queued: Option<Item>,
    running: Option<Item>,
    /// Plans without leased tasks: revision, and since when.
    pub(crate) dangling_plans: HashMap<LeaseToken, (u64, Monotonic)>,
}

impl DynamoStore {
    /// Polls for tasks enqueued by other clients, if due, and adopts them: reads the newest items, where a
    /// new task mostly is, and one page further on, so that none is missed behind many of ours.
    pub(crate) async fn adopt_if_due(&self) -> Result<()> {
        let now = self.clock.monotonic();
        let start = {
            let mut poll_state = self.poll_state.lock();
            if poll_state.polled_at.is_some_and(|at| at.saturating_add(POLL_EVERY) > now) {
                return Ok(());
            }
            poll_state.polled_at = Some(now);
            poll_state.queued.take()
        };
        let query = Query::index(Index::Status, Status::Queued.as_str()).limit(PAGE);
        let newest = self.db.query(query.clone().backward()).await?;
        let mut items = newest.items;
        if newest.next.is_some() {
            let further = self.db.query(query.after(start)).await?;
            self.poll_state.lock().queued = further.next;
            items.extend(further.items);
        }
        for item in items.into_iter().filter(|item| !is_adopted(item)) {
            let name = item.text("task_id").unwrap_or_default().to_owned();
            if let Err(error) = self.adopt(item, &name).await {
                // One bad item must not block the others.
                tracing::warn!(%error, task_id = %name, "adopting another client's task failed");
            }
        }
        Ok(())
    }

    /// Adopts another client's item as a task, by one conditional write.
    async fn adopt(&self, item: Item, name: &str) -> Result<()> {
        let Some(stored) = self.read(vec![item]).await?.pop() else { return Ok(()) };
        self.announce().await?;
        if !self.note_name(&stored.record).await? {
            return Ok(());
        }
        self.put_entries(&stored.record).await?;
        if self.reconcile(stored).await? {
            tracing::info!(task_id = %name, "adopted a task enqueued by another client");
        }
        Ok(())
    }

    /// Stores the name of a task that another client named; `false` if another name hashes to the same id.
    pub(crate) async fn note_name(&self, record: &TaskRecord) -> Result<bool> {
        if !record.key.id.is_foreign() || self.names.lock().contains_key(&record.key) {
            return Ok(true);
        }
        let name = name_of(record);
        let mut item = keys::data(&keys::foreign(&record.key.namespace), &keys::padded(record.key.id.0));
        item.put_text("name", name.as_str());
        let write = Write::put(Table::Data, item)
            .when("attribute_not_exists(pk) OR #name = :name")
            .name("#name", "name")
            .value(":name", s(name.as_str()));
        match self.db.write(write).await? {
            Written::Applied(_) => {
                self.names.lock().insert(record.key.clone(), name);
                Ok(true)
            }
            Written::ConditionFailed | Written::Conflict => {
                tracing::error!(task_id = %name, "task name hashes to another task's id: rename one of them");
                Ok(false)
            }
        }
    }

    /// Running tasks whose seed-only runner is dead: no heartbeat for seed 000's two minutes.
    pub(crate) async fn overdue_foreign(&self, limit: usize) -> Result<Vec<Overdue>> {
        let start = self.poll_state.lock().running.take();
        let query = Query::index(Index::Status, Status::Running.as_str()).limit(PAGE);
        let found = self.db.query(query.after(start)).await?;
        self.poll_state.lock().running = found.next;
        let others = |item: &Item| !is_adopted(item) || is_moved(item);
        let suspects: Vec<TaskKey> = found
            .items
            .iter()
            .filter(|item| others(item))
            .filter_map(|item| crate::codec::record::key_of(item).ok())
            .collect();
        let mut overdue = Vec::new();
        let names = found.items.iter().filter(|item| others(item)).cloned().collect();
        for stored in self.read(names).await? {
            self.note_name(&stored.record).await?;
        }
        for stored in self.load(&suspects).await?.into_values() {
            if overdue.len() < limit && self.is_given_up(&stored).await? {
                overdue.push(Overdue { record: stored.record, reason: OverdueReason::Lease });
            }
        }
        Ok(overdue)
    }

    async fn is_given_up(&self, stored: &Stored) -> Result<bool> {
        let record = &stored.record;
        let Some(held) = record.lease.as_ref().filter(|held| held.token == FOREIGN_TOKEN) else {
            return Ok(false);
        };
        let now = self.now();
        if record.state != TaskState::Running || now.since(record.updated_at) < ALIVE_WITHIN {
            return Ok(false);
        }
        let runner = RunnerKey { namespace: record.key.namespace.clone(), runner_id: held.worker.clone() };
        let found = self.db.get(Table::Runners, vec![keys::runner(&runner)]).await?;
        Ok(!found.first().is_some_and(|item| is_alive(item, now)))
    }

    /// Live runners that know only seed 000: they ignore delays, serial keys and pauses.
    ///
    /// # Errors
    /// If DynamoDB is unavailable.
    pub async fn foreign_runners(&self, namespace: &weaver_core::name::Namespace) -> Result<Vec<WorkerId>> {
        let now = self.now();
        let items = self.query_all(Query::table(Table::Runners, namespace.as_str())).await?;
        let foreign = items.iter().filter(|item| !item.contains_key("queues") && is_alive(item, now));
        Ok(foreign.filter_map(|item| WorkerId::try_from(item.text("runner_id")?).ok()).collect())
    }
}

/// Seed 000's rule: not stopped, and the last heartbeat is less than two minutes old.
fn is_alive(item: &Item, now: Timestamp) -> bool {
    let beat: Option<Timestamp> = item.text("last_heartbeat").and_then(|text| text.parse().ok());
    item.text("status") == Some("running") && beat.is_some_and(|beat| now.since(beat) < ALIVE_WITHIN)
}
