//! Keys of the single table: a tag for the kind of row, then its parts in lookup order.
//!
//! One B-tree rather than one per kind: a commit rewrites the path to each leaf it touched, and in one tree
//! those paths are shared.
//!
//! Numbers are big-endian, so that byte order is numeric order. Text that is followed by other parts is
//! length-prefixed.

use redb::TableDefinition;
use weaver_core::id::TaskId;
use weaver_core::name::{IdempotencyKey, JobDefinitionId};
use weaver_core::ports::{DocumentKey, Selector};
use weaver_core::task::{TaskRecord, TaskState, UniqueKey};
use weaver_core::time::Timestamp;

/// The only table of the file; its name is part of the format.
pub(crate) const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("weaver");

/// Counters and the format version, by name.
pub(crate) const META: u8 = 0x01;
/// A namespace's number, by its name.
pub(crate) const NAMESPACE: u8 = 0x02;
/// The immutable spec, by task. Written once.
pub(crate) const SPEC: u8 = 0x10;
/// The status of a live task: not finished, or cancelled while its handler has yet to stop.
pub(crate) const LIVE: u8 = 0x11;
/// The status of a finished task.
pub(crate) const FINISHED: u8 = 0x12;
/// Secondary index: tasks by type, queue, group, session, label or terminal state.
pub(crate) const LOOKUP: u8 = 0x13;
/// Tasks by when they finished, for retention.
pub(crate) const ENDED: u8 = 0x14;
/// Tasks by unique key.
pub(crate) const UNIQUE: u8 = 0x15;
/// Unique keys by expiry.
pub(crate) const UNIQUE_UNTIL: u8 = 0x16;
/// Counts of a task group.
pub(crate) const GROUP: u8 = 0x17;
/// Settings and counts of a queue.
pub(crate) const QUEUE: u8 = 0x18;
/// Documents by kind and id.
pub(crate) const DOCUMENT: u8 = 0x20;
/// Documents by kind and due time.
pub(crate) const DOCUMENT_DUE: u8 = 0x21;
/// A journal stream, by name.
pub(crate) const STREAM: u8 = 0x30;
/// Journal entries by stream number and sequence number.
pub(crate) const ENTRY: u8 = 0x31;
/// A discarded stream, whose entries are removed a few per batch.
pub(crate) const TRASH: u8 = 0x32;
/// Workers by id (seed 000 calls them runners).
pub(crate) const RUNNER: u8 = 0x40;
/// The directive of a worker.
pub(crate) const DIRECTIVE: u8 = 0x41;

/// The key of a task's row.
pub(crate) fn task(tag: u8, namespace: u32, id: TaskId) -> [u8; 13] {
    let mut key = [0; 13];
    key[0] = tag;
    key[1..5].copy_from_slice(&namespace.to_be_bytes());
    key[5..].copy_from_slice(&id.0.to_be_bytes());
    key
}

/// The id at the end of a task's key or an index key.
pub(crate) fn id_of(key: &[u8]) -> Option<TaskId> {
    Some(TaskId(u64::from_be_bytes(*key.last_chunk()?)))
}

/// The prefix of all rows of one kind in one namespace.
pub(crate) fn of_namespace(tag: u8, namespace: u32) -> Vec<u8> {
    let mut key = vec![tag];
    key.extend_from_slice(&namespace.to_be_bytes());
    key
}

/// A row identified by a name within a namespace.
pub(crate) fn named(tag: u8, namespace: u32, name: &str) -> Vec<u8> {
    let mut key = of_namespace(tag, namespace);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The namespace and the rest of a key that begins with a namespace.
pub(crate) fn split_named(key: &[u8]) -> Option<(u32, &str)> {
    let (number, rest) = key.get(1..)?.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), std::str::from_utf8(rest).ok()?))
}

pub(crate) fn meta(name: &str) -> Vec<u8> {
    [&[META], name.as_bytes()].concat()
}

pub(crate) fn namespace(name: &str) -> Vec<u8> {
    [&[NAMESPACE], name.as_bytes()].concat()
}

pub(crate) fn ended(at: Timestamp, namespace: u32, id: TaskId) -> [u8; 21] {
    let mut key = [0; 21];
    key[0] = ENDED;
    key[1..9].copy_from_slice(&sortable(at));
    key[9..].copy_from_slice(&task(0, namespace, id)[1..]);
    key
}

