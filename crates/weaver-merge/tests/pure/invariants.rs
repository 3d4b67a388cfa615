//! Invariants of a saved queue.

use weaver_merge::domain::{EntryId, MergeError, MergeQueue, Status};

use crate::scene::Scene;

fn three() -> MergeQueue {
    Scene::new(&["a", "b", "c"], &["unit"]).queue
}

#[test]
fn positions_are_contiguous_from_0() {
    let mut queue = three();
    queue.entries[1].position = 2;
    assert_eq!(queue.validate(), Err(MergeError::InvalidPosition { expected: 1, actual: 2 }));
    queue.entries.remove(0);
    assert_eq!(queue.validate(), Err(MergeError::InvalidPosition { expected: 0, actual: 2 }));
}

#[test]
fn only_the_head_is_processed() {
    let mut queue = three();
    queue.entries[1].status = Status::Updating;
    assert_eq!(queue.validate(), Err(MergeError::MultipleProcessing(EntryId(2))));
}

#[test]
fn a_change_is_in_a_queue_once() {
    let mut queue = three();
    queue.entries[2].pull_request.id = "a".into();
    assert_eq!(queue.validate(), Err(MergeError::DuplicatePr("a".into())));
}

#[test]
fn a_status_changes_only_along_the_table() {
    for from in [Status::Pending, Status::Updating] {
        let mut before = three();
        before.entries[0].status = from;
        let mut after = before.clone();
        after.entries[0].status = Status::Updating;
        assert_eq!(after.validate_after(&before), Ok(()));
    }
    let scene = checking();
    let mut back = scene.queue.clone();
    back.entries[0].status = Status::Pending;
    back.entries[0].candidate = None;
    assert!(matches!(back.validate_after(&scene.queue), Err(MergeError::QueueCorrupted(_))));
}

#[test]
fn a_completed_entry_does_not_come_back() {
    let mut before = three();
    let removed = before.remove(EntryId(1)).unwrap();
    let mut after = before.clone();
    after.entries.insert(0, removed);
    for (position, entry) in after.entries.iter_mut().enumerate() {
        entry.position = position;
    }
    let corrupted = MergeError::QueueCorrupted("entry 1 came back".into());
    assert_eq!(after.validate_after(&before), Err(corrupted));
}

#[test]
fn nothing_is_tested_without_a_candidate_and_checks() {
    let scene = checking();
    let mut without = scene.queue.clone();
    without.entries[0].candidate = None;
    assert!(matches!(without.validate(), Err(MergeError::QueueCorrupted(_))));
    let mut without = scene.queue.clone();
    without.entries[0].checks.clear();
    assert!(matches!(without.validate(), Err(MergeError::QueueCorrupted(_))));
}

#[test]
fn an_entry_with_a_final_status_is_not_in_the_queue() {
    for status in [Status::Failed, Status::Cancelled] {
        let mut queue = three();
        queue.entries[0].status = status;
        assert!(matches!(queue.validate(), Err(MergeError::QueueCorrupted(_))));
    }
}

fn checking() -> Scene {
    let mut scene = Scene::new(&["a", "b"], &["unit"]);
    scene.step();
    assert_eq!(scene.status(), Some(Status::Checking));
    scene
}
