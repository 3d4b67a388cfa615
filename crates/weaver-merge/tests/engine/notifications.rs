//! Events, notifications and certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect};
use weaver_merge::domain::{MergeError, Repository};
use weaver_merge::engine::{EngineError, EngineOptions, JournalEvent, MergeEngine, NewEntry, QUEUE_KIND};
use weaver_merge::notify::{Kind, Notifications};
use weaver_merge::plan::Policy;

use crate::harness::{Harness, engine, forges, options};
use crate::hooked::HookedForges;

#[tokio::test]
async fn a_queue_with_an_unreadable_document_does_not_stop_other_queues() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let broken = DocumentKey::new(harness.engine.namespace().clone(), QUEUE_KIND, "broken");
    let body = br#"{"from": "the future"}"#;
    let store = harness.tasks.store();
    let version = store.put_document(&broken, body.to_vec().into(), Expect::Absent, None).await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert_eq!(harness.engine.queues().await.unwrap().len(), 1, "the others are listed");
    let read = harness.engine.get(&weaver_merge::domain::QueueId("broken".to_owned())).await;
    assert!(matches!(read, Err(EngineError::Unreadable { .. })), "{read:?}");
    let kept = store.get_document(&broken).await.unwrap().unwrap();
    assert_eq!((kept.body.as_ref(), kept.version), (&body[..], version), "the document is unchanged");
}

#[tokio::test]
async fn events_report_enqueued_landed_and_removed_entries() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let head = harness.repo.commit("b", Some(harness.first.as_str()), &[("bad", "1\n")]);
    let new = NewEntry { change: "b".into(), head: None, by: Some("ada".into()) };
    let bad = harness.engine.enqueue(&harness.queue, new, 5).await.unwrap().entry;
    harness.settle().await;
    let events = harness.events().await;
    let event = |word: &str, entry| &events[&format!("merge-notice:{}:{word}:{entry}", harness.queue)];
    for word in ["added", "removed"] {
        assert_eq!(event(word, bad)["head"], head.as_str());
        assert_eq!(event(word, bad)["enqueued_by"], "ada");
    }
    assert_eq!(event("merged", a)["head"], harness.repo.tip("a").as_str());
    assert_eq!(event("added", a)["event"], "queue_entry_added");
    assert_eq!(event("added", bad)["position"], 2);
    assert_eq!(event("merged", a)["event"], "pull_request_merged");
    assert_eq!(event("merged", a)["commit"], harness.repo.tip("main").to_string());
    assert_eq!(event("removed", bad)["event"], "queue_entry_removed");
    assert_eq!(events.len(), 4);
    harness.prove(&[]).await;
}

#[test]
fn an_event_of_an_older_version_is_read_without_its_head() {
    let text = r#"{"queue": "demo:main", "key": "k", "event": "queue_entry_added", "entry": 1,
        "pull_request": "a", "position": 1}"#;
    let event: JournalEvent = serde_json::from_str(text).unwrap();
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        serde_json::from_str::<serde_json::Value>(text).unwrap()
    );
}

#[tokio::test]
async fn every_notification_about_an_entry_names_its_head_and_the_first_one_who_enqueued_it() {
    let harness = Harness::new().await;
    harness.add("a", &[("README", "a\n")]).await;
    harness.add("b", &[("README", "b\n")]).await;
    harness.add("c", &[("bad", "1\n")]).await;
    let heads = ["a", "b", "c"].map(|branch| harness.repo.tip(branch).to_string());
    let notifications =
        Notifications { webhook: Some("https://example.org".into()), ..Notifications::default() };
    let options = EngineOptions { notifications, ..options(Policy::default()) };
    let clock = Arc::new(harness.tasks.clock().clone());
    let engine = MergeEngine::new(harness.tasks.store(), forges(), clock, options);
    harness.settle_with(&engine).await;
    let sent: Vec<String> = harness
        .tasks
        .enqueued()
        .await
        .iter()
        .map(|task| &task.spec.envelope)
        .filter(|task| task.task_type.as_str() == "http")
        .map(|task| String::from_utf8_lossy(&task.payload).into_owned())
        .collect();
    for (head, words) in [
        (&heads[0], ["was added", "by an unknown user"]),
        (&heads[0], ["`a`", "landed on"]),
        (&heads[1], ["`b`", "it conflicts with"]),
        (&heads[2], ["`c`", "was ejected"]),
    ] {
        let is_said = |text: &String| text.contains(head) && words.iter().all(|word| text.contains(word));
        assert!(sent.iter().any(is_said), "{words:?} with {head}: {sent:?}");
    }
}

#[tokio::test]
async fn a_certificate_names_what_landed_and_no_longer_verifies_after_a_rewind() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    harness.settle().await;
    let good = harness.engine.verify(&harness.queue, a).await.unwrap().unwrap();
    assert_eq!(good.differences, Vec::<String>::new());
    assert_eq!(good.certificate.checks[0].log_hash.as_ref().unwrap().len(), 64);
    harness.prove(&[]).await;
    // The base is rewound: the certificate of the second landing is no longer valid.
    harness.repo.git(&["update-ref", "refs/heads/main", good.certificate.commit.as_str()]);
    let bad = harness.engine.verify(&harness.queue, b).await.unwrap().unwrap();
    assert!(bad.differences[0].contains("does not contain"), "{bad:?}");
}

