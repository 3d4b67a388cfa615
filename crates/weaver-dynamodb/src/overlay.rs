//! Recent writes of this process, merged into index pages: indexes are eventually consistent, and a process
//! must see its own enqueues and leases at once.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use weaver_core::admission;
use weaver_core::id::{TaskKey, Version};
use weaver_core::name::SerialKey;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::{Monotonic, Timestamp};

use crate::codec::record::{name_of, state_of};
use crate::codec::value::Attributes;
use crate::db::Item;
use crate::keys;

/// How long a write is remembered: longer than an index lags.
pub(crate) const OVERLAY_TTL: Duration = Duration::from_secs(10);

/// A waiting task as projected by `ready-index`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ready {
    pub(crate) key: TaskKey,
    pub(crate) name: String,
    pub(crate) partition: String,
    pub(crate) sort: String,
    pub(crate) version: Version,
    pub(crate) task_type: String,
    pub(crate) is_fragile: bool,
    pub(crate) serial_key: Option<SerialKey>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) has_started: bool,
    pub(crate) state: TaskState,
}

impl Ready {
    /// From an index item; `None` if an attribute is missing or invalid.
    pub(crate) fn of_item(item: &Item) -> Option<Self> {
        let name = item.text("task_id")?.to_owned();
        let namespace = weaver_core::name::Namespace::try_from(item.text("namespace")?).ok()?;
        Some(Self {
            key: TaskKey::of_text(namespace, &name),
            name,
            partition: item.text("ready_pk")?.to_owned(),
            sort: item.text("ready_sk")?.to_owned(),
            version: Version(item.number("version")?),
            task_type: item.text("task_type")?.to_owned(),
            is_fragile: item.flag("fragile"),
            serial_key: item.text("serial_key").and_then(|text| SerialKey::try_from(text).ok()),
            expires_at: item.instant("expires_at_us"),
            has_started: !admission::is_unstarted(executions_of(item)),
            state: state_of(item)?,
        })
    }

    /// From a record, if it waits.
    pub(crate) fn of_record(record: &TaskRecord) -> Option<Self> {
        record.state.is_waiting().then(|| Self {
            key: record.key.clone(),
            name: name_of(record),
            partition: keys::ready_partition(
                &record.key.namespace,
                &record.spec.queue,
                record.spec.dispatch(),
            ),
            sort: keys::ready_sort(record.spec.priority, record.ready_at, record.key.id),
            version: record.version,
            task_type: record.spec.envelope.task_type.to_string(),
            is_fragile: record.is_fragile(),
            serial_key: record.spec.serial_key.clone(),
            expires_at: record.spec.expires_at,
            has_started: !record.is_unstarted(),
            state: record.state,
        })
    }

    /// Due time, from the sort key.
    pub(crate) fn ready_at(&self) -> Timestamp {
        keys::split(&self.sort).get(1).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Priority, from the sort key.
    pub(crate) fn priority(&self) -> u8 {
        self.sort.as_bytes().first().map_or(9, |digit| digit.wrapping_sub(b'0'))
    }

    /// Whether its due time has passed.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        admission::is_due(self.ready_at(), now)
    }

    /// Whether its `expires_at` has passed before its first start.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        admission::is_expired(!self.has_started, now, self.expires_at)
    }
}

fn executions_of(item: &Item) -> u32 {
    item.number("executions").map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
}

#[derive(Debug)]
struct Note {
    version: Version,
    at: Monotonic,
    ready: Option<Ready>,
    has_ended: bool,
}

/// Recent writes of this process.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    notes: HashMap<TaskKey, Note>,
    by_partition: HashMap<String, std::collections::BTreeMap<String, TaskKey>>,
    /// In order of time; an entry with a newer note is skipped.
    order: VecDeque<(Monotonic, TaskKey)>,
}

impl Overlay {
    /// Records a written version; `false` if a newer one is known.
    pub(crate) fn note(&mut self, record: &TaskRecord, at: Monotonic) -> bool {
        let note = Note {
            version: record.version,
            at,
            ready: Ready::of_record(record),
            has_ended: record.state.is_terminal(),
        };
        self.put(record.key.clone(), note)
    }

    /// Records that another process has changed a task that the index still shows.
    pub(crate) fn taken_elsewhere(&mut self, ready: &Ready, at: Monotonic) {
        let note = Note { version: ready.version.next(), at, ready: None, has_ended: false };
        self.put(ready.key.clone(), note);
    }

    /// Forgets a task that was removed.
    pub(crate) fn removed(&mut self, key: &TaskKey) {
        self.forget(key);
    }

    fn put(&mut self, key: TaskKey, note: Note) -> bool {
        if self.notes.get(&key).is_some_and(|known| known.version > note.version) {
            return false;
        }
        let at = note.at;
        self.forget(&key);
        if let Some(ready) = &note.ready {
            let lane = self.by_partition.entry(ready.partition.clone()).or_default();
            lane.insert(ready.sort.clone(), key.clone());
        }
        self.notes.insert(key.clone(), note);
        self.order.push_back((at, key));
        true
    }

    fn forget(&mut self, key: &TaskKey) {
        let Some(note) = self.notes.remove(key) else { return };
        let Some(ready) = note.ready else { return };
        if let Some(lane) = self.by_partition.get_mut(&ready.partition) {
            lane.remove(&ready.sort);
            if lane.is_empty() {
                self.by_partition.remove(&ready.partition);
            }
        }
    }

    /// Forgets writes older than [`OVERLAY_TTL`].
    pub(crate) fn tick(&mut self, now: Monotonic) {
        while let Some((at, key)) = self.order.front() {
            if at.saturating_add(OVERLAY_TTL) > now {
                return;
            }
            let (at, key) = (*at, key.clone());
            self.order.pop_front();
            if self.notes.get(&key).is_some_and(|note| note.at == at) {
                self.forget(&key);
            }
        }
    }

    /// Corrects an index page by the recent writes. The page covers sort keys greater than `after`, up to
    /// `until` or the end of the partition.
    pub(crate) fn correct(
        &self,
        partition: &str,
        after: &str,
        until: Option<&str>,
        page: Vec<Ready>,
    ) -> Vec<Ready> {
        let believed = |ready: &Ready| match self.notes.get(&ready.key) {
            Some(note) if note.version > ready.version => false,
            Some(note) if note.version == ready.version => note.ready.is_some(),
            _ => true,
        };
        let mut right: Vec<Ready> = page.into_iter().filter(believed).collect();
        if let Some(lane) = self.by_partition.get(partition) {
            for (sort, key) in lane {
                let within = sort.as_str() > after && until.is_none_or(|until| sort.as_str() <= until);
                let shown = || right.iter().any(|ready| ready.key == *key);
                if within
                    && !shown()
                    && let Some(ready) = self.notes.get(key).and_then(|note| note.ready.clone())
                {
                    right.push(ready);
                }
            }
            right.sort_by(|one, other| one.sort.cmp(&other.sort));
        }
        right
    }

    /// Tasks that finished recently.
    pub(crate) fn ended(&self) -> Vec<TaskKey> {
        self.notes.iter().filter(|(_, note)| note.has_ended).map(|(key, _)| key.clone()).collect()
    }
}
