//! The port `Assignments`, and the tasks of a worker.
//!
//! A task that is assigned and not started has an entry in one partition, written in the same transaction: few
//! tasks are at a time. A leader reads all of it.

use std::collections::HashSet;

use async_trait::async_trait;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::ports::{AssignableRequest, Assignments};
use weaver_core::queue::Queue;
use weaver_core::task::{DispatchFilter, TaskRecord, TaskState};

use crate::codec::value::{Attributes, n};
use crate::db::{Item, Query, Range, Table, Write};
use crate::keys;
use crate::leases::Plan;
use crate::ports::choose::pick;
use crate::ports::ready::{DueSearch, sources};
use crate::store::DynamoStore;

#[async_trait]
impl Assignments for DynamoStore {
    async fn assignable(&self, requests: Vec<AssignableRequest>) -> Result<Vec<Vec<TaskRecord>>> {
        self.limits().check_batch("requests", requests.len())?;
        for (index, request) in requests.iter().enumerate() {
            request.validate().map_err(|invalid| invalid.at(index))?;
        }
        let mut found = Vec::with_capacity(requests.len());
        for request in &requests {
            found.push(self.assignable_tasks(request).await?);
        }
        Ok(found)
    }

    async fn assignments(&self, limit: u32) -> Result<Vec<TaskRecord>> {
        if limit == 0 {
            let problem = Problem::OutOfRange { value: 0, min: 1, max: u32::MAX.into() };
            return Err(Invalid::new("limit", problem).into());
        }
        let entries = self.query_all(Query::table(Table::Data, keys::UNSTARTED)).await?;
        let wanted: Vec<TaskKey> = entries.iter().filter_map(task_of).collect();
        let mut tasks = self.load(&wanted).await?;
        let mut records = Vec::with_capacity(wanted.len());
        for key in wanted {
            match tasks.remove(&key) {
                Some(stored) if matches!(stored.record.state, TaskState::Assigned | TaskState::Orphaned) => {
                    records.push(stored.record);
                }
                _ if self.is_quarantined(&key) => {}
                // Its writer stopped between the transition and the removal.
                _ => {
                    self.drop_entry(entries.iter().find(|entry| task_of(entry).as_ref() == Some(&key))).await;
                }
            }
        }
        records.sort_by_key(|record| (record.updated_at, record.key.id));
        records.truncate(limit as usize);
        Ok(records)
    }
}

impl DynamoStore {
    async fn assignable_tasks(&self, request: &AssignableRequest) -> Result<Vec<TaskRecord>> {
        self.adopt_if_due(&request.namespace, &request.queues, request.types.as_deref()).await?;
        let states = self.queue_states(&request.namespace, &request.queues).await?;
        let sources = sources(&request.namespace, &request.queues, &states, DispatchFilter::Assigned);
        let except = HashSet::new();
        let search = DueSearch {
            namespace: &request.namespace,
            types: request.types.as_deref(),
            max: request.max as usize,
            // A leader assigns fragile tasks too: their worker starts them at once.
            slots: u32::MAX,
            except: &except,
            now: self.now(),
        };
        let due = self.due_in(&search, &sources).await?;
        let chosen: Vec<TaskKey> =
            pick(&due.tasks, &sources, &search).into_iter().map(|ready| ready.key).collect();
        let mut tasks = self.load(&chosen).await?;
        Ok(chosen.iter().filter_map(|key| Some(tasks.remove(key)?.record)).collect())
    }

    /// Removes an entry that is out of date, unless it has changed since.
    async fn drop_entry(&self, entry: Option<&Item>) {
        let Some((key, version)) = entry.and_then(|entry| Some((task_of(entry)?, entry.number("version")?)))
        else {
            return;
        };
        let write = Write::delete(Table::Data, keys::unstarted(&key)).when("version = :seen");
        self.write_best_effort(write.value(":seen", n(version))).await;
    }

    /// The tasks that are assigned to a worker, by their entries.
    pub(super) async fn assigned_to(&self, namespace: &Namespace, worker: &WorkerId) -> Result<Vec<TaskId>> {
        let prefix = keys::join(&[namespace.as_str(), ""]);
        let query = Query::table(Table::Data, keys::UNSTARTED).range(Range::BeginsWith(prefix));
        let entries = self.query_all(query).await?;
        let is_its = |entry: &&Item| entry.text("worker") == Some(worker.as_str());
        Ok(entries.iter().filter(is_its).filter_map(task_of).map(|key| key.id).collect())
    }

    /// The tasks that a worker may have: assigned to it, or leased by it.
    pub(super) async fn held_by(&self, namespace: &Namespace, worker: &WorkerId) -> Result<Vec<TaskId>> {
        let mut held = self.assigned_to(namespace, worker).await?;
        for shard in 0..keys::LEASE_SHARDS {
            let plans = self.query_all(Query::table(Table::Data, keys::lease_partition(shard))).await?;
            let plans = plans.iter().filter_map(Plan::of);
            let its = plans.filter(|plan| plan.worker == *worker && plan.namespace == *namespace);
            held.extend(its.flat_map(|plan| plan.tasks.into_iter().map(|(id, _)| id)));
        }
        Ok(held)
    }
}

fn task_of(entry: &Item) -> Option<TaskKey> {
    let parts = keys::split(entry.text("sk")?);
    let [namespace, id] = parts.as_slice() else { return None };
    Some(TaskKey::new(Namespace::try_from(*namespace).ok()?, TaskId(id.parse().ok()?)))
}
