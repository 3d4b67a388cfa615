//! What people and programs are told, and what they can check.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect};
use weaver_merge::domain::{MergeError, Repository};
use weaver_merge::engine::{EngineError, EngineOptions, MergeEngine, QUEUE_KIND};
use weaver_merge::notify::{Kind, Notifications};
use weaver_merge::plan::Policy;

use crate::bench::{Bench, engine, forges, keyring};
use crate::hooked::HookedForges;

#[tokio::test]
async fn a_queue_whose_document_cannot_be_read_stops_no_other() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let broken = DocumentKey::new(bench.engine.namespace().clone(), QUEUE_KIND, "broken");
    let body = br#"{"from": "the future"}"#;
    let store = bench.tasks.store();
    let version = store.put_document(&broken, body.to_vec().into(), Expect::Absent, None).await.unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    assert_eq!(bench.engine.queues().await.unwrap().len(), 1, "it hides no other");
    let read = bench.engine.get(&weaver_merge::domain::QueueId("broken".to_owned())).await;
    assert!(matches!(read, Err(EngineError::Unreadable { .. })), "{read:?}");
    let kept = store.get_document(&broken).await.unwrap().unwrap();
    assert_eq!((kept.body.as_ref(), kept.version), (&body[..], version), "it is not touched");
}

#[tokio::test]
async fn events_tell_who_came_who_landed_and_who_left() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let bad = bench.add("b", &[("bad", "1\n")]).await;
    bench.settle().await;
    let events = bench.events().await;
    let event = |word: &str, entry| &events[&format!("merge-notice:{}:{word}:{entry}", bench.queue)];
    assert_eq!(event("added", a)["event"], "queue_entry_added");
    assert_eq!(event("added", bad)["position"], 2);
    assert_eq!(event("merged", a)["event"], "pull_request_merged");
    assert_eq!(event("merged", a)["commit"], bench.repo.tip("main").to_string());
    assert_eq!(event("removed", bad)["event"], "queue_entry_removed");
    assert_eq!(events.len(), 4);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_certificate_names_what_landed_and_a_forged_one_is_found_out() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let b = bench.add("b", &[("b", "1\n")]).await;
    bench.settle().await;
    let good = bench.engine.verify(&bench.queue, a).await.unwrap().unwrap();
    assert_eq!(good.differences, Vec::<String>::new());
    assert_eq!(good.certificate.checks[0].log_hash.as_ref().unwrap().len(), 64);
    bench.prove(&[]).await;
    // Somebody takes the landing back: the certificate of the second no longer holds.
    bench.repo.git(&["update-ref", "refs/heads/main", good.certificate.commit.as_str()]);
    let bad = bench.engine.verify(&bench.queue, b).await.unwrap().unwrap();
    assert!(bad.differences[0].contains("does not contain"), "{bad:?}");
}

