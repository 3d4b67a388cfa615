//! An entry is pinned to the head it was enqueued with, to exact branches, and to its producer.

use weaver_merge::domain::{MergeError, QueueEntry, Reason, Repository};
use weaver_merge::engine::{EngineError, NewEntry};

use crate::harness::Harness;

#[tokio::test]
async fn a_push_to_a_waiting_branch_ejects_it_and_nothing_of_it_lands() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    let approved = harness.entry(b).await.entry.pull_request.head;
    let to = harness.repo.commit("b", Some(harness.first.as_str()), &[("sneaked", "1\n")]);
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert_eq!(harness.reason(b).await, Reason::HeadChanged { to });
    assert_eq!(harness.entry(b).await.entry.pull_request.head, approved, "the approved head stays on record");
    let files = harness.files();
    assert!(!files.contains("b") && !files.contains("sneaked"));
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_push_to_a_waiting_branch_is_retested_if_the_base_says_so() {
    let harness = Harness::retesting().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    let to = harness.repo.commit("b", Some(harness.first.as_str()), &[("b", "2\n")]);
    harness.settle().await;
    assert!(harness.has_landed(a).await && harness.has_landed(b).await);
    assert_eq!(harness.entry(b).await.entry.pull_request.head, to, "it is pinned again");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_branch_that_was_pushed_to_can_be_enqueued_again_at_once() {
    let harness = Harness::new().await;
    let old = harness.add("a", &[("a", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    let to = harness.repo.commit("a", Some(harness.first.as_str()), &[("a", "2\n")]);
    let new = harness.engine.enqueue(&harness.queue, "a", 5).await.unwrap().entry;
    harness.settle().await;
    assert_eq!(harness.reason(old).await, Reason::HeadChanged { to: to.clone() });
    assert_eq!(harness.entry(new).await.certificate.unwrap().head, to);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_named_head_must_be_the_head_of_the_branch() {
    let harness = Harness::new().await;
    let old = harness.repo.commit("a", Some(harness.first.as_str()), &[("a", "1\n")]);
    let head = harness.repo.commit("a", Some(harness.first.as_str()), &[("a", "2\n")]);
    let new = |head| NewEntry { change: "a".into(), head: Some(head), by: Some("ada".into()) };
    let refused = harness.engine.enqueue(&harness.queue, new(old.clone()), 5).await;
    let (pull_request, expected, actual) = ("a".into(), old, head.clone());
    assert_eq!(refused, Err(MergeError::HeadMismatch { pull_request, expected, actual }.into()));
    let entry = harness.engine.enqueue(&harness.queue, new(head.clone()), 5).await.unwrap().entry;
    harness.settle().await;
    let stored = harness.entry(entry).await;
    assert_eq!(stored.certificate.unwrap().head, head);
    assert_eq!(stored.entry.enqueued_by.as_deref(), Some("ada"));
}

#[tokio::test]
async fn an_expression_is_neither_a_branch_to_enqueue_nor_a_base_branch() {
    let harness = Harness::new().await;
    let head = harness.repo.commit("a", Some(harness.first.as_str()), &[("a", "1\n")]);
    // `rev-parse` would find this tag for a branch that does not exist.
    harness.repo.git(&["update-ref", "refs/tags/refs/heads/tagged", head.as_str()]);
    let invalid = |answer: Result<(), EngineError>| {
        matches!(answer, Err(EngineError::Merge(MergeError::InvalidBranchName { .. })))
    };
    for name in ["a~0", "a^0", "a@{0}", "refs/heads/a~0", "main..a", "a^{commit}"] {
        let answer = harness.engine.enqueue(&harness.queue, name, 5).await.map(drop);
        assert!(invalid(answer), "{name}");
    }
    let tagged = harness.engine.enqueue(&harness.queue, "tagged", 5).await;
    assert_eq!(tagged, Err(MergeError::PullRequestClosed("tagged".into()).into()));
    let repository = Repository::at(harness.repo.path().to_str().unwrap().to_owned(), None);
    let answer = harness.engine.examine(&repository, "main~0").await;
    assert!(answer.unwrap_err().to_string().contains("exact name of a branch"));
    assert!(invalid(harness.engine.add_queue(repository, "main~0").await.map(drop)));
    // The full name of a branch is exact too.
    harness.engine.enqueue(&harness.queue, "refs/heads/a", 5).await.unwrap();
}

#[tokio::test]
async fn an_entry_of_an_older_version_is_read_without_its_producer() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let entry = harness.entry(a).await.entry;
    let text = serde_json::to_string(&entry).unwrap();
    assert!(!text.contains("enqueued_by"));
    assert_eq!(serde_json::from_str::<QueueEntry>(&text).unwrap(), entry);
    let conflicted = r#"{"reason":"conflicted","paths":["a"]}"#;
    let read: Reason = serde_json::from_str(conflicted).unwrap();
    assert_eq!(read, Reason::Conflicted { paths: vec!["a".into()], with: Vec::new() });
}
