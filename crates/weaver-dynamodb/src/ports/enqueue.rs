//! Enqueues tasks: one conditional put each, or one transaction with a unique or serial key.

use futures_util::stream::{self, StreamExt};
use weaver_core::error::Result;
use weaver_core::id::TaskId;
use weaver_core::id::TaskKey;
use weaver_core::lifecycle::admit;
use weaver_core::name::Namespace;
use weaver_core::queue::{Enqueued, Queue};
use weaver_core::task::validate_batch;
use weaver_core::task::{NewTask, TaskRecord, ValidTask};

use crate::codec::value::{Attributes, n, us};
use crate::db::{Item, Table, Transacted, Write, Written};
use crate::gate;
use crate::keys;
use crate::ports::CONCURRENCY_MAX;
use crate::records::too_contended;
use crate::store::{DynamoStore, Stored};

/// Maximum number of attempts to store a task when its id or keys are contended.
const TRIES_MAX: u32 = 20;

impl DynamoStore {
    pub(super) async fn enqueue_all(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        let tasks = validate_batch(tasks, &self.limits())?;
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        self.announce().await?;
        let now = self.now();
        // Before anything is stored: ids are drawn in order, and invalid tasks fail the batch.
        let mut records = Vec::with_capacity(tasks.len());
        for (index, task) in tasks.into_iter().enumerate() {
            records.push(admit_at(task, self.ids.draw(now), index, now)?);
        }
        let mut answers: Vec<Option<Result<Enqueued>>> = vec![None; records.len()];
        let (alone, keyed): (Vec<_>, Vec<_>) = records
            .into_iter()
            .enumerate()
            .partition(|(_, record)| !record.spec.has_unique_keys() && record.spec.serial_key.is_none());
        let mut stored: Vec<(usize, Result<Stored>)> = stream::iter(alone)
            .map(|(index, record)| async move { (index, self.store_alone(record).await) })
            .buffer_unordered(CONCURRENCY_MAX)
            .collect()
            .await;
        stored.sort_by_key(|(index, _)| *index);
        for (index, stored) in stored {
            answers[index] = Some(stored.map(|stored| {
                self.moved(None, &stored);
                Enqueued { key: stored.record.key, existing: false }
            }));
        }
        // Sequential: a later member with the same unique key finds the earlier one.
        for (index, record) in keyed {
            answers[index] = Some(self.store_keyed(record).await);
        }
        self.flush_counts_if_due().await;
        Ok(answers.into_iter().flatten().collect())
    }

    async fn store_alone(&self, mut record: TaskRecord) -> Result<Stored> {
        for attempt in 0..TRIES_MAX {
            // Repeated for each new id, which the entries contain.
            self.put_entries(&record).await?;
            let item = self.prepare(&record, None).await?;
            let write = Write::put(Table::Queue, item.clone()).when("attribute_not_exists(task_id)");
            match self.db.write(write).await? {
                Written::Applied(_) => return Ok(Stored { item, record }),
                Written::ConditionFailed => record.key.id = self.ids.draw(self.now()),
                Written::Conflict => crate::db::backoff(attempt).await,
            }
        }
        Err(too_contended(&record.key))
    }

    async fn store_keyed(&self, mut record: TaskRecord) -> Result<Enqueued> {
        if let Some(first) = self.first_of(&record).await? {
            return Ok(Enqueued { key: first, existing: true });
        }
        for attempt in 0..TRIES_MAX {
            self.put_entries(&record).await?;
            let item = self.prepare(&record, None).await?;
            let mut writes =
                vec![Write::put(Table::Queue, item.clone()).when("attribute_not_exists(task_id)")];
            writes.extend(self.unique_writes(&record));
            writes.extend(gate::arrival(&record));
            match self.db.transact(writes).await? {
                Transacted::Applied => {}
                Transacted::ConditionFailed(_) => {
                    if let Some(first) = self.first_of(&record).await? {
                        return Ok(Enqueued { key: first, existing: true });
                    }
                    record.key.id = self.ids.draw(self.now());
                    continue;
                }
                Transacted::Conflict => {
                    crate::db::backoff(attempt).await;
                    continue;
                }
            }
            let stored = Stored { item, record };
            self.moved(None, &stored);
            return Ok(Enqueued { key: stored.record.key, existing: false });
        }
        Err(too_contended(&record.key))
    }

