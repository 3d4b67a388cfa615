//! Maintenance of whole stores: check, backup, compact, export, import.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redb::ReadableTable;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::LeaseToken;
use weaver_core::lease::LeaseRequest;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::ports::{
    Admin, DocumentKey, Documents, Expect, Journal, Order, QueueSettings, ReadFrom, StreamKey, TaskQuery,
    Tasks, TrimBefore,
};
use weaver_core::queue::{Queue, QueueExt};
use weaver_core::task::{NewTask, TaskRecord};
use weaver_embedded::{EmbeddedOptions, EmbeddedStore, StoreError};

use support::{Scratch, tamper};

fn open(path: &Path, clock: &ManualClock) -> EmbeddedStore {
    try_open(path, clock).expect("the store opens")
}

fn try_open(path: &Path, clock: &ManualClock) -> Result<EmbeddedStore, StoreError> {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    EmbeddedStore::open_with(path, clock, EmbeddedOptions::default(), Arc::new(|_| {}))
}

fn task(kind: &'static str) -> NewTask {
    NewTask::new(kind).json(&[kind]).expect("JSON")
}

/// Records of every kind: tasks in several states, keys, groups, settings, documents and streams.
async fn fill(store: &EmbeddedStore, clock: &ManualClock) {
    let default = Namespace::default();
    let tasks = vec![
        task("plain"),
        task("later").delay(Duration::from_secs(60)),
        task("keyed").serial_key("k").idempotency_key("once"),
        task("grouped").task_group_id("g").session_id("s").label("team", "blue"),
        task("elsewhere").namespace("other").queue("slow"),
        task("bytes"),
    ];
    for answer in store.enqueue_batch(tasks).await.expect("valid") {
        answer.expect("stored");
    }
    clock.advance(Duration::from_secs(1));
    let request = LeaseRequest {
        max: 3,
        slots: 3,
        ..LeaseRequest::new(
            default.clone(),
            QueueName::default(),
            WorkerId::new("w").expect("a name"),
            LeaseToken(7),
        )
    };
    let leased = store.lease(request).await.expect("leased");
    assert_eq!(leased.len(), 3);
    store.mark_succeeded(&leased[0], Some(Bytes::from_static(b"\xff\x00"))).await.expect("done");
    store.mark_failed(&leased[1], "it broke").await.expect("failed");
    let settings = QueueSettings { paused: true, max_running: Some(3), ..QueueSettings::default() };
    let slow = QueueName::new("slow").expect("a name");
    store
        .put_queue(&Namespace::new("other").expect("a name"), &slow, settings, Expect::Absent)
        .await
        .expect("set");
    let document = DocumentKey::new(default.clone(), "kind", "one");
    let due = Some(clock.now());
    store.put_document(&document, Bytes::from_static(b"{}"), Expect::Absent, due).await.expect("written");
    let stream = StreamKey::new(default, "audit");
    let bodies: Vec<Bytes> = (0..5).map(|number| Bytes::from(format!("line {number}"))).collect();
    store.append_entries(&stream, &bodies).await.expect("appended");
    store.trim_entries(&stream, TrimBefore::Seq(weaver_core::ports::Seq(3))).await.expect("trimmed");
}

/// Everything a caller can see of a store.
async fn contents(store: &EmbeddedStore) -> (Vec<TaskRecord>, String) {
    let mut tasks = Vec::new();
    let mut rest = String::new();
    for namespace in ["default", "other"].map(|name| Namespace::new(name).expect("a name")) {
        let query = TaskQuery { order: Order::OldestFirst, ..TaskQuery::new(namespace.clone()) };
        tasks.extend(store.list_tasks(query).await.expect("listed").items);
        rest += &format!("{:?}\n", store.list_queues(&namespace).await.expect("listed"));
        rest += &format!("{:?}\n", store.list_groups(&namespace, None, 10).await.expect("listed"));
        let stream = StreamKey::new(namespace.clone(), "audit");
        rest += &format!("{:?}\n", store.read_entries(&stream, ReadFrom::Last(10), 10).await.expect("read"));
        rest +=
            &format!("{:?}\n", store.list_documents(&namespace, "kind", "", None, 10).await.expect("listed"));
    }
    let again = store.enqueue_batch(vec![task("keyed").idempotency_key("once")]).await.expect("valid");
    rest += &format!("{again:?}\n");
    (tasks, rest)
}