#[tokio::test]
async fn an_entry_that_did_not_land_has_no_certificate() {
    let bench = Bench::new().await;
    let bad = bench.add("b", &[("bad", "1\n")]).await;
    bench.settle().await;
    assert_eq!(bench.engine.verify(&bench.queue, bad).await.unwrap(), None);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn what_put_a_change_in_the_queue_is_taken_back_when_it_leaves_and_not_when_it_lands() {
    let bench = Bench::new().await;
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
    let hooked = engine(bench.tasks.store(), forges, &bench.tasks, Policy::default());
    bench.add("a", &[("a", "1\n")]).await;
    bench.settle_with(&hooked).await;
    assert_eq!(cleared.load(Ordering::SeqCst), 0);
    bench.add("b", &[("bad", "1\n")]).await;
    bench.settle_with(&hooked).await;
    assert_eq!(cleared.load(Ordering::SeqCst), 1);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_queue_that_is_made_again_stays_as_it_is() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let before = bench.state().await;
    let again = bench.engine.add_queue(before.repository.clone(), "main").await.unwrap();
    assert_eq!((again.entries[0].id, again), (a, before));
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_queue_that_was_tampered_with_pauses_and_loses_nothing() {
    let bench = Bench::new().await;
    bench.add("a", &[("a", "1\n")]).await;
    bench.add("b", &[("b", "1\n")]).await;
    let mut state = bench.state().await;
    state.entries.swap(0, 1);
    let key = DocumentKey::new(Namespace::default(), QUEUE_KIND, bench.queue.0.clone());
    let body = serde_json::to_vec(&state).unwrap();
    bench.tasks.store().put_document(&key, body.into(), Expect::Anything, None).await.unwrap();
    for _ in 0..3 {
        let (_, problems) = bench.engine.reconcile_all().await.unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
    let state = bench.state().await;
    assert!(state.paused.as_ref().unwrap().reason.contains("corrupted"), "{state:?}");
    assert_eq!(state.entries.len(), 2);
}

#[tokio::test]
async fn a_webhook_and_a_command_are_tasks_and_are_asked_for_once() {
    let bench = Bench::new().await;
    let engine = announcing(&bench);
    bench.repo.commit("a", Some("main"), &[("a", "1\n")]);
    engine.enqueue(&bench.queue, "a", 5).await.unwrap();
    engine.reconcile_all().await.unwrap();
    let message = |payload: &serde_json::Value| payload["message"] == "a is number 1";
    bench.tasks.assert_enqueued("http", |payload| message(&payload["body"])).await;
    bench.tasks.assert_enqueued("exec", |payload| message(&payload["values"])).await;
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_check_or_message_that_could_not_run_is_retried_within_a_minute_each_time() {
    let bench = Bench::new().await;
    let engine = announcing(&bench);
    bench.repo.commit("a", Some("main"), &[("a", "1\n")]);
    engine.enqueue(&bench.queue, "a", 5).await.unwrap();
    for _ in 0..3 {
        engine.reconcile_all().await.unwrap();
    }
    let mut types = std::collections::BTreeSet::new();
    for task in bench.tasks.enqueued().await {
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
fn announcing(bench: &Bench) -> MergeEngine {
    let templates = [(Kind::Enqueued, "{change} is number {position}".to_owned())].into();
    let notifications = Notifications {
        webhook: Some("https://example.org/hook".into()),
        command: Some("announce".into()),
        templates,
    };
    let options = EngineOptions {
        namespace: Namespace::default(),
        policy: Policy::default(),
        notifications,
        keyring: keyring(),
    };
    let clock = Arc::new(bench.tasks.clock().clone());
    MergeEngine::new(bench.tasks.store(), forges(), clock, options)
}

#[tokio::test]
async fn what_cannot_be_a_queue_or_a_change_is_refused_with_a_reason() {
    let bench = Bench::new().await;
    let repository = bench.state().await.repository;
    let refused = bench.engine.add_queue(repository.clone(), "nowhere").await.unwrap_err();
    assert!(matches!(refused, EngineError::Merge(MergeError::InvalidBaseBranch { .. })), "{refused}");
    bench.repo.commit("bare", Some("refs/heads/none"), &[("a", "1\n")]);
    let refused = bench.engine.add_queue(repository, "bare").await.unwrap_err().to_string();
    assert!(refused.contains(".weaver/merge.toml is not there"), "{refused}");
    let missing = Repository { name: "x".into(), location: "/nonexistent".into() };
    assert!(matches!(bench.engine.add_queue(missing, "main").await, Err(EngineError::Forge(_))));
    let refused = bench.engine.enqueue(&bench.queue, "nobody", 5).await.unwrap_err();
    assert_eq!(refused, EngineError::Merge(MergeError::PullRequestClosed("nobody".into())));
    let refused = bench.engine.enqueue(&bench.queue, "main", 5).await.unwrap_err();
    assert!(matches!(refused, EngineError::Merge(MergeError::InvalidBaseBranch { .. })), "{refused}");
    bench.prove(&[]).await;
}
