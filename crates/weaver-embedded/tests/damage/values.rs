//! Unreadable values in sound pages: each is one quarantined record, and the rest opens.

use std::path::Path;
use std::sync::Arc;

use redb::ReadableTable;
use weaver_core::clock::ManualClock;
use weaver_core::error::Error;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Scope, Store, Tasks, UnreadableRecords};
use weaver_core::quarantine::{Discarded, Unreadable};
use weaver_core::queue::{Queue, QueueExt};
use weaver_core::task::{NewTask, TaskState};
use weaver_embedded::codec::{seal, unseal};
use weaver_embedded::{EmbeddedOptions, EmbeddedStore, StoreError};
use weaver_testkit::harness::{CorruptedRecord, worker};

use crate::harness::wait;
use crate::support::{Scratch, row_of, tamper};

const SPEC: u8 = 0x10;

fn open(path: &Path) -> Result<EmbeddedStore, StoreError> {
    let clock = Arc::new(ManualClock::default());
    EmbeddedStore::open_with(path, clock, EmbeddedOptions::default(), Arc::new(|_| {}))
}

/// Three tasks of one key, the first of which runs, and one without a key.
fn fill(path: &Path) -> Vec<TaskKey> {
    let store = open(path).expect("an empty directory opens");
    let keyed = || NewTask::new("t").serial_key("k").task_group_id("g");
    let tasks = vec![keyed(), keyed(), keyed(), NewTask::new("t")];
    let answers = wait(store.enqueue_batch(tasks)).expect("valid");
    let keys: Vec<TaskKey> = answers.into_iter().map(|answer| answer.expect("stored").key).collect();
    let taken: Vec<TaskKey> = lease(&store, 1, 1).into_iter().map(|each| each.lease.key).collect();
    assert_eq!(taken, [keys[0].clone()]);
    keys
}

fn lease(store: &dyn Store, token: u128, max: u32) -> Vec<Leased> {
    let (space, queue) = (Namespace::default(), QueueName::default());
    let request = LeaseRequest::new(space, queue, worker("w"), LeaseToken(token));
    wait(store.lease(LeaseRequest { max, slots: max, ..request })).expect("the others can be leased")
}

fn leased(store: &dyn Store, token: u128) -> Vec<TaskKey> {
    lease(store, token, 10).into_iter().map(|each| each.lease.key).collect()
}

/// Changes a value behind the store's back; what `change` makes of it is stored.
fn change(path: &Path, key: &TaskKey, tag: Option<u8>, change: impl FnOnce(&[u8], Vec<u8>) -> Vec<u8>) {
    tamper(path, |table| {
        let mut row = row_of(table, &CorruptedRecord::Task(key.clone()));
        row[0] = tag.unwrap_or(row[0]);
        let value = table.get(row.as_slice()).expect("readable").expect("it is there").value().to_vec();
        table.insert(row.as_slice(), change(&row, value).as_slice()).expect("written");
    });
}

fn flip_last(_: &[u8], mut value: Vec<u8>) -> Vec<u8> {
    *value.last_mut().expect("it is not empty") ^= 1;
    value
}

/// With another format number, and a checksum that is right.
fn with_format(number: u8) -> impl FnOnce(&[u8], Vec<u8>) -> Vec<u8> {
    move |row, value| {
        let mut body = unseal(row[0], &row[1..], &value).expect("it was sealed").to_vec();
        body[0] = number;
        seal(row[0], &row[1..], &body)
    }
}

#[test]
fn a_value_with_a_wrong_checksum_is_one_quarantined_task_and_the_rest_opens() {
    let scratch = Scratch::new();
    let path = scratch.path().join("store");
    let keys = fill(&path);
    change(&path, &keys[0], None, flip_last);
    let store = open(&path).expect("the rest opens");
    let found = wait(store.list_quarantined(None, None, 10)).expect("a list").items;
    assert_eq!(found.len(), 1);
    assert!(matches!(&found[0].reason, Unreadable::Undecodable { reason } if reason.contains("checksum")));
    // The spec can be read: the key is held. The state cannot: no slot is.
    assert!(found[0].serial_key.is_some() && !found[0].holds_slot, "{found:?}");
    assert_eq!(leased(&store, 2), [keys[3].clone()]);
    let read = wait(store.get_task(&keys[0]));
    assert!(matches!(read, Err(Error::Quarantined { .. })), "{read:?}");
}

#[test]
fn a_task_whose_spec_is_unreadable_holds_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path().join("store");
    let keys = fill(&path);
    change(&path, &keys[0], Some(SPEC), flip_last);
    let store = open(&path).expect("the rest opens");
    let found = wait(store.list_quarantined(None, None, 10)).expect("a list").items;
    assert_eq!((found.len(), &found[0].serial_key, found[0].holds_slot), (1, &None, false));
    assert_eq!(leased(&store, 2), [keys[1].clone(), keys[3].clone()]);
}

#[test]
fn a_newer_versions_record_is_counted_and_intact_when_that_version_reopens() {
    let scratch = Scratch::new();
    let path = scratch.path().join("store");
    let keys = fill(&path);
    let scope = || Scope::Namespace(Namespace::default());
    change(&path, &keys[0], None, with_format(9));
    let store = open(&path).expect("the rest opens");
    let counts = wait(store.counts(scope())).expect("counts").values;
    assert_eq!((counts.get(TaskState::Running), counts.get(TaskState::Queued)), (1, 3));
    // Work of the old version writes the counts of the queue.
    assert_eq!(leased(&store, 2), [keys[3].clone()]);
    wait(store.enqueue_batch(vec![NewTask::new("t")])).expect("valid");
    drop(store);
    change(&path, &keys[0], None, with_format(1));
    let store = open(&path).expect("nothing is missing");
    let counts = wait(store.counts(scope())).expect("counts").values;
    assert_eq!((counts.get(TaskState::Running), counts.get(TaskState::Queued)), (2, 3));
    assert!(store.check().expect("checked").is_clean());
}

#[test]
fn discarding_an_unreadable_task_leaves_a_consistent_store() {
    for (tag, how) in [(None, "status"), (Some(SPEC), "spec")] {
        let scratch = Scratch::new();
        let path = scratch.path().join("store");
        let keys = fill(&path);
        change(&path, &keys[0], tag, flip_last);
        let store = open(&path).expect("the rest opens");
        let raw = wait(store.raw_task(&keys[0])).expect("an answer").expect("it is stored");
        let discarded = wait(store.discard_task(&keys[0], &raw)).expect("an answer");
        assert_eq!(discarded, Discarded::Removed);
        assert_eq!(leased(&store, 2), [keys[1].clone(), keys[3].clone()], "{how}");
        let counts = wait(store.counts(Scope::Namespace(Namespace::default()))).expect("counts").values;
        assert_eq!((counts.get(TaskState::Running), counts.get(TaskState::Queued)), (2, 1), "{how}");
        drop(store);
        let store = open(&path).expect("it opens again");
        if how == "status" {
            assert_eq!(store.check().expect("checked").problems, Vec::<String>::new());
        }
    }
}

#[test]
fn counters_that_cannot_be_read_refuse_the_store() {
    let scratch = Scratch::new();
    let path = scratch.path().join("store");
    fill(&path);
    tamper(&path, |table| {
        let key = [&[0x01], &b"counters"[..]].concat();
        let value = table.get(key.as_slice()).expect("readable").expect("it is there").value().to_vec();
        table.insert(key.as_slice(), flip_last(&key, value).as_slice()).expect("written");
    });
    let refused = open(&path);
    assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{refused:?}");
}
