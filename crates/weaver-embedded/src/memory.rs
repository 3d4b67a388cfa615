//! The writer's in-memory state: the index of live tasks, names, counters and cached records.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use weaver_core::event::Change;
use weaver_core::id::TaskId;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::StateCounts;
use weaver_core::quarantine::Quarantine;
use weaver_core::queue::index::{Index, UnreadableHold, Waiters};
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::Timestamp;

use crate::options::EmbeddedOptions;

#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) options: EmbeddedOptions,
    pub(crate) index: Index,
    pub(crate) waiters: Waiters,
    pub(crate) names: Names,
    pub(crate) counters: Counters,
    /// The counters as they are on disk.
    pub(crate) stored_counters: Counters,
    pub(crate) records: RecordCache,
    /// Unreadable records; readers add to it too.
    pub(crate) quarantine: Arc<Quarantine>,
    /// Serial keys and slots held by unreadable live tasks.
    pub(crate) holds: HashMap<TaskId, UnreadableHold>,
    /// The share of unreadable live tasks in the queues' counts.
    pub(crate) unread_counts: BTreeMap<(Namespace, QueueName), StateCounts>,
    /// Unreadable finished tasks seen so far: they stay at the front of the retention order.
    pub(crate) unread_ended: usize,
    /// Queues whose rows cannot be read; the rows stay unchanged until their settings are written again.
    pub(crate) unread_queues: HashSet<(Namespace, QueueName)>,
    /// Number of finished tasks.
    pub(crate) finished: u64,
    /// No task finished before then; `None`: unknown.
    pub(crate) oldest_end: Option<Timestamp>,
    /// No unique key expires before then; `None`: unknown.
    pub(crate) oldest_key: Option<Timestamp>,
    /// Whether discarded streams still have entries.
    pub(crate) trash: bool,
    pub(crate) runners_swept_at: Timestamp,
    /// Transitions of this batch, published once it is fsynced.
    pub(crate) changes: Vec<Change>,
    /// Whether this batch cancelled a running task.
    pub(crate) cancelled: bool,
    /// Whether this batch assigned a task.
    pub(crate) assigned: bool,
    /// Queues whose counts this batch changed.
    pub(crate) touched: HashSet<(Namespace, QueueName)>,
}

/// Numbers that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) next_task: u64,
    pub(crate) next_stream: u64,
    /// Shared by all documents, so that a document that is deleted and written again never reuses a version.
    pub(crate) last_document_version: u64,
    /// How often the store was opened: the incarnation in change cursors.
    pub(crate) opens: u64,
    /// The store's latest timestamp: after a restart time continues from there, whatever the clock says.
    pub(crate) latest: Timestamp,
    /// Whether ids are in order of creation: not after an import into a store with other tasks.
    pub(crate) in_time_order: bool,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            next_task: 1,
            next_stream: 1,
            last_document_version: 0,
            opens: 1,
            latest: Timestamp::MIN,
            in_time_order: true,
        }
    }
}

impl Memory {
    pub(crate) fn new(options: EmbeddedOptions, quarantine: Arc<Quarantine>) -> Self {
        Self {
            index: Index::default(),
            waiters: Waiters::default(),
            names: Names::default(),
            counters: Counters::default(),
            stored_counters: Counters::default(),
            records: RecordCache::new(options.record_cache_bytes),
            quarantine,
            holds: HashMap::new(),
            unread_counts: BTreeMap::new(),
            unread_ended: 0,
            unread_queues: HashSet::new(),
            finished: 0,
            oldest_end: None,
            oldest_key: None,
            trash: false,
            runners_swept_at: Timestamp::MIN,
            changes: Vec::new(),
            cancelled: false,
            assigned: false,
            touched: HashSet::new(),
            options,
        }
    }
}

/// Namespaces and their numbers.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Namespace, u32>,
    names: Vec<Namespace>,
}

impl Names {
    pub(crate) fn number(&self, namespace: &Namespace) -> Option<u32> {
        self.numbers.get(namespace).copied()
    }

    pub(crate) fn name(&self, number: u32) -> Option<&Namespace> {
        self.names.get(number as usize)
    }

    pub(crate) fn next(&self) -> u32 {
        u32::try_from(self.names.len()).expect("fewer than four thousand million namespaces")
    }

    /// Adds a name under the next number; `false` if `number` is not the next.
    pub(crate) fn add(&mut self, namespace: Namespace, number: u32) -> bool {
        if number != self.next() {
            return false;
        }
        self.numbers.insert(namespace.clone(), number);
        self.names.push(namespace);
        true
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        self.names.iter().enumerate().map(|(number, name)| (number as u32, name))
    }
}

/// Cached records that are needed again soon: running tasks, and just enqueued ones up to a limit. All of
/// them are on disk too, once the batch is fsynced.
#[derive(Debug)]
pub(crate) struct RecordCache {
    records: HashMap<TaskId, TaskRecord>,
    waiting_bytes: usize,
    waiting_max_bytes: usize,
}

impl RecordCache {
    fn new(waiting_max_bytes: usize) -> Self {
        Self { records: HashMap::new(), waiting_bytes: 0, waiting_max_bytes }
    }

    pub(crate) fn take(&mut self, id: TaskId) -> Option<TaskRecord> {
        let record = self.records.remove(&id)?;
        if record.state != TaskState::Running {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes_of(&record));
        }
        Some(record)
    }

    pub(crate) fn put(&mut self, record: &TaskRecord) {
        self.take(record.key.id);
        match record.state {
            // Not limited: each has a worker, which holds a copy anyway.
            TaskState::Running => {}
            state if state.is_waiting() && self.waiting_bytes < self.waiting_max_bytes => {
                self.waiting_bytes += bytes_of(record);
            }
            _ => return,
        }
        self.records.insert(record.key.id, record.clone());
    }
}

fn bytes_of(record: &TaskRecord) -> usize {
    const RECORD_BYTES: usize = 800;
    RECORD_BYTES + record.spec.envelope.payload.len()
}