#[tokio::test]
async fn what_was_stored_is_there_after_a_restart() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(scratch.path(), &clock);
    fill(&store, &clock).await;
    let before = contents(&store).await;
    drop(store);
    let store = open(scratch.path(), &clock);
    assert_eq!(contents(&store).await, before);
    assert!(store.check().expect("checked").is_clean());
}

#[tokio::test]
async fn a_check_reads_everything_and_finds_nothing_wrong_with_a_healthy_store() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(scratch.path(), &clock);
    assert!(store.check().expect("checked").is_clean(), "an empty one");
    fill(&store, &clock).await;
    let report = store.check().expect("checked");
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.tasks, 6);
    assert!(report.rows > 40, "{report:?}");
}

#[tokio::test]
async fn a_check_names_a_missing_row_and_an_unexpected_one() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(scratch.path(), &clock);
    fill(&store, &clock).await;
    drop(store);
    tamper(scratch.path(), |table| {
        // The first index row, by its tag.
        let range = table.range(&[0x13][..]..&[0x14][..]).expect("rows");
        let first = range.take(1).map(|row| row.expect("a row").0.value().to_vec()).next().expect("one");
        table.remove(first.as_slice()).expect("removed");
    });
    let store = open(scratch.path(), &clock);
    let problems = store.check().expect("checked").problems.join("; ");
    assert!(problems.contains("index row") && problems.contains("missing"), "{problems}");
}

#[tokio::test]
async fn a_check_names_a_value_whose_checksum_is_wrong() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(scratch.path(), &clock);
    fill(&store, &clock).await;
    drop(store);
    tamper(scratch.path(), |table| {
        // A finished task: opening does not read those.
        let range = table.range(&[0x12][..]..&[0x13][..]).expect("rows");
        let (key, mut value) = range
            .take(1)
            .map(|row| row.expect("a row"))
            .map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
            .next()
            .expect("one");
        *value.last_mut().expect("bytes") ^= 1;
        table.insert(key.as_slice(), value.as_slice()).expect("written");
    });
    let store = open(scratch.path(), &clock);
    let report = store.check().expect("checked");
    let problems = report.problems.join("; ");
    assert!(problems.contains("finished task") && problems.contains("checksum"), "{problems}");
    // Only that task cannot be read; the others go on.
    let query = TaskQuery::new(Namespace::new("other").expect("a name"));
    assert_eq!(store.list_tasks(query).await.expect("listed").items.len(), 1);
}

#[tokio::test]
async fn a_check_recounts_and_names_a_queue_with_wrong_counts() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(scratch.path(), &clock);
    fill(&store, &clock).await;
    drop(store);
    tamper(scratch.path(), |table| {
        let range = table.range(&[0x12][..]..&[0x13][..]).expect("rows");
        let keys: Vec<Vec<u8>> = range.map(|row| row.expect("a row").0.value().to_vec()).collect();
        for key in keys {
            table.remove(key.as_slice()).expect("removed");
        }
    });
    let store = open(scratch.path(), &clock);
    let problems = store.check().expect("checked").problems.join("; ");
    assert!(problems.contains("status row is missing") && problems.contains("queue"), "{problems}");
}

#[tokio::test]
async fn opening_reports_its_progress() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(scratch.path(), &clock);
    for _ in 0..6 {
        store.enqueue_batch(vec![task("many"); 10_000]).await.expect("valid");
    }
    drop(store);
    let steps = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let reported = Arc::clone(&steps);
    let listener: weaver_embedded::Listener = Arc::new(move |step| reported.lock().push(step.to_string()));
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let store = EmbeddedStore::open_with(scratch.path(), clock, EmbeddedOptions::default(), listener);
    drop(store.expect("the store opens"));
    let steps = steps.lock().join(", ");
    assert_eq!(steps, "verifying the store, loading live tasks: 50000 of 60000, open");
}

#[tokio::test]
async fn a_backup_of_a_running_store_is_a_store_with_the_same_contents() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(&scratch.path().join("store"), &clock);
    fill(&store, &clock).await;
    let copied = store.backup(scratch.path().join("copy")).expect("copied");
    assert!(copied > 40, "{copied}");
    let before = contents(&store).await;
    store.enqueue_batch(vec![task("after")]).await.expect("valid");
    let copy = open(&scratch.path().join("copy"), &clock);
    assert_eq!(contents(&copy).await, before);
    assert!(copy.check().expect("checked").is_clean());
}

