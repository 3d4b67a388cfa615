//! Removing a queue, planned.

use weaver_core::id::TaskId;
use weaver_core::ports::DOCUMENT_MAX_BYTES;
use weaver_core::time::Timestamp;
use weaver_merge::domain::{ENTRIES_MAX, MergeError, Notice, RemoveOptions};
use weaver_merge::plan::{Action, BaseSeen, PullRequestSeen, RunSeen};

use crate::scene::{Scene, change};

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

fn with_entries() -> RemoveOptions {
    RemoveOptions { cancel_entries: true, by: Some("ada@token".to_owned()) }
}

#[test]
fn a_full_queue_is_removed_in_steps_that_fit_its_document() {
    let mut scene = Scene::new(&[], &["unit"]);
    for number in 0..ENTRIES_MAX {
        let change = change(&format!("feature/a-branch-{number}"), number as u64);
        let entry = scene.queue.enqueue(&change, 5, NOW).unwrap();
        scene.seen.pull_requests.insert(entry, PullRequestSeen::Present(change));
        scene.queue.outbox.clear();
    }
    scene.queue.begin_removal(&with_entries(), true, NOW).unwrap();
    let (mut notices, mut steps) = (0, 0);
    while !scene.queue.is_removed() {
        assert_eq!(scene.plan(), [], "nothing is started, and nothing lands");
        let bytes = serde_json::to_vec(&scene.queue).unwrap().len();
        assert!(bytes < DOCUMENT_MAX_BYTES, "{bytes}");
        notices += scene.queue.outbox.len();
        scene.queue.outbox.clear();
        steps += 1;
        assert!(steps < 50);
    }
    assert_eq!(notices, ENTRIES_MAX + 1, "one for each entry, and one for the queue");
}

#[test]
fn a_removal_is_complete_once_its_notices_are_published_and_its_checks_cancelled() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    let task = TaskId(1000);
    assert_eq!(scene.queue.entries[0].checks[0].runs[0].task, Some(task));
    scene.queue.begin_removal(&with_entries(), true, NOW).unwrap();
    scene.seen.base = BaseSeen::Missing("gone".into());
    assert_eq!(scene.plan(), [Action::StopCheck { task }]);
    assert_eq!(scene.queue.outbox.len(), 1, "{:?}", scene.queue.outbox);
    scene.queue.outbox.clear();
    // It is announced, but its task still runs.
    assert_eq!(scene.plan(), [Action::StopCheck { task }]);
    assert!(matches!(scene.queue.outbox[..], [Notice::QueueRemoved { entries: 1, .. }]));
    let published = std::mem::take(&mut scene.queue.outbox);
    scene.plan();
    assert!(!scene.queue.is_removed(), "a task is left to cancel");
    scene.seen.runs.insert(task, RunSeen::Stopping);
    scene.queue.outbox = published;
    scene.plan();
    assert!(!scene.queue.is_removed(), "a notice is left to publish");
    scene.queue.outbox.clear();
    scene.plan();
    assert!(scene.queue.is_removed() && scene.queue.stopping.is_empty());
}

#[test]
fn a_removal_is_refused_without_its_option_and_repeated_without_effect() {
    let mut scene = Scene::new(&["a", "b"], &["unit"]);
    let plain = RemoveOptions::default();
    assert_eq!(scene.queue.begin_removal(&plain, true, NOW), Err(MergeError::OpenEntries(2)));
    assert_eq!(scene.queue.removal, None);
    scene.queue.begin_removal(&with_entries(), true, NOW).unwrap();
    let once = scene.queue.clone();
    scene.queue.begin_removal(&plain, true, NOW).unwrap();
    assert_eq!(scene.queue, once);
}
