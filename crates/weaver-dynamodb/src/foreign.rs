//! Items that others write, who know only seed 000: found, adopted, and given up with their runner.

use std::collections::HashMap;
use std::time::Duration;

use weaver_core::error::Result;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lifecycle::OverdueWhy;
use weaver_core::name::WorkerId;
use weaver_core::ports::{ALIVE_WITHIN, RunnerKey};
use weaver_core::projection::queue_item::Status;
use weaver_core::queue::Overdue;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::{Monotonic, Timestamp};

use crate::codec::foreign::{NOBODYS_TOKEN, is_adopted, is_moved};
use crate::codec::record::name_of;
use crate::codec::value::{Attributes, s};
use crate::db::{Index, Item, Query, Table, Write, Written};
use crate::keys;
use crate::store::{DynamoStore, Stored};

/// How often a process looks for tasks of others: seed 000's polling interval.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many items a look reads at each place: the index has all attributes, and each is paid for.
const PAGE: u32 = 25;

/// How far this process's looks have come.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    looked_at: Option<Monotonic>,
    queued: Option<Item>,
    running: Option<Item>,
    /// Plans with nothing under them, and since when.
    pub(crate) moot_plans: HashMap<LeaseToken, (u64, Monotonic)>,
}

impl DynamoStore {
    /// Looks for tasks that others have put into the queue, if it is time, and adopts them: the newest first,
    /// as a new one is mostly among them, and a page further on, so that none is missed behind many of ours.
    pub(crate) async fn adopt_if_due(&self) -> Result<()> {
        let now = self.clock.monotonic();
        let start = {
            let mut rounds = self.rounds.lock();
            if rounds.looked_at.is_some_and(|at| at.saturating_add(LOOK_EVERY) > now) {
                return Ok(());
            }
            rounds.looked_at = Some(now);
            rounds.queued.take()
        };
        let query = Query::index(Index::Status, Status::Queued.as_str()).limit(PAGE);
        let newest = self.db.query(query.clone().backward()).await?;
        let mut items = newest.items;
        if newest.next.is_some() {
            let further = self.db.query(query.after(start)).await?;
            self.rounds.lock().queued = further.next;
            items.extend(further.items);
        }
        for item in items.into_iter().filter(|item| !is_adopted(item)) {
            let name = item.text("task_id").unwrap_or_default().to_owned();
            if let Err(error) = self.adopt(item, &name).await {
                // One bad item must not keep the others from being found, nor tasks from being leased.
                tracing::warn!(%error, task_id = %name, "an item that cannot be adopted");
            }
        }
        Ok(())
    }

    /// Makes a task of ours out of somebody else's item, by one conditional write.
    async fn adopt(&self, item: Item, name: &str) -> Result<()> {
        let Some(stored) = self.read(vec![item]).await?.pop() else { return Ok(()) };
        self.announce().await?;
        if !self.note_name(&stored.record).await? {
            return Ok(());
        }
        self.put_entries(&stored.record).await?;
        if self.settle(stored).await? {
            tracing::info!(task_id = %name, "adopted a task that another client put into the queue");
        }
        Ok(())
    }

    /// Notes the own name of a task that somebody else named; `false` if another name has its number.
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
            Written::Done(_) => {
                self.names.lock().insert(record.key.clone(), name);
                Ok(true)
            }
            Written::Refused | Written::Busy => {
                tracing::error!(task_id = %name, "another task's name has the same number: rename one of them");
                Ok(false)
            }
        }
    }

    /// Tasks that a runner of somebody else's had when it vanished: they end with seed 000's two minutes.
    pub(crate) async fn overdue_foreign(&self, limit: usize) -> Result<Vec<Overdue>> {
        let start = self.rounds.lock().running.take();
        let query = Query::index(Index::Status, Status::Running.as_str()).limit(PAGE);
        let found = self.db.query(query.after(start)).await?;
        self.rounds.lock().running = found.next;
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
                overdue.push(Overdue { record: stored.record, why: OverdueWhy::Lease });
            }
        }
        Ok(overdue)
    }

    async fn is_given_up(&self, stored: &Stored) -> Result<bool> {
        let record = &stored.record;
        let Some(held) = record.lease.as_ref().filter(|held| held.token == NOBODYS_TOKEN) else {
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

    /// Runners that are alive and know only seed 000: they take tasks without regard to delays, keys and
    /// pauses.
    pub async fn foreign_runners(&self, namespace: &weaver_core::name::Namespace) -> Result<Vec<WorkerId>> {
        let now = self.now();
        let items = self.query_all(Query::table(Table::Runners, namespace.as_str())).await?;
        let foreign = items.iter().filter(|item| !item.contains_key("queues") && is_alive(item, now));
        Ok(foreign.filter_map(|item| WorkerId::try_from(item.text("runner_id")?).ok()).collect())
    }
}

/// Seed 000's rule: it has not stopped, and its last heartbeat is less than two minutes old.
fn is_alive(item: &Item, now: Timestamp) -> bool {
    let beat: Option<Timestamp> = item.text("last_heartbeat").and_then(|text| text.parse().ok());
    item.text("status") == Some("running") && beat.is_some_and(|beat| now.since(beat) < ALIVE_WITHIN)
}