    /// The existing task with one of the record's unique keys (G8).
    async fn first_of(&self, record: &TaskRecord) -> Result<Option<TaskKey>> {
        let namespace = &record.key.namespace;
        let wanted: Vec<Item> =
            record.spec.unique_keys().map(|unique| keys::unique(namespace, &unique)).collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let now = self.now();
        let found = self.db.get(Table::Data, wanted.clone()).await?;
        let live = |item: &&Item| item.instant("expires_at_us").is_some_and(|at| at > now);
        let first = wanted.iter().find_map(|key| {
            let same = |item: &&Item| item.text("pk") == key.text("pk");
            found.iter().filter(live).find(same).and_then(|item| item.number("task"))
        });
        Ok(first.map(|id| TaskKey::new(namespace.clone(), TaskId(id))))
    }

    fn unique_writes(&self, record: &TaskRecord) -> Vec<Write> {
        let now = self.now();
        let until = now.saturating_add(self.options.idempotency_ttl.max(self.options.retention));
        let write = |unique| {
            let mut item = keys::unique(&record.key.namespace, &unique);
            item.put_number("task", record.key.id.0);
            item.insert("expires_at_us".to_owned(), us(until));
            // DynamoDB's TTL is in seconds.
            item.insert("ttl".to_owned(), n(until.as_micros() / 1_000_000));
            Write::put(Table::Data, item)
                .when("attribute_not_exists(pk) OR expires_at_us <= :now")
                .value(":now", us(now))
        };
        record.spec.unique_keys().map(write).collect()
    }

    /// Writes a task's index entries before the task: readers skip entries without a task.
    pub(crate) async fn put_entries(&self, record: &TaskRecord) -> Result<()> {
        let (namespace, origin) = (&record.key.namespace, record.spec.origin());
        self.put_once(keys::NAMESPACES.to_owned(), namespace.as_str()).await?;
        if record.spec.dispatch().is_some() {
            self.note_own_dispatch(namespace, &record.spec.queue).await?;
        }
        if let Some(group) = &origin.task_group_id {
            self.put_once(keys::groups(namespace), group.as_str()).await?;
        }
        for partition in entries_of(namespace, record) {
            let _ = self
                .db
                .write(Write::put(Table::Data, keys::data(&partition, &keys::padded(record.key.id.0))))
                .await?;
        }
        if let Some(expires_at) = record.spec.expires_at {
            let mut entry = keys::expiring(expires_at, &record.key);
            entry.insert("put_at_us".to_owned(), us(self.now()));
            let _ = self.db.write(Write::put(Table::Data, entry)).await?;
        }
        Ok(())
    }
}

/// The partitions of a task's index entries.
pub(crate) fn entries_of(namespace: &Namespace, record: &TaskRecord) -> Vec<String> {
    let origin = record.spec.origin();
    let mut partitions = Vec::new();
    if let Some(group) = &origin.task_group_id {
        partitions.push(keys::entries("group", namespace, group.as_str()));
    }
    if let Some(session) = &origin.session_id {
        partitions.push(keys::entries("session", namespace, session.as_str()));
    }
    for (name, value) in &origin.labels {
        partitions.push(keys::entries("label", namespace, &keys::join(&[name, value])));
    }
    partitions
}

fn admit_at(
    task: ValidTask,
    id: TaskId,
    index: usize,
    now: weaver_core::time::Timestamp,
) -> Result<TaskRecord> {
    admit(task, id, now).map_err(|invalid| invalid.at(index).into())
}