/// Finish time, namespace and task of a key that [`ended`] made.
pub(crate) fn split_ended(key: &[u8]) -> Option<(Timestamp, u32, TaskId)> {
    let (at, rest) = key.get(1..)?.split_first_chunk()?;
    let (number, _) = rest.split_first_chunk()?;
    Some((instant(*at), u32::from_be_bytes(*number), id_of(key)?))
}

/// The attribute that a secondary index row is about.
#[derive(Clone, Copy)]
#[repr(u8)]
enum By {
    State = 1,
    Type = 2,
    Queue = 3,
    Group = 4,
    Session = 5,
    Label = 6,
}

/// The prefix of a selector's index rows. `None` for live states, serial keys, workers and "all", which are found
/// elsewhere.
pub(crate) fn lookup_prefix(namespace: u32, selector: &Selector) -> Option<Vec<u8>> {
    let state;
    let joined;
    let (by, text) = match selector {
        Selector::State(wanted) if wanted.is_terminal() => {
            state = state_text(*wanted);
            (By::State, state)
        }
        Selector::Type(task_type) => (By::Type, task_type.as_str()),
        Selector::Queue(queue) => (By::Queue, queue.as_str()),
        Selector::Group(group) => (By::Group, group.as_str()),
        Selector::Session(session) => (By::Session, session.as_str()),
        Selector::Label(name, value) => {
            joined = label_text(name, value);
            (By::Label, joined.as_str())
        }
        Selector::All | Selector::State(_) | Selector::SerialKey(_) | Selector::Worker(_) => return None,
    };
    Some(lookup(namespace, by, text))
}

/// The index rows that a task has from its enqueue on.
pub(crate) fn lookups(namespace: u32, record: &TaskRecord) -> Vec<Vec<u8>> {
    let (spec, origin) = (&record.spec, record.spec.origin());
    let mut keys = vec![
        lookup(namespace, By::Type, spec.envelope.task_type.as_str()),
        lookup(namespace, By::Queue, spec.queue.as_str()),
    ];
    let group = origin.task_group_id.as_ref().map(|group| lookup(namespace, By::Group, group.as_str()));
    let session = origin.session_id.as_ref().map(|session| lookup(namespace, By::Session, session.as_str()));
    keys.extend(group.into_iter().chain(session));
    let labels = origin.labels.iter();
    keys.extend(labels.map(|(name, value)| lookup(namespace, By::Label, &label_text(name, value))));
    for key in &mut keys {
        key.extend_from_slice(&record.key.id.0.to_be_bytes());
    }
    keys
}

/// The index row that a task gets when it finishes.
pub(crate) fn lookup_end(namespace: u32, id: TaskId, state: TaskState) -> Vec<u8> {
    let mut key = lookup(namespace, By::State, state_text(state));
    key.extend_from_slice(&id.0.to_be_bytes());
    key
}

fn lookup(namespace: u32, by: By, text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + text.len() + 8);
    key.push(LOOKUP);
    key.extend_from_slice(&namespace.to_be_bytes());
    key.push(by as u8);
    push_text(&mut key, text);
    key
}

fn state_text(state: TaskState) -> &'static str {
    match state {
        TaskState::Succeeded => "s",
        TaskState::Dead => "d",
        _ => "c",
    }
}

fn label_text(name: &str, value: &str) -> String {
    format!("{}:{name}{value}", name.len())
}

pub(crate) fn unique(namespace: u32, key: &UniqueKey) -> Vec<u8> {
    let mut bytes = of_namespace(UNIQUE, namespace);
    match key {
        UniqueKey::Idempotency(key) => {
            bytes.push(1);
            bytes.extend_from_slice(key.as_str().as_bytes());
        }
        UniqueKey::Schedule(definition, instant) => {
            bytes.push(2);
            push_text(&mut bytes, definition.as_str());
            bytes.extend_from_slice(&sortable(*instant));
        }
    }
    bytes
}

/// The unique key of a key that [`unique`] made.
pub(crate) fn split_unique(key: &[u8]) -> Option<UniqueKey> {
    let (kind, rest) = key.get(5..)?.split_first()?;
    match kind {
        1 => {
            let text = std::str::from_utf8(rest).ok()?;
            Some(UniqueKey::Idempotency(IdempotencyKey::try_from(text).ok()?))
        }
        2 => {
            let (definition, rest) = split_text(rest)?;
            let definition = JobDefinitionId::try_from(definition).ok()?;
            Some(UniqueKey::Schedule(definition, instant(*rest.first_chunk()?)))
        }
        _ => None,
    }
}