#[tokio::test]
async fn a_backup_never_overwrites_a_store() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(&scratch.path().join("store"), &clock);
    store.backup(scratch.path().join("copy")).expect("copied");
    let refusal = store.backup(scratch.path().join("copy")).expect_err("it is there").to_string();
    assert!(refusal.contains("copy") && refusal.contains("choose an empty directory"), "{refusal}");
}

#[tokio::test]
async fn an_export_imported_into_an_empty_store_gives_the_same_contents() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(&scratch.path().join("store"), &clock);
    fill(&store, &clock).await;
    let mut text = Vec::new();
    let exported = store.export(&mut text).expect("written");
    assert_eq!(exported.tasks, 6);
    let other = open(&scratch.path().join("other"), &clock);
    let imported = other.import(text.as_slice()).await.expect("read");
    assert_eq!((imported.lines, imported.added), (exported.lines, exported.lines - 2));
    assert_eq!(contents(&other).await, contents(&store).await);
    assert!(other.check().expect("checked").is_clean());
}

#[tokio::test]
async fn an_import_can_be_repeated_and_leaves_what_is_there() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(scratch.path(), &clock);
    fill(&store, &clock).await;
    let mut text = Vec::new();
    store.export(&mut text).expect("written");
    let before = contents(&store).await;
    let imported = store.import(text.as_slice()).await.expect("read");
    assert_eq!(imported.added, 0);
    assert_eq!(contents(&store).await, before);
}

#[tokio::test]
async fn a_truncated_or_garbled_export_is_refused_with_its_line() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(&scratch.path().join("store"), &clock);
    fill(&store, &clock).await;
    let mut text = Vec::new();
    store.export(&mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    let other = open(&scratch.path().join("other"), &clock);
    let cut: String = text.lines().take(4).map(|line| format!("{line}\n")).collect();
    let refusal = other.import(cut.as_bytes()).await.expect_err("cut").to_string();
    assert!(refusal.contains("line 4") && refusal.contains("truncated"), "{refusal}");
    let garbled = text.replacen("\"task\"", "\"tusk\"", 1);
    let refusal = other.import(garbled.as_bytes()).await.expect_err("garbled").to_string();
    assert!(refusal.contains("line ") && refusal.contains("tusk"), "{refusal}");
    let refusal = other.import(&b"hello\n"[..]).await.expect_err("no export").to_string();
    assert!(refusal.contains("line 1"), "{refusal}");
}

#[tokio::test]
async fn an_import_never_overwrites_another_task_with_the_same_id() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(&scratch.path().join("store"), &clock);
    fill(&store, &clock).await;
    let mut text = Vec::new();
    store.export(&mut text).expect("written");
    let other = open(&scratch.path().join("other"), &clock);
    clock.advance(Duration::from_secs(5));
    other.enqueue_batch(vec![task("mine")]).await.expect("valid");
    let refusal = other.import(text.as_slice()).await.expect_err("taken").to_string();
    assert!(refusal.contains("another task has this id"), "{refusal}");
}

#[tokio::test]
async fn compaction_frees_the_space_of_purged_tasks_and_keeps_the_rest() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(scratch.path(), &clock);
    let stream = StreamKey::new(Namespace::default(), "large");
    let body = Bytes::from(vec![b'x'; 60_000]);
    for _ in 0..100 {
        store.append_entries(&stream, &vec![body.clone(); 8]).await.expect("appended");
    }
    fill(&store, &clock).await;
    let before = contents(&store).await;
    store.trim_entries(&stream, TrimBefore::Seq(weaver_core::ports::Seq(u64::MAX))).await.expect("trimmed");
    let large = store.file_bytes().expect("a size");
    let saved = store.compact().await.expect("compacted");
    let small = store.file_bytes().expect("a size");
    assert!(saved > 30_000_000 && small < 8_000_000, "{large} bytes became {small}");
    assert_eq!(contents(&store).await, before);
    store.enqueue_batch(vec![task("after")]).await.expect("it goes on");
}
