//! Unreadable values: why they cannot be decoded, and which fields still can.

use std::sync::Arc;

use weaver_core::admission::occupies_slot;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::name::Namespace;
use weaver_core::quarantine::{Quarantined, RawTask, RecordKind, Unreadable};
use weaver_core::queue::index::UnreadableHold;
use weaver_core::task::{TaskRecord, TaskSpec, TaskState};
use weaver_core::time::Timestamp;

use crate::codec::{
    Damage, Defect, FORMAT_VERSION, Reader, Undecodable, decode_spec, record_from, state_of, unseal,
};
use crate::fault::{StoreFault, StoreResult};
use crate::keys;
use crate::rows::Rows;

/// A task that cannot be read, with the parts that can.
#[derive(Debug)]
pub(crate) struct UnreadableTask {
    pub(crate) key: TaskKey,
    pub(crate) why: Unreadable,
    /// `None` if the spec cannot be read.
    pub(crate) spec: Option<Arc<TaskSpec>>,
    /// `None` if the state cannot be read.
    pub(crate) state: Option<TaskState>,
    /// Whether it has not finished, or its handler has yet to stop.
    pub(crate) is_live: bool,
    /// Key of the unreadable row.
    row: Vec<u8>,
}

impl UnreadableTask {
    pub(crate) fn finding(&self, found_at: Timestamp) -> Quarantined {
        let (spec, id) = (self.spec.as_deref(), self.key.id.to_string());
        let finding =
            Quarantined::new(RecordKind::Task, self.key.namespace.clone(), id, self.why.clone(), found_at);
        Quarantined {
            queue: spec.map(|spec| spec.queue.clone()),
            state: self.state.map(|state| state.to_string()),
            serial_key: spec.filter(|_| self.is_live).and_then(|spec| spec.serial_key.clone()),
            holds_slot: self.occupies_slot(),
            ..finding
        }
    }

    /// The serial key and slot that it holds while it is live.
    pub(crate) fn hold(&self) -> UnreadableHold {
        let spec = self.spec.as_deref();
        let waits = matches!(self.state, Some(TaskState::Queued | TaskState::Scheduled));
        UnreadableHold {
            namespace: self.key.namespace.clone(),
            slot_of: spec.filter(|_| self.occupies_slot()).map(|spec| spec.queue.clone()),
            serial_key: spec.and_then(|spec| spec.serial_key.clone()),
            may_have_begun: !waits,
        }
    }

    fn occupies_slot(&self) -> bool {
        // A cancelled task among the live ones has a cancellation hold.
        let occupies = |state| occupies_slot(state, true);
        self.is_live && self.spec.is_some() && self.state.is_some_and(occupies)
    }

    pub(crate) fn into_fault(self) -> StoreFault {
        StoreFault::damaged(&self.row, self.why)
    }
}

/// A decoded task, or why it cannot be decoded.
pub(crate) type Found = Result<TaskRecord, Box<UnreadableTask>>;

/// Reads a task from its rows; an unreadable value affects only this task.
pub(crate) fn find_task(
    rows: &impl Rows,
    namespace: &Namespace,
    number: u32,
    id: TaskId,
) -> StoreResult<Option<Found>> {
    let spec_key = keys::task(keys::SPEC, number, id);
    let spec = rows.get(spec_key.as_slice())?;
    for tag in [keys::LIVE, keys::FINISHED] {
        let key = keys::task(tag, number, id);
        if let Some(status) = rows.get(key.as_slice())? {
            let spec = spec.as_ref().map(|value| value.value());
            return Ok(Some(assemble(namespace, id, spec, &key, status.value())));
        }
    }
    let Some(spec) = spec else { return Ok(None) };
    let reason = "its status row is missing".to_owned();
    Ok(Some(Err(Box::new(UnreadableTask {
        key: TaskKey::new(namespace.clone(), id),
        why: Unreadable::Undecodable { reason },
        spec: decode(&spec_key, spec.value(), decode_spec).ok().map(|(spec, _)| Arc::new(spec)),
        state: None,
        is_live: false,
        row: spec_key.to_vec(),
    }))))
}

/// Builds a task from the values of its rows.
pub(crate) fn assemble(
    namespace: &Namespace,
    id: TaskId,
    spec: Option<&[u8]>,
    status_key: &[u8; 13],
    status: &[u8],
) -> Found {
    let mut spec_key = *status_key;
    spec_key[0] = keys::SPEC;
    let missing = || Unreadable::Undecodable { reason: "its spec row is missing".to_owned() };
    let spec = spec.ok_or_else(missing).and_then(|value| decode(&spec_key, value, decode_spec));
    let is_live = status_key[0] == keys::LIVE;
    let unreadable = |why, spec, state, row: &[u8]| {
        let key = TaskKey::new(namespace.clone(), id);
        Err(Box::new(UnreadableTask { key, why, spec, state, is_live, row: row.to_vec() }))
    };
    // The state comes first in a status, and may be readable when the rest is not.
    let peeked = || decode(status_key, status, |body| state_of(&mut Reader::of_version(body)?)).ok();
    let (spec, created_at) = match spec {
        Ok((spec, created_at)) => (Arc::new(spec), created_at),
        Err(why) => return unreadable(why, None, peeked(), &spec_key),
    };
    let read = |body: &[u8]| record_from(namespace.clone(), id, Arc::clone(&spec), created_at, body);
    match decode(status_key, status, read) {
        Ok(record) => Ok(record),
        Err(why) => unreadable(why, Some(spec), peeked(), status_key),
    }
}

/// A task's stored rows, in hexadecimal.
pub(crate) fn raw_task(rows: &impl Rows, number: u32, id: TaskId) -> StoreResult<Option<RawTask>> {
    let mut stored = serde_json::Map::new();
    for (name, tag) in [("spec", keys::SPEC), ("live", keys::LIVE), ("finished", keys::FINISHED)] {
        if let Some(value) = rows.get(keys::task(tag, number, id).as_slice())? {
            let hex: String = value.value().iter().map(|byte| format!("{byte:02x}")).collect();
            stored.insert(name.to_owned(), hex.into());
        }
    }
    let text = (!stored.is_empty()).then(|| serde_json::Value::Object(stored).to_string());
    Ok(text.map(|text| RawTask { text }))
}

/// Verifies the checksum of a value and decodes it.
pub(crate) fn decode<T>(
    key: &[u8],
    value: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, Undecodable>,
) -> Result<T, Unreadable> {
    let (tag, rest) = key.split_first().unwrap_or((&0, &[]));
    decode(unseal(*tag, rest, value).map_err(of_damage)?).map_err(of_undecodable)
}

fn of_damage(damage: Damage) -> Unreadable {
    Unreadable::Undecodable { reason: damage.to_string() }
}

fn of_undecodable(undecodable: Undecodable) -> Unreadable {
    match undecodable.defect {
        Defect::Version(found) => {
            Unreadable::UnknownFormat { found: found.into(), known: FORMAT_VERSION.into() }
        }
        _ => Unreadable::Undecodable { reason: undecodable.to_string() },
    }
}
