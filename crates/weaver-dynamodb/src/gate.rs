//! Serial keys: at most one task of a key runs at a time.
//!
//! Each key has a gate: an item with the `holder` of the key and a `turn`, which grows with every change.
//! Waiting tasks are member items of the gate, in the order in which they start.
//!
//! A client that knows only seed 000 starts tasks without the gate: a task that it runs is neither a member
//! nor the holder.
//!
//! Optimistic concurrency: a claim is conditional on the `turn` that the choice was based on, so that choice
//! and claim are atomic.

use weaver_core::admission;
use weaver_core::error::Result;
use weaver_core::id::TaskId;
use weaver_core::name::{Namespace, SerialKey};
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use crate::codec::foreign::{FOREIGN_TOKEN, is_adopted};
use crate::codec::value::{Attributes, n, us};
use crate::db::{Item, Query, Table, Write};
use crate::keys;
use crate::store::{DynamoStore, Stored};

/// Members read per query: the lowest due one is mostly among the first.
const PAGE: u32 = 100;

/// A gate as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) turn: u64,
    pub(crate) holder: Option<TaskId>,
    /// The first due member.
    pub(crate) head: Option<Member>,
}

/// A task that waits at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: TaskId,
    /// Sort key of its item.
    pub(crate) sort: String,
}

impl Gate {
    /// Whether this task may start.
    pub(crate) fn admits(&self, id: TaskId) -> bool {
        admission::elected(self.holder, self.head.as_ref().map(|head| head.id)) == Some(id)
    }
}

impl DynamoStore {
    pub(crate) async fn gate(&self, namespace: &Namespace, key: &SerialKey, now: Timestamp) -> Result<Gate> {
        let mut gate = Gate::default();
        let mut start = None;
        loop {
            let query = Query::table(Table::Data, keys::gate_partition(namespace, key)).limit(PAGE);
            let found = self.db.query(query.after(start)).await?;
            for item in found.items {
                let sort = item.text("sk").unwrap_or_default();
                if sort == keys::ALONE {
                    gate.turn = item.number("turn").unwrap_or_default();
                    gate.holder = item.number("holder").map(TaskId);
                    if gate.holder.is_some() {
                        return Ok(gate);
                    }
                    continue;
                }
                if is_startable(&item, now)
                    && let Some((_, id)) = keys::member_of(sort)
                {
                    gate.head = Some(Member { id, sort: sort.to_owned() });
                    return Ok(gate);
                }
            }
            match found.next {
                Some(next) => start = Some(next),
                None => return Ok(gate),
            }
        }
    }