/// The row for a unique key's expiry; its key ends with the unique key's own key.
pub(crate) fn unique_until(until: Timestamp, unique: &[u8]) -> Vec<u8> {
    let mut key = vec![UNIQUE_UNTIL];
    key.extend_from_slice(&sortable(until));
    key.extend_from_slice(unique);
    key
}

/// Expiry and unique key of a key that [`unique_until`] made.
pub(crate) fn split_unique_until(key: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (until, unique) = key.get(1..)?.split_first_chunk()?;
    Some((instant(*until), unique))
}

pub(crate) fn documents(namespace: u32, kind: &str) -> Vec<u8> {
    let mut key = of_namespace(DOCUMENT, namespace);
    push_text(&mut key, kind);
    key
}

pub(crate) fn document(namespace: u32, document: &DocumentKey) -> Vec<u8> {
    let mut key = documents(namespace, &document.kind);
    key.extend_from_slice(document.id.as_bytes());
    key
}

/// Kind and id of a key that [`document`] made.
pub(crate) fn split_document(key: &[u8]) -> Option<(&str, &str)> {
    let (kind, id) = split_text(key.get(5..)?)?;
    Some((kind, std::str::from_utf8(id).ok()?))
}

/// The prefix of a kind's due documents.
pub(crate) fn due_of_kind(kind: &str) -> Vec<u8> {
    let mut key = vec![DOCUMENT_DUE];
    push_text(&mut key, kind);
    key
}

pub(crate) fn document_due(namespace: u32, document: &DocumentKey, due: Timestamp) -> Vec<u8> {
    let mut key = due_of_kind(&document.kind);
    key.extend_from_slice(&sortable(due));
    key.extend_from_slice(&namespace.to_be_bytes());
    key.extend_from_slice(document.id.as_bytes());
    key
}

/// Due time, namespace and id of a key that [`document_due`] made.
pub(crate) fn split_document_due<'a>(kind: &str, key: &'a [u8]) -> Option<(Timestamp, u32, &'a str)> {
    let rest = key.get(due_of_kind(kind).len()..)?;
    let (due, rest) = rest.split_first_chunk()?;
    let (number, id) = rest.split_first_chunk()?;
    Some((instant(*due), u32::from_be_bytes(*number), std::str::from_utf8(id).ok()?))
}

pub(crate) fn entry(stream: u64, seq: u64) -> [u8; 17] {
    let mut key = [0; 17];
    key[0] = ENTRY;
    key[1..9].copy_from_slice(&stream.to_be_bytes());
    key[9..].copy_from_slice(&seq.to_be_bytes());
    key
}

pub(crate) fn trash(stream: u64) -> Vec<u8> {
    [&[TRASH][..], &stream.to_be_bytes()].concat()
}

/// The first key after all keys with this prefix.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![u8::MAX; 9]
}

/// Describes a key in messages.
pub(crate) fn describe(key: &[u8]) -> String {
    let kind = match key.first().copied().unwrap_or_default() {
        META => "setting",
        NAMESPACE => "namespace",
        SPEC => "spec of task",
        LIVE => "status of live task",
        FINISHED => "status of finished task",
        LOOKUP => "index row",
        ENDED => "retention row",
        UNIQUE | UNIQUE_UNTIL => "unique key",
        GROUP => "task group",
        QUEUE => "queue",
        DOCUMENT | DOCUMENT_DUE => "document",
        STREAM | ENTRY | TRASH => "journal row",
        RUNNER | DIRECTIVE => "worker",
        _ => "unknown row",
    };
    match (key.first(), id_of(key)) {
        (Some(&(SPEC | LIVE | FINISHED)), Some(id)) => format!("{kind} {id}"),
        _ => format!("{kind} {}", key.get(1..).unwrap_or_default().escape_ascii()),
    }
}

fn push_text(key: &mut Vec<u8>, text: &str) {
    // Names and labels are far shorter than 64 KiB; a longer one would only share an index row.
    key.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    key.extend_from_slice(text.as_bytes());
}

fn split_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

fn sortable(at: Timestamp) -> [u8; 8] {
    at.as_micros().unsigned_abs().to_be_bytes()
}

fn instant(bytes: [u8; 8]) -> Timestamp {
    Timestamp::from_micros(i64::try_from(u64::from_be_bytes(bytes)).unwrap_or(i64::MAX))
}
