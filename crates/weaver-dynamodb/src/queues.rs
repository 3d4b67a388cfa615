//! Queue settings, and the occupied slots of queues with a concurrency limit.
//!
//! Leases touch a queue's item only if it has a limit, as it would be a hot item in every transaction. Tasks
//! that occupy a counted slot have the attribute `counted`.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use weaver_core::admission::text::{Dialect, condition};
use weaver_core::admission::{self, QueueFacts};
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Expect, QueueSettings};
use weaver_core::quarantine::Unreadable;
use weaver_core::queue::Blocked;
use weaver_core::task::{Dispatch, TaskRecord};

use crate::codec::value::{Attributes, n, s};
use crate::db::{Item, Query, Table, Transacted, Write, Written};
use crate::keys;
use crate::records::too_contended;
use crate::store::{DynamoStore, Stored};
use crate::unreadable::check_format;

/// Maximum number of attempts of a contended write.
const TRIES_MAX: u32 = 20;

/// A queue's item; absent attributes mean an open queue without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueState {
    pub(crate) settings: QueueSettings,
    pub(crate) version: Version,
    pub(crate) occupied: u64,
    /// The first limit was set, and running tasks are not counted yet.
    pub(crate) is_counting: bool,
    /// A task with a dispatch of its own was enqueued.
    pub(crate) has_own_dispatch: bool,
}

impl QueueState {
    /// Decodes a queue's item. Unreadable settings count as paused.
    pub(crate) fn of(item: &Item) -> Self {
        let paused = QueueSettings { paused: true, ..QueueSettings::default() };
        Self {
            settings: settings_of(item).unwrap_or(paused),
            version: Version(item.number("settings_version").unwrap_or_default()),
            occupied: item.number("occupied").unwrap_or_default(),
            is_counting: item.flag("counting"),
            has_own_dispatch: item.flag("own_dispatch"),
        }
    }

    /// The input of admission.
    pub(crate) fn facts(&self) -> QueueFacts {
        QueueFacts { settings: self.settings, occupied: self.occupied }
    }

    /// Why no task can be leased; `None` if the queue is open.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        admission::blocked(true, self.facts(), || false)
    }
}

impl DynamoStore {
    /// The states of queues that have an item; others are open. Running tasks are counted first if needed.
    pub(crate) async fn queue_states(
        &self,
        namespace: &Namespace,
        queues: &[QueueName],
    ) -> Result<HashMap<QueueName, QueueState>> {
        let mut names: Vec<_> = queues.to_vec();
        names.sort();
        names.dedup();
        let partition = keys::queues(namespace);
        let wanted = names.iter().map(|name| keys::data(&partition, name.as_str())).collect();
        let mut states = HashMap::new();
        for item in self.db.get(Table::Data, wanted).await? {
            let Ok(name) = QueueName::try_from(item.text("sk").unwrap_or_default()) else { continue };
            let mut state = QueueState::of(&item);
            if state.is_counting {
                self.count_running(namespace, &name).await?;
                state = self.queue_state(namespace, &name).await?;
            }
            states.insert(name, state);
        }
        Ok(states)
    }

    pub(crate) async fn queue_state(&self, namespace: &Namespace, queue: &QueueName) -> Result<QueueState> {
        let key = keys::data(&keys::queues(namespace), queue.as_str());
        let found = self.db.get(Table::Data, vec![key]).await?;
        Ok(found.first().map(QueueState::of).unwrap_or_default())
    }

    /// Writes the settings of a queue, conditional on their version.
    pub(crate) async fn set_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        settings.validate()?;
        self.put_once(keys::NAMESPACES.to_owned(), namespace.as_str()).await?;
        for _ in 0..TRIES_MAX {
            let state = self.queue_state(namespace, queue).await?;
            let found = (state.version > Version(0)).then_some(state.version);
            if !expect.is_met(found) {
                return Err(expect.conflict(format!("queue {namespace}/{queue}"), found));
            }
            let is_first_limit = settings.max_running.is_some() && state.settings.max_running.is_none();
            let write = settings_write(namespace, queue, settings, state, is_first_limit);
            match self.db.write(write).await? {
                Written::Applied(_) => {
                    if is_first_limit {
                        self.count_running(namespace, queue).await?;
                    }
                    self.changed.notify_waiters();
                    return Ok(state.version.next());
                }
                Written::ConditionFailed | Written::Conflict => {}
            }
        }
        Err(too_contended(&format!("queue {namespace}/{queue}")))
    }

    /// Notes in a queue's item that tasks with a dispatch of their own wait in it, before the first is stored.
    pub(crate) async fn note_own_dispatch(&self, namespace: &Namespace, queue: &QueueName) -> Result<()> {
        let place = (keys::queues(namespace), queue.to_string());
        if self.known.lock().contains(&place) {
            return Ok(());
        }
        let write = Write::update(Table::Data, keys::data(&place.0, &place.1), "SET own_dispatch = :true");
        let done = self.db.write(write.value(":true", AttributeValue::Bool(true))).await?;
        debug_assert!(matches!(done, Written::Applied(_)), "it has no condition");
        self.known.lock().insert(place);
        Ok(())
    }

    /// Counts the running tasks of a queue that has just got its first limit. Each is counted once, even if
    /// several processes count or a count is repeated.
    async fn count_running(&self, namespace: &Namespace, queue: &QueueName) -> Result<()> {
        let items = self.query_all(Query::table(Table::Queue, namespace.as_str())).await?;
        for stored in self.read(items).await? {
            let record = &stored.record;
            if record.spec.queue == *queue && record.occupies_slot() && !stored.item.flag("counted") {
                self.count_one(&stored).await?;
            }
        }
        let key = keys::data(&keys::queues(namespace), queue.as_str());
        let done = Write::update(Table::Data, key, "REMOVE #counting").name("#counting", "counting");
        let _ = self.db.write(done).await?;
        Ok(())
    }

    async fn count_one(&self, stored: &Stored) -> Result<()> {
        let key = keys::task(&stored.record.key.namespace, &crate::codec::record::name_of(&stored.record));
        let Some(version) = stored.item.number("version") else { return Ok(()) };
        for _ in 0..TRIES_MAX {
            let task = Write::update(Table::Queue, key.clone(), "SET counted = :true")
                .when("version = :version AND attribute_not_exists(counted)")
                .value(":version", n(version))
                .value(":true", AttributeValue::Bool(true));
            let slot = add_slot(&stored.record, 1);
            match self.db.transact(vec![task, slot]).await? {
                // A failed condition: the task has changed, or another process has counted it.
                Transacted::Applied | Transacted::ConditionFailed(_) => {
                    self.forget(&stored.record.key);
                    return Ok(());
                }
                Transacted::Conflict => crate::db::backoff(1).await,
            }
        }
        Err(too_contended(&stored.record.key))
    }
}

