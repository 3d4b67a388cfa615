//! Task counts by state: each process accumulates its changes and adds them to one item per queue, once a
//! second. Exact counters would make every write a transaction on one hot item.

use std::collections::BTreeMap;
use std::time::Duration;

use weaver_core::error::Result;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::StateCounts;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::Monotonic;

use crate::codec::value::{Attributes, n};
use crate::db::{Query, Table, Write, Written};
use crate::keys;
use crate::store::DynamoStore;

/// Interval at which a process flushes its changes.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// The states; the last is the number of occupied slots.
const FIELDS: [&str; 10] = [
    "n_queued",
    "n_scheduled",
    "n_assigned",
    "n_orphaned",
    "n_running",
    "n_retry_scheduled",
    "n_succeeded",
    "n_dead",
    "n_cancelled",
    "n_occupied",
];
const OCCUPIED: usize = 9;

/// Changes of this process since its last flush.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    of: BTreeMap<(Namespace, QueueName), [i64; FIELDS.len()]>,
    flushed_at: Option<Monotonic>,
}

impl Deltas {
    /// Counts a transition of a record; `before` is `None` if it was not counted yet.
    pub(crate) fn moved(&mut self, before: Option<&TaskRecord>, after: &TaskRecord) {
        if let Some(before) = before {
            self.add(before, -1);
        }
        self.add(after, 1);
    }

    /// Counts a transition of an unreadable record.
    pub(crate) fn shift(&mut self, queue: (Namespace, QueueName), from: TaskState, to: TaskState) {
        let delta = self.of.entry(queue).or_default();
        delta[from.index()] -= 1;
        delta[to.index()] += 1;
    }

    /// Counts the removal of an unreadable record.
    pub(crate) fn remove(&mut self, queue: (Namespace, QueueName), state: TaskState, occupied: bool) {
        let delta = self.of.entry(queue).or_default();
        delta[state.index()] -= 1;
        delta[OCCUPIED] -= i64::from(occupied);
    }

    /// Counts a record that was added (1) or removed (-1).
    pub(crate) fn add(&mut self, record: &TaskRecord, count: i64) {
        let delta = self.of.entry((record.key.namespace.clone(), record.spec.queue.clone())).or_default();
        delta[record.state.index()] += count;
        delta[OCCUPIED] += count * i64::from(record.occupies_slot());
    }
}

/// The counts of one queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueCounts {
    pub(crate) queue: QueueName,
    pub(crate) counts: StateCounts,
    pub(crate) occupied: u64,
    /// As stored: a crash may leave a count below zero.
    fields: [i64; FIELDS.len()],
}

impl DynamoStore {
    /// Flushes accumulated changes, if due. The call it follows has succeeded and must return that: a failed
    /// flush is only logged, and retried later.
    pub(crate) async fn flush_counts_if_due(&self) {
        let now = self.clock.monotonic();
        let is_due = {
            let deltas = self.deltas.lock();
            !deltas.of.is_empty() && deltas.flushed_at.is_none_or(|at| at.saturating_add(FLUSH_EVERY) <= now)
        };
        if is_due && let Err(error) = self.flush_counts().await {
            tracing::warn!(%error, "flushing counts failed; retrying later");
        }
    }

    /// Flushes accumulated changes, one write per queue; failed ones stay accumulated.
    pub(crate) async fn flush_counts(&self) -> Result<()> {
        let taken = {
            let mut deltas = self.deltas.lock();
            deltas.flushed_at = Some(self.clock.monotonic());
            std::mem::take(&mut deltas.of)
        };
        let mut failure = None;
        for ((namespace, queue), delta) in taken {
            if delta.iter().all(|count| *count == 0) {
                continue;
            }
            let changed: Vec<usize> = (0..FIELDS.len()).filter(|index| delta[*index] != 0).collect();
            let adds: Vec<String> =
                changed.iter().map(|index| format!("{} :v{index}", FIELDS[*index])).collect();
            let key = keys::data(&keys::counts(&namespace), queue.as_str());
            let mut write = Write::update(Table::Data, key, format!("ADD {}", adds.join(", ")));
            for index in changed {
                write = write.value(VALUES[index], n(delta[index]));
            }
            let refused = match self.db.write(write).await {
                Ok(Written::Applied(_)) => continue,
                Ok(Written::ConditionFailed | Written::Conflict) => None,
                Err(error) => Some(error),
            };
            {
                // Retried later. If it was applied and its response was lost, it counts twice until a
                // recount.
                let mut deltas = self.deltas.lock();
                let sum = deltas.of.entry((namespace, queue)).or_default();
                sum.iter_mut().zip(delta).for_each(|(sum, delta)| *sum += delta);
            }
            failure = refused.or(failure);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Recounts a namespace by reading all its tasks, and returns the queues whose counts were wrong: a
    /// process that crashes loses up to a second of its counts. Concurrent changes may be missed by as much.
    ///
    /// # Errors
    /// If DynamoDB is unavailable.
    pub async fn recount(&self, namespace: &Namespace) -> Result<Vec<QueueName>> {
        let known = self.queue_counts(namespace).await?;
        let mut counted = Deltas::default();
        for queue in &known {
            counted.of.insert((namespace.clone(), queue.queue.clone()), Default::default());
        }
        let mut start = None;
        loop {
            let query = Query::table(Table::Queue, namespace.as_str()).after(start);
            let found = self.db.query(query).await?;
            let ours = found.items.into_iter().filter(crate::codec::foreign::is_adopted).collect();
            self.read(ours).await?.iter().for_each(|stored| counted.add(&stored.record, 1));
            start = found.next;
            if start.is_none() {
                break;
            }
        }
        let mut wrong = Vec::new();
        for ((_, queue), counts) in counted.of {
            let said = known.iter().find(|known| known.queue == queue);
            if said.is_some_and(|said| said.fields == counts) {
                continue;
            }
            let sets: Vec<String> =
                FIELDS.iter().zip(VALUES).map(|(name, value)| format!("{name} = {value}")).collect();
            let key = keys::data(&keys::counts(namespace), queue.as_str());
            let mut write = Write::update(Table::Data, key, format!("SET {}", sets.join(", ")));
            for (index, count) in counts.iter().enumerate() {
                write = write.value(VALUES[index], n(*count));
            }
            if let Written::Applied(_) = self.db.write(write).await? {
                wrong.push(queue);
            }
        }
        Ok(wrong)
    }

    /// The counts of all queues of a namespace that have or had tasks, by name.
    pub(crate) async fn queue_counts(&self, namespace: &Namespace) -> Result<Vec<QueueCounts>> {
        self.flush_counts().await?;
        let items = self.query_all(Query::table(Table::Data, keys::counts(namespace))).await?;
        let read = |item: crate::db::Item| {
            let queue = QueueName::try_from(item.text("sk")?).ok()?;
            let mut counts = StateCounts::default();
            for state in TaskState::ALL {
                // A count below zero, left by a crash, reads as 0.
                counts.set(state, item.number(FIELDS[state.index()]).unwrap_or_default());
            }
            let field = |name: &str| item.get(name).and_then(|value| value.as_n().ok()?.parse().ok());
            let fields = FIELDS.map(|name| field(name).unwrap_or_default());
            let occupied = item.number(FIELDS[OCCUPIED]).unwrap_or_default();
            Some(QueueCounts { queue, counts, occupied, fields })
        };
        Ok(items.into_iter().filter_map(read).collect())
    }
}

const VALUES: [&str; 10] = [":v0", ":v1", ":v2", ":v3", ":v4", ":v5", ":v6", ":v7", ":v8", ":v9"];
