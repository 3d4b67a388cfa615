//! A failing disk: waiting callers get an error, the store reopens its file, nothing acknowledged is lost,
//! and writing resumes without a restart.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weaver_core::clock::ManualClock;
use weaver_core::error::Error;
use weaver_core::id::TaskKey;
use weaver_core::ports::{Store, Tasks};
use weaver_embedded::{EmbeddedOptions, EmbeddedStore, Medium};

use crate::harness::{contents, enqueue, fill, open_on, wait};
use crate::support::faulty::{Call, FaultyMedium};
use crate::support::ram::RamMedium;

/// A store without a page cache, so that reads get to the disk.
fn open(medium: &FaultyMedium, own_thread: bool) -> EmbeddedStore {
    let options =
        EmbeddedOptions { page_cache_bytes: 0, record_cache_bytes: 0, ..EmbeddedOptions::default() };
    let clock = Arc::new(ManualClock::default());
    EmbeddedStore::open_on(Arc::new(medium.clone()), clock, options, own_thread).expect("it opens")
}

fn assert_unavailable(error: &Error, medium: &FaultyMedium) {
    let text = error.to_string();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(text.contains(&medium.name()), "`{text}` does not name the file");
    assert!(text.contains("was made to fail"), "`{text}` does not say why");
}

/// Everything acknowledged is there; what was refused may be or not.
fn assert_kept(store: &dyn Store, acknowledged: &[TaskKey], refused: usize) {
    let found = contents(store).expect("it answers");
    let missing = acknowledged.iter().find(|key| !found.tasks.iter().any(|task| task.key == **key));
    assert_eq!(missing, None);
    assert!(found.tasks.len() <= acknowledged.len() + refused, "{} tasks", found.tasks.len());
}

#[test]
fn a_call_that_fails_once_loses_nothing_and_writing_goes_on() {
    for call in Call::ALL {
        let mut struck = 0;
        for after in 0..60 {
            let medium = FaultyMedium::on(RamMedium::new());
            let store = open(&medium, false);
            let (mut acknowledged, mut refused) = (Vec::new(), 0);
            medium.fail_once(call, after, ErrorKind::Other);
            for _ in 0..12 {
                match enqueue(&store, 30_000) {
                    Ok(key) => acknowledged.push(key),
                    Err(error) => {
                        refused += 1;
                        assert_unavailable(&error, &medium);
                    }
                }
                // Reads are retried: only the one that hits the fault may fail, and none fails twice.
                wait(store.get_tasks(&acknowledged)).expect("a read is tried again");
            }
            struck += medium.failed();
            assert!(refused <= 1, "{call:?} after {after}: {refused} were refused for one fault");
            medium.heal();
            acknowledged.push(enqueue(&store, 10).expect("the fault is over"));
            assert_kept(&store, &acknowledged, refused);
            drop(store);
            assert_kept(&open(&medium, false), &acknowledged, refused);
        }
        // Opening again is all that calls it later, and nothing failed before: see the next test.
        assert!(struck > 0 || call == Call::Open, "{call:?} was never called");
    }
}

#[test]
fn a_disk_that_keeps_failing_is_retried_with_every_call() {
    for call in Call::ALL {
        let medium = FaultyMedium::on(RamMedium::new());
        let store = open(&medium, true);
        let wanted = fill(&store);
        medium.fail_once(Call::Sync, 0, ErrorKind::Other);
        enqueue(&store, 10).expect_err("its sync fails");
        medium.fail(call, ErrorKind::Other);
        let mut refusals = 0;
        for _ in 0..5 {
            if let Err(error) = enqueue(&store, 1_000_000) {
                assert_unavailable(&error, &medium);
                refusals += 1;
            }
        }
        assert!(refusals > 0 || call == Call::Open, "{call:?} should be needed");
        medium.heal();
        let found = contents(&store).expect("it answers again, without a restart");
        assert_eq!(found.tasks[..wanted.tasks.len()], wanted.tasks[..]);
        enqueue(&store, 10).expect("it writes again");
    }
}

#[test]
fn a_store_that_could_not_be_reopened_is_reopened_by_the_next_call() {
    let medium = FaultyMedium::on(RamMedium::new());
    let store = open(&medium, false);
    let wanted = fill(&store);
    medium.fail(Call::Write, ErrorKind::Other);
    enqueue(&store, 10).expect_err("its write fails, and so does opening again");
    medium.fail(Call::Open, ErrorKind::Other);
    let error = contents(&store).expect_err("there is nothing to read from");
    assert_unavailable(&error, &medium);
    medium.heal();
    assert_eq!(contents(&store).expect("it is open again"), wanted);
}

#[test]
fn a_file_truncated_under_a_running_store_is_refused_on_reopen() {
    let bytes = RamMedium::new();
    let medium = FaultyMedium::on(bytes.clone());
    let store = open_on(medium.clone()).expect("an empty medium opens");
    fill(&store);
    for length in [100, 0] {
        redb::StorageBackend::set_len(&bytes, length).expect("it is memory");
        medium.fail_once(Call::Sync, 0, ErrorKind::Other);
        enqueue(&store, 10).expect_err("its sync fails, or there is nothing to write to");
        redb::StorageBackend::set_len(&bytes, length).expect("it is memory");
        let error = enqueue(&store, 10).expect_err("there is no file left to open").to_string();
        assert!(error.contains(&medium.name()) && error.contains("truncated"), "{error}");
        assert_eq!(bytes.bytes().len() as u64, length, "nothing was made in its place");
    }
}

#[test]
fn readers_beside_a_failing_writer_see_what_is_there_or_an_error() {
    let medium = FaultyMedium::on(RamMedium::new());
    let store = open(&medium, true);
    let wanted = fill(&store);
    let keys: Vec<_> = wanted.tasks.iter().map(|task| task.key.clone()).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    match wait(store.get_tasks(&keys)) {
                        Ok(found) => assert!(found.iter().flatten().eq(wanted.tasks.iter())),
                        Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error}"),
                    }
                }
            });
        }
        for round in 0..40 {
            let call = [Call::Write, Call::Sync, Call::Read][round % 3];
            medium.fail_once(call, (round % 7) as u64, ErrorKind::Other);
            // The fault may hit this call or a reader.
            let _ = enqueue(&store, 2000);
        }
        medium.heal();
        enqueue(&store, 10).expect("it writes again");
        done.store(true, Ordering::Relaxed);
    });
}