/// Decodes the settings of a queue's item, which may have only counts.
pub(crate) fn settings_of(item: &Item) -> Result<QueueSettings, Unreadable> {
    check_format(item)?;
    let undecodable = |name: &str| Unreadable::Undecodable { reason: format!("its attribute `{name}`") };
    let paused = match item.get("paused") {
        None => false,
        Some(AttributeValue::Bool(paused)) => *paused,
        Some(_) => return Err(undecodable("paused")),
    };
    let max_running = match item.get("max_running") {
        None => None,
        Some(_) => {
            let max = item.number("max_running").and_then(|max| u32::try_from(max).ok());
            Some(max.ok_or_else(|| undecodable("max_running"))?)
        }
    };
    let dispatch = match item.get("dispatch") {
        None => Dispatch::default(),
        Some(_) => {
            let found = item.text("dispatch").and_then(Dispatch::from_word);
            found.ok_or_else(|| undecodable("dispatch"))?
        }
    };
    let settings = QueueSettings { paused, max_running, dispatch };
    settings.validate().map_err(|_| undecodable("max_running"))?;
    Ok(settings)
}

fn settings_write(
    namespace: &Namespace,
    queue: &QueueName,
    settings: QueueSettings,
    state: QueueState,
    is_first_limit: bool,
) -> Write {
    let key = keys::data(&keys::queues(namespace), queue.as_str());
    let mut set = "SET paused = :paused, dispatch = :dispatch, settings_version = :next, occupied = if_not_exists(occupied, :zero)"
        .to_owned();
    if is_first_limit {
        set.push_str(", #counting = :true");
    }
    match settings.max_running {
        Some(_) => set.push_str(", max_running = :max REMOVE #format"),
        None => set.push_str(" REMOVE max_running, #format"),
    }
    let mut write = Write::update(Table::Data, key, set)
        .name("#format", "format")
        .value(":paused", AttributeValue::Bool(settings.paused))
        .value(":dispatch", s(settings.dispatch.as_str()))
        .value(":next", n(state.version.next().0))
        .value(":zero", n(0));
    if is_first_limit {
        write = write.name("#counting", "counting").value(":true", AttributeValue::Bool(true));
    }
    if let Some(max) = settings.max_running {
        write = write.value(":max", n(max));
    }
    if state.version == Version(0) {
        write.when("attribute_not_exists(settings_version)")
    } else {
        write.when("settings_version = :seen").value(":seen", n(state.version.0))
    }
}

/// Adds `count` to the occupied slots of a queue.
pub(crate) fn add_slot(record: &TaskRecord, count: i32) -> Write {
    let key = keys::data(&keys::queues(&record.key.namespace), record.spec.queue.as_str());
    Write::update(Table::Data, key, "ADD occupied :slot").value(":slot", n(count))
}

/// Occupies a slot, on condition that the queue is open and has a free one.
pub(crate) fn take_slot(namespace: &Namespace, queue: &QueueName) -> Write {
    let key = keys::data(&keys::queues(namespace), queue.as_str());
    Write::update(Table::Data, key, "ADD occupied :slot")
        .when(format!("{} AND attribute_exists(max_running) AND attribute_not_exists(#counting)", has_slot()))
        .name("#counting", "counting")
        .value(":slot", n(1))
        .value(":true", AttributeValue::Bool(true))
}

/// The condition that a queue is open.
fn has_slot() -> String {
    let facts = ["paused = :true", "occupied", "max_running"];
    condition("is_open", &facts, Dialect::DynamoDb).expect("the rule has these three facts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_on_the_condition_that_core_states() {
        let open =
            "(NOT (paused = :true) AND NOT (attribute_exists(max_running) AND (occupied >= max_running)))";
        assert_eq!(has_slot(), open);
    }
}
