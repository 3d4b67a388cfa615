//! Records the history while the world runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weaver_core::clock::Clock;
use weaver_core::id::TaskKey;
use weaver_core::task::TaskRecord;

use crate::simulation::clock::SimClock;
use crate::simulation::history::{Entry, History, What};
use crate::simulation::scenario::Scenario;

/// More events than this indicate a livelock.
const ENTRIES_MAX: usize = 50_000;

/// Records events. Clones share one history.
#[derive(Debug, Clone)]
pub(in crate::simulation) struct Recorder {
    clock: SimClock,
    written: Arc<Mutex<Written>>,
}

#[derive(Debug, Default)]
struct Written {
    entries: Vec<Entry>,
    /// Every record as the last call that concerned it left it.
    known: BTreeMap<TaskKey, TaskRecord>,
}

impl Recorder {
    pub(in crate::simulation) fn new(clock: SimClock) -> Self {
        Self { clock, written: Arc::default() }
    }

    pub(in crate::simulation) fn write(&self, what: What) {
        let at = self.clock.now();
        let mut written = self.written.lock();
        assert!(written.entries.len() < ENTRIES_MAX, "livelock at {at}: {what}");
        written.entries.push(Entry { at, what });
    }

    /// Replaces the known state of a record; returns the previous one.
    pub(in crate::simulation) fn learn(
        &self,
        key: &TaskKey,
        record: Option<&TaskRecord>,
    ) -> Option<Box<TaskRecord>> {
        let mut written = self.written.lock();
        let before = match record {
            Some(record) => written.known.insert(key.clone(), record.clone()),
            None => written.known.remove(key),
        };
        before.map(Box::new)
    }

    /// Tasks that are not terminal or have a cancellation hold.
    pub(in crate::simulation) fn unfinished(&self) -> Vec<TaskKey> {
        let written = self.written.lock();
        let open = |record: &&TaskRecord| !record.state.is_terminal() || record.has_hold();
        written.known.values().filter(open).map(|record| record.key.clone()).collect()
    }

    pub(in crate::simulation) fn finish(self, scenario: Scenario, finals: Vec<TaskRecord>) -> History {
        let Written { entries, known } = std::mem::take(&mut *self.written.lock());
        History { scenario, entries, finals, known: known.into_values().collect() }
    }
}
