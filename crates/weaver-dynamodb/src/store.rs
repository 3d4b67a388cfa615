//! The store: a process's caches and in-memory state. Only the tables are authoritative.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::event::Change;
use weaver_core::id::{LeaseToken, TaskId, TaskKey, Version};
use weaver_core::limits::RETENTION_DEFAULT;
use weaver_core::quarantine::Quarantine;
use weaver_core::queue::change_log::ChangeLog;
use weaver_core::task::TaskRecord;
use weaver_core::time::{Monotonic, Timestamp};

use crate::activity::Activity;
use crate::counts::Deltas;
use crate::db::{Db, Item, Usage};
use crate::ids::Ids;
use crate::overlay::Overlay;

/// Maximum number of cached records.
const CACHED_MAX: usize = 10_000;

/// Retention of finished tasks and unique keys, and the size of the change log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamoOptions {
    /// How long finished tasks are kept before workers' maintenance purges them.
    pub retention: Duration,
    /// How long a unique key is remembered, at least `retention`. Default: 7 days.
    pub idempotency_ttl: Duration,
    /// Changes kept in memory for readers; one that lags further behind must resync. Default: 4,096.
    pub change_log_capacity: usize,
}

impl Default for DynamoOptions {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self { retention: RETENTION_DEFAULT, idempotency_ttl: 7 * day, change_log_capacity: 4096 }
    }
}

/// A store in DynamoDB, shared by any number of processes.
pub struct DynamoStore {
    pub(crate) db: Arc<dyn Db>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: DynamoOptions,
    pub(crate) ids: Ids,
    pub(crate) overlay: Mutex<Overlay>,
    /// Records leased by this process, as last written, so that finishing one needs no read.
    pub(crate) cache: Mutex<HashMap<TaskKey, Stored>>,
    /// When each lease was last seen to change, on this process's monotonic clock.
    pub(crate) observations: Mutex<HashMap<TaskKey, LeaseObservation>>,
    /// Lease items, and their tasks that are still leased.
    pub(crate) leases: Mutex<HashMap<LeaseToken, HeldTasks>>,
    pub(crate) change_log: Mutex<ChangeLog>,
    /// Notified when a waiter may find work or changes.
    pub(crate) changed: Notify,
    pub(crate) deltas: Mutex<Deltas>,
    pub(crate) activity: Mutex<Activity>,
    /// Items already written by `put_once`.
    pub(crate) known: Mutex<HashSet<(String, String)>>,
    /// Names of tasks that other clients named.
    pub(crate) names: Mutex<HashMap<TaskKey, String>>,
    /// When this process last lost a race for a task.
    pub(crate) lost_race_at: Mutex<Option<Monotonic>>,
    pub(crate) poll_state: Mutex<crate::foreign::PollState>,
    /// Records that this process could not read.
    pub(crate) quarantine: Quarantine,
    /// When the quarantine was last reviewed.
    pub(crate) reviewed_at: Mutex<Option<Monotonic>>,
}

/// A record with the item it was read from.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) item: Item,
    pub(crate) record: TaskRecord,
}

/// The last observed change of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseObservation {
    pub(crate) version: Version,
    pub(crate) renewals: u64,
    pub(crate) at: Monotonic,
}

/// The leased tasks of one lease item.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldTasks {
    pub(crate) revision: u64,
    pub(crate) tasks: HashSet<TaskId>,
}

impl DynamoStore {
    /// A store on tables that exist ([`ensure_tables`](crate::ensure_tables)); sends no request.
    pub fn new(db: Arc<dyn Db>, clock: Arc<dyn Clock>, options: DynamoOptions) -> Self {
        let incarnation = crate::db::random_bits() as u64 >> 1;
        Self {
            db,
            clock,
            options,
            ids: Ids::default(),
            overlay: Mutex::default(),
            cache: Mutex::default(),
            observations: Mutex::default(),
            leases: Mutex::default(),
            change_log: Mutex::new(ChangeLog::new(options.change_log_capacity, incarnation)),
            changed: Notify::new(),
            deltas: Mutex::default(),
            activity: Mutex::default(),
            known: Mutex::default(),
            names: Mutex::default(),
            lost_race_at: Mutex::default(),
            poll_state: Mutex::default(),
            quarantine: Quarantine::default(),
            reviewed_at: Mutex::default(),
        }
    }

    /// Requests sent by this store's client, and the capacity they consumed.
    pub fn usage(&self) -> Usage {
        self.db.usage()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Updates all in-memory state after a record was written. `before` is the record as it was counted, if
    /// it was.
    pub(crate) fn moved(&self, before: Option<&TaskRecord>, after: &Stored) {
        let record = &after.record;
        let now = self.clock.monotonic();
        self.deltas.lock().moved(before, record);
        self.observed(record, now);
        self.remember(after);
        let in_order = {
            let mut overlay = self.overlay.lock();
            overlay.tick(now);
            overlay.note(record, now)
        };
        {
            let mut change_log = self.change_log.lock();
            if in_order {
                change_log.push(Change::of(record));
            } else {
                // A later change of this task was published first: force a resync instead of publishing out
                // of order.
                *change_log = ChangeLog::new(
                    self.options.change_log_capacity,
                    change_log.cursor().incarnation.wrapping_add(1),
                );
            }
        }
        self.changed.notify_waiters();
    }

    /// Forces readers of changes to resync: other processes have made unknown changes.
    pub(crate) fn resync(&self) {
        {
            let mut change_log = self.change_log.lock();
            *change_log = ChangeLog::new(
                self.options.change_log_capacity,
                change_log.cursor().incarnation.wrapping_add(1),
            );
        }
        self.changed.notify_waiters();
    }

    /// Records that a lease has changed or ended.
    pub(crate) fn observed(&self, record: &TaskRecord, at: Monotonic) {
        let mut observations = self.observations.lock();
        if record.lease.is_some() {
            let (version, renewals) = (record.version, record.renewals);
            observations.insert(record.key.clone(), LeaseObservation { version, renewals, at });
        } else {
            observations.remove(&record.key);
        }
    }

    /// Caches a leased record; removes one that is not leased.
    pub(crate) fn remember(&self, stored: &Stored) {
        let mut cache = self.cache.lock();
        if stored.record.lease.is_none() {
            cache.remove(&stored.record.key);
        } else if cache.len() < CACHED_MAX || cache.contains_key(&stored.record.key) {
            cache.insert(stored.record.key.clone(), stored.clone());
        }
    }

    pub(crate) fn cached(&self, key: &TaskKey) -> Option<Stored> {
        self.cache.lock().get(key).cloned()
    }

    pub(crate) fn forget(&self, key: &TaskKey) {
        self.cache.lock().remove(key);
    }
}

impl fmt::Debug for DynamoStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DynamoStore").finish_non_exhaustive()
    }
}
