//! A full disk: writes fail, reads go on, and writing resumes once space is freed.

use std::fs;
use std::path::Path;

use weaver_core::error::Error;
use weaver_core::id::TaskKey;
use weaver_core::name::Namespace;
use weaver_core::ports::{Scope, Selector, Store, TaskQuery};
use weaver_core::queue::{Interest, Wake};
use weaver_core::task::TaskState;
use weaver_embedded::Medium;
use weaver_testkit::harness::queue;

use crate::harness::{contents, enqueue, open_in, open_on, wait};
use crate::processes::on_small_disk;
use crate::support::contents::KIND;
use crate::support::faulty::FaultyMedium;
use crate::support::ram::RamMedium;

/// Enqueues until the store fails; returns the stored tasks and the error.
fn fill_up(store: &dyn Store) -> (Vec<TaskKey>, Error) {
    let mut taken = Vec::new();
    for _ in 0..10_000 {
        match enqueue(store, 10_000) {
            Ok(key) => taken.push(key),
            Err(error) => return (taken, error),
        }
    }
    panic!("the disk never got full");
}

/// Every read call succeeds with the right result.
fn assert_reads_go_on(store: &dyn Store, taken: &[TaskKey]) {
    let default = Namespace::default();
    let found = wait(store.get_tasks(&taken[taken.len() - 1..])).expect("get goes on");
    assert!(found[0].is_some());
    let counts = wait(store.counts(Scope::Namespace(default.clone()))).expect("counts go on");
    assert_eq!(counts.values.get(TaskState::Queued), taken.len() as u64);
    for selector in [Selector::All, Selector::State(TaskState::Queued), Selector::Queue(queue("a"))] {
        let page = wait(store.list_tasks(TaskQuery::new(default.clone()).select(selector)));
        assert!(!page.expect("lists go on").items.is_empty());
    }
    assert_eq!(wait(store.list_queues(&default)).expect("queues go on").len(), 1);
    assert_eq!(wait(store.list_namespaces(None, 10)).expect("namespaces go on").items.len(), 1);
    wait(store.ahead_of(&taken[0], 10)).expect("places go on").expect("it waits");
    wait(store.overdue(10)).expect("overdue goes on");
    wait(store.due_documents(KIND, weaver_core::time::Timestamp::MAX, 10)).expect("due documents go on");
    let interest =
        Interest::Work { namespace: default, queues: vec![queue("a")], types: None, fragile: true };
    let woken = wait(store.wait(interest, std::time::Duration::from_secs(1))).expect("waiting goes on");
    assert_eq!(woken, Wake::Ready);
}

fn assert_says_full(error: &Error, file: &str) {
    let text = error.to_string();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(text.contains(file) && text.contains("cannot grow"), "{text}");
    assert!(text.contains("free at least") && text.contains("MiB on its disk"), "{text}");
}

#[test]
fn on_a_full_disk_writes_fail_and_reads_go_on_until_space_is_freed() {
    let test = "disk_full::on_a_full_disk_writes_fail_and_reads_go_on_until_space_is_freed";
    on_small_disk("12m", test, fill_and_free);
}

fn fill_and_free(disk: &Path) {
    let directory = disk.join("store");
    let store = open_in(&directory).expect("an empty directory opens");
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![7; 5 << 20]).expect("there is room");
    let (mut taken, error) = fill_up(&store);
    assert_says_full(&error, "weaver.redb");
    assert_reads_go_on(&store, &taken);
    assert_says_full(&enqueue(&store, 10).expect_err("it is still full"), "weaver.redb");
    assert!(!directory.join("weaver.room").exists(), "the free-space probe is removed");

    fs::remove_file(&ballast).expect("it is there");
    for _ in 0..20 {
        taken.push(enqueue(&store, 10_000).expect("there is room again"));
    }
    assert_reads_go_on(&store, &taken);
    drop(store);
    let store = open_in(&directory).expect("it was closed well");
    let found: Vec<_> =
        contents(&store).expect("it answers").tasks.into_iter().map(|task| task.key).collect();
    assert_eq!(found, taken, "everything acknowledged, and nothing else");
    assert!(store.check().expect("it can be read").is_clean());
}

#[test]
fn a_store_closed_on_a_full_disk_opens_with_everything_acknowledged() {
    let (bytes, mut medium) = medium();
    let store = open_on(medium.clone()).expect("an empty medium opens");
    medium.limit(Some(bytes.bytes().len() as u64));
    let (taken, error) = fill_up(&store);
    assert_says_full(&error, &medium.name());
    drop(store);
    medium = FaultyMedium::on(bytes);
    let store = open_on(medium).expect("it recovers on open");
    assert_reads_go_on(&store, &taken);
    enqueue(&store, 10_000).expect("there is room");
}

#[test]
fn a_store_opens_and_reads_while_the_disk_is_full() {
    let (bytes, medium) = medium();
    let store = open_on(medium.clone()).expect("an empty medium opens");
    medium.limit(Some(bytes.bytes().len() as u64));
    let (taken, _) = fill_up(&store);
    drop(store);
    let store = open_on(medium.clone()).expect("opening needs no room");
    assert_reads_go_on(&store, &taken);
    let (more, error) = fill_up(&store);
    assert_says_full(&error, &medium.name());
    medium.limit(None);
    enqueue(&store, 10_000).expect("there is room again");
    assert_eq!(contents(&store).expect("it answers").tasks.len(), taken.len() + more.len() + 1);
}

fn medium() -> (RamMedium, FaultyMedium) {
    let bytes = RamMedium::new();
    (bytes.clone(), FaultyMedium::on(bytes))
}