#[tokio::test]
async fn an_entry_that_did_not_land_has_no_certificate() {
    let harness = Harness::new().await;
    let bad = harness.add("b", &[("bad", "1\n")]).await;
    harness.settle().await;
    assert_eq!(harness.engine.verify(&harness.queue, bad).await.unwrap(), None);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn the_trigger_is_cleared_when_a_change_is_removed_and_not_when_it_lands() {
    let harness = Harness::new().await;
    let cleared = Arc::new(AtomicUsize::new(0));
    let count = {
        let cleared = Arc::clone(&cleared);
        move |effect: &'static str| {
            if effect == "clear_trigger" {
                cleared.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let forges = Arc::new(HookedForges { forges: forges(), hook: Arc::new(count) });
    let hooked = engine(harness.tasks.store(), forges, &harness.tasks, Policy::default());
    harness.add("a", &[("a", "1\n")]).await;
    harness.settle_with(&hooked).await;
    assert_eq!(cleared.load(Ordering::SeqCst), 0);
    harness.add("b", &[("bad", "1\n")]).await;
    harness.settle_with(&hooked).await;
    assert_eq!(cleared.load(Ordering::SeqCst), 1);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn creating_an_existing_queue_leaves_it_unchanged() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let before = harness.state().await;
    let again = harness.engine.add_queue(before.repository.clone(), "main").await.unwrap();
    assert_eq!((again.entries[0].id, again), (a, before));
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_queue_that_was_tampered_with_pauses_and_loses_no_entry() {
    let harness = Harness::new().await;
    harness.add("a", &[("a", "1\n")]).await;
    harness.add("b", &[("b", "1\n")]).await;
    let mut state = harness.state().await;
    state.entries.swap(0, 1);
    let key = DocumentKey::new(Namespace::default(), QUEUE_KIND, harness.queue.0.clone());
    let body = serde_json::to_vec(&state).unwrap();
    harness.tasks.store().put_document(&key, body.into(), Expect::Anything, None).await.unwrap();
    for _ in 0..3 {
        let (_, problems) = harness.engine.reconcile_all().await.unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
    let state = harness.state().await;
    assert!(state.paused.as_ref().unwrap().reason.contains("corrupted"), "{state:?}");
    assert_eq!(state.entries.len(), 2);
}

#[tokio::test]
async fn a_webhook_and_a_command_are_tasks_that_are_enqueued_once() {
    let harness = Harness::new().await;
    let engine = announcing(&harness);
    harness.repo.commit("a", Some("main"), &[("a", "1\n")]);
    engine.enqueue(&harness.queue, "a", 5).await.unwrap();
    engine.reconcile_all().await.unwrap();
    let message = |payload: &serde_json::Value| payload["message"] == "a is number 1";
    harness.tasks.assert_enqueued("http", |payload| message(&payload["body"])).await;
    harness.tasks.assert_enqueued("exec", |payload| message(&payload["values"])).await;
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_check_or_notification_that_could_not_run_is_retried_within_a_minute() {
    let harness = Harness::new().await;
    let engine = announcing(&harness);
    harness.repo.commit("a", Some("main"), &[("a", "1\n")]);
    engine.enqueue(&harness.queue, "a", 5).await.unwrap();
    for _ in 0..3 {
        engine.reconcile_all().await.unwrap();
    }
    let mut types = std::collections::BTreeSet::new();
    for task in harness.tasks.enqueued().await {
        types.insert(task.spec.envelope.task_type.to_string());
        assert!(task.spec.max_attempts > 1, "{task:?}");
        for failures in 1..task.spec.max_attempts {
            let delay = task.spec.retry.delay(task.key.id, failures).unwrap();
            assert!(
                delay <= std::time::Duration::from_secs(60),
                "{delay:?} after failure {failures}: {task:?}"
            );
        }
    }
    assert_eq!(types.into_iter().collect::<Vec<_>>(), ["exec", "http", "weaver.check"]);
}

/// An engine that announces what happens by webhook and by command.
pub(crate) fn announcing(harness: &Harness) -> MergeEngine {
    let templates = [(Kind::Enqueued, "{change} is number {position}".to_owned())].into();
    let notifications = Notifications {
        webhook: Some("https://example.org/hook".into()),
        command: Some("announce".into()),
        templates,
    };
    let options = EngineOptions { notifications, ..options(Policy::default()) };
    let clock = Arc::new(harness.tasks.clock().clone());
    MergeEngine::new(harness.tasks.store(), forges(), clock, options)
}

#[tokio::test]
async fn an_invalid_queue_or_change_is_refused_with_a_reason() {
    let harness = Harness::new().await;
    let repository = harness.state().await.repository;
    let refused = harness.engine.add_queue(repository.clone(), "nowhere").await.unwrap_err();
    assert!(matches!(refused, EngineError::Merge(MergeError::InvalidBaseBranch { .. })), "{refused}");
    harness.repo.commit("bare", Some("refs/heads/none"), &[("a", "1\n")]);
    let refused = harness.engine.add_queue(repository, "bare").await.unwrap_err().to_string();
    assert!(refused.contains(".weaver/merge.toml does not exist"), "{refused}");
    let missing = Repository { name: "x".into(), location: "/nonexistent".into() };
    assert!(matches!(harness.engine.add_queue(missing, "main").await, Err(EngineError::Forge(_))));
    let refused = harness.engine.enqueue(&harness.queue, "missing", 5).await.unwrap_err();
    assert_eq!(refused, EngineError::Merge(MergeError::PullRequestClosed("missing".into())));
    let refused = harness.engine.enqueue(&harness.queue, "main", 5).await.unwrap_err();
    assert!(matches!(refused, EngineError::Merge(MergeError::InvalidBaseBranch { .. })), "{refused}");
    harness.prove(&[]).await;
}