    /// Ids of the tasks that wait at a gate or hold its key.
    pub(crate) async fn gate_tasks(&self, namespace: &Namespace, key: &SerialKey) -> Result<Vec<TaskId>> {
        let items = self.query_all(Query::table(Table::Data, keys::gate_partition(namespace, key))).await?;
        let id = |item: &Item| {
            let sort = item.text("sk")?;
            if sort == keys::ALONE {
                return item.number("holder").map(TaskId);
            }
            keys::member_of(sort).map(|(_, id)| id)
        };
        let mut ids: Vec<_> = items.iter().filter_map(id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

/// Whether a task waits at its gate: not started, not finished.
fn is_member(record: &TaskRecord) -> bool {
    record.spec.serial_key.is_some() && record.state.is_waiting() && !record.holds_key()
}

/// Whether a client that knows only seed 000 runs it, without its key.
fn is_run_elsewhere(record: &TaskRecord) -> bool {
    record.lease.as_ref().is_some_and(|held| held.token == FOREIGN_TOKEN)
}

/// Sort key of the task's member item. It never changes.
pub(crate) fn sort_of(record: &TaskRecord) -> String {
    match &record.spec.origin().external_id {
        Some(name) => keys::foreign_member_sort(record.created_at, name.as_str()),
        None => keys::member_sort(record.key.id),
    }
}

/// Whether a member is due and not expired. It has not started, or it would hold the key.
pub(crate) fn is_startable(member: &Item, now: Timestamp) -> bool {
    let expires_at = member.instant("expires_at_us");
    member.instant("ready_at_us").is_some_and(|at| admission::is_startable(at, true, now, expires_at))
}

/// The gate's writes for a new task.
pub(crate) fn arrival(record: &TaskRecord) -> Vec<Write> {
    match &record.spec.serial_key {
        Some(key) => vec![turned(&record.key.namespace, key), member(record, key)],
        None => Vec::new(),
    }
}

/// The gate's writes for a transition; `gate` is what it was decided on, if it takes the key, or what was
/// read after a failed attempt.
pub(crate) fn writes(before: &Stored, after: &TaskRecord, gate: Option<Gate>) -> Vec<Write> {
    // A task of another client arrives with the first write of ours, whatever that is for.
    if !is_adopted(&before.item) && after.state.is_waiting() {
        return arrival(after);
    }
    passage(&before.record, after, gate)
}

fn passage(before: &TaskRecord, after: &TaskRecord, gate: Option<Gate>) -> Vec<Write> {
    let (Some(key), namespace, id) = (&before.spec.serial_key, &before.key.namespace, before.key.id) else {
        return Vec::new();
    };
    let left = || Write::delete(Table::Data, keys::member(namespace, key, &sort_of(before)));
    if is_run_elsewhere(before) || is_run_elsewhere(after) {
        let beside = if after.state.is_waiting() { returned(after, key) } else { left() };
        return vec![turned(namespace, key), beside];
    }
    match (before.holds_key(), after.holds_key()) {
        (false, true) => {
            let taken =
                Write::update(Table::Data, keys::gate(namespace, key), "SET holder = :id ADD turn :one")
                    .value(":id", n(id.0))
                    .value(":one", n(1));
            let taken = match &gate {
                Some(gate) if gate.turn > 0 => {
                    taken.when("turn = :turn AND attribute_not_exists(holder)").value(":turn", n(gate.turn))
                }
                _ => taken.when("attribute_not_exists(turn)"),
            };
            vec![taken, left()]
        }
        (true, false) if gate.is_some_and(|gate| gate.holder != Some(id)) => {
            // It was last run by a client that knows only seed 000, and waits at the gate again.
            vec![turned(namespace, key), left()]
        }
        (true, false) => {
            let freed = Write::update(Table::Data, keys::gate(namespace, key), "REMOVE holder ADD turn :one");
            let freed = freed.when("holder = :id").value(":id", n(id.0)).value(":one", n(1));
            // An orphan that is released has not begun: it waits at the gate like a new task.
            let waits = after.state.is_waiting().then(|| member(after, key));
            std::iter::once(freed).chain(waits).collect()
        }
        _ if is_member(before) && !is_member(after) => vec![turned(namespace, key), left()],
        _ if is_member(after) && before.ready_at != after.ready_at => {
            vec![turned(namespace, key), member(after, key)]
        }
        _ => Vec::new(),
    }
}

fn turned(namespace: &Namespace, key: &SerialKey) -> Write {
    Write::update(Table::Data, keys::gate(namespace, key), "ADD turn :one").value(":one", n(1))
}

fn member(record: &TaskRecord, key: &SerialKey) -> Write {
    let mut item = keys::member(&record.key.namespace, key, &sort_of(record));
    item.insert("ready_at_us".to_owned(), us(record.ready_at));
    if let Some(expires_at) = record.spec.expires_at {
        item.insert("expires_at_us".to_owned(), us(expires_at));
    }
    Write::put(Table::Data, item)
}

/// A task that was run without its key waits at the gate again, ahead of later ones until it is due: it has
/// begun, so it would hold the key otherwise.
fn returned(record: &TaskRecord, key: &SerialKey) -> Write {
    let mut item = keys::member(&record.key.namespace, key, &sort_of(record));
    item.insert("ready_at_us".to_owned(), us(record.created_at.min(record.updated_at)));
    Write::put(Table::Data, item)
}
