//! The store: what a process remembers between requests. None of it is the truth, which is in the tables
//! alone.

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
use weaver_core::queue::ring::Ring;
use weaver_core::task::TaskRecord;
use weaver_core::time::{Monotonic, Timestamp};

use crate::activity::Activity;
use crate::counts::Deltas;
use crate::db::{Db, Item, Usage};
use crate::ids::Ids;
use crate::overlay::Overlay;

/// Most records a process remembers to save a read.
const CACHED_MAX: usize = 10_000;

/// How long things are kept, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamoOptions {
    /// How long finished tasks are kept until the maintenance of workers purges them; unique keys are
    /// remembered at least as long.
    pub retention: Duration,
    /// How long a unique key is remembered.
    pub idempotency_ttl: Duration,
    /// How many changes a process remembers for its readers; who is further behind is told to read again.
    pub changes_kept: usize,
}

impl Default for DynamoOptions {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self { retention: RETENTION_DEFAULT, idempotency_ttl: 7 * day, changes_kept: 4096 }
    }
}

/// A store in DynamoDB, shared by any number of processes.
pub struct DynamoStore {
    pub(crate) db: Arc<dyn Db>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: DynamoOptions,
    pub(crate) ids: Ids,
    pub(crate) overlay: Mutex<Overlay>,
    /// Records this process leased, as they were last written: ending one then needs no read.
    pub(crate) cache: Mutex<HashMap<TaskKey, Stored>>,
    /// Leases by when their last sign of life was seen, on this process's own clock.
    pub(crate) sightings: Mutex<HashMap<TaskKey, Sighting>>,
    /// Lease items by how many of their tasks are left.
    pub(crate) leases: Mutex<HashMap<LeaseToken, HeldTasks>>,
    pub(crate) ring: Mutex<Ring>,
    /// Somebody may find something now.
    pub(crate) changed: Notify,
    pub(crate) deltas: Mutex<Deltas>,
    pub(crate) activity: Mutex<Activity>,
    /// Items that are put once per process.
    pub(crate) known: Mutex<HashSet<(String, String)>>,
    /// The own names of tasks that somebody else named.
    pub(crate) names: Mutex<HashMap<TaskKey, String>>,
    /// When this process last lost a race for a task.
    pub(crate) lost_race_at: Mutex<Option<Monotonic>>,
    pub(crate) rounds: Mutex<crate::foreign::Rounds>,
    /// What this process could not read.
    pub(crate) quarantine: Quarantine,
    /// When it last looked at that again.
    pub(crate) reviewed_at: Mutex<Option<Monotonic>>,
}

/// A record with the item it was read from.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) item: Item,
    pub(crate) record: TaskRecord,
}

/// A lease's last sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub(crate) version: Version,
    pub(crate) renewals: u64,
    pub(crate) at: Monotonic,
}

/// The tasks under one lease item.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldTasks {
    pub(crate) revision: u64,
    pub(crate) tasks: HashSet<TaskId>,
}

impl DynamoStore {
    /// A store over tables that are there ([`ensure_tables`](crate::ensure_tables)).
    pub fn new(db: Arc<dyn Db>, clock: Arc<dyn Clock>, options: DynamoOptions) -> Self {
        let incarnation = crate::db::random_bits() as u64 >> 1;
        Self {
            db,
            clock,
            options,
            ids: Ids::default(),
            overlay: Mutex::default(),
            cache: Mutex::default(),
            sightings: Mutex::default(),
            leases: Mutex::default(),
            ring: Mutex::new(Ring::new(options.changes_kept, incarnation)),
            changed: Notify::new(),
            deltas: Mutex::default(),
            activity: Mutex::default(),
            known: Mutex::default(),
            names: Mutex::default(),
            lost_race_at: Mutex::default(),
            rounds: Mutex::default(),
            quarantine: Quarantine::default(),
            reviewed_at: Mutex::default(),
        }
    }

    /// What has been asked of DynamoDB, and what it cost.
    pub fn usage(&self) -> Usage {
        self.db.usage()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A record was written: everything this process remembers follows. `before` is its state as it was
    /// counted, if it was.
    pub(crate) fn moved(&self, before: Option<&TaskRecord>, after: &Stored) {
        let record = &after.record;
        let now = self.clock.monotonic();
        self.deltas.lock().moved(before, record);
        self.sighted(record, now);
        self.remember(after);
        let in_order = {
            let mut overlay = self.overlay.lock();
            overlay.tick(now);
            overlay.note(record, now)
        };
        {
            let mut ring = self.ring.lock();
            if in_order {
                ring.push(Change::of(record));
            } else {
                // A later move of this task was published first: say so instead of publishing out of order.
                *ring = Ring::new(self.options.changes_kept, ring.cursor().incarnation.wrapping_add(1));
            }
        }
        self.changed.notify_waiters();
    }

    /// Others have written what this process cannot name.
    pub(crate) fn resync(&self) {
        {
            let mut ring = self.ring.lock();
            *ring = Ring::new(self.options.changes_kept, ring.cursor().incarnation.wrapping_add(1));
        }
        self.changed.notify_waiters();
    }

    /// A sign of life of a lease, or its end.
    pub(crate) fn sighted(&self, record: &TaskRecord, at: Monotonic) {
        let mut sightings = self.sightings.lock();
        if record.lease.is_some() {
            let (version, renewals) = (record.version, record.renewals);
            sightings.insert(record.key.clone(), Sighting { version, renewals, at });
        } else {
            sightings.remove(&record.key);
        }
    }

    /// Remembers what is under way, and forgets what is not.
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
