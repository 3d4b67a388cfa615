//! A full queue is planned quickly and fits its document.

use weaver_core::ports::DOCUMENT_MAX_BYTES;
use weaver_core::time::Timestamp;
use weaver_merge::domain::ENTRIES_MAX;
use weaver_merge::plan::PullRequestSeen;

use crate::scene::{Scene, change};

#[test]
fn a_thousand_entries_fit_one_document_and_one_plan_moves_only_the_head() {
    let mut scene = Scene::new(&[], &["unit"]);
    for number in 0..ENTRIES_MAX {
        let change = change(&format!("feature/a-branch-{number}"), number as u64);
        let entry = scene.queue.enqueue(&change, 5, Timestamp::from_micros(1_767_225_600_000_000)).unwrap();
        scene.seen.pull_requests.insert(entry, PullRequestSeen::Present(change));
        scene.queue.outbox.clear();
    }
    let before = scene.queue.clone();
    assert_eq!(scene.plan().len(), 1);
    assert_eq!(scene.queue.entries[1..], before.entries[1..]);
    let bytes = serde_json::to_vec(&scene.queue).unwrap().len();
    assert!(bytes < DOCUMENT_MAX_BYTES, "{bytes}");
}
