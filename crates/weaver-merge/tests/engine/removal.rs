//! Removing a queue, and adding it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weaver_core::id::LeaseToken;
use weaver_core::lease::LeaseRequest;
use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect};
use weaver_core::task::TaskState;
use weaver_merge::check::CHECK_QUEUE;
use weaver_merge::domain::{EntryId, MergeError, MergeQueue, PauseCause, RemoveOptions, Repository, Status};
use weaver_merge::engine::{EngineError, MergeEngine, QUEUE_KIND};
use weaver_merge::plan::Policy;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::harness::{Harness, engine, forges};
use crate::hooked::HookedForges;

/// With the entries of the queue.
fn with_entries() -> RemoveOptions {
    RemoveOptions { cancel_entries: true, by: Some("ada".to_owned()) }
}

fn refusal(answer: Result<MergeQueue, EngineError>) -> MergeError {
    match answer {
        Err(EngineError::Merge(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn open_entries_refuse_the_removal_and_the_error_counts_them() {
    let harness = Harness::new().await;
    harness.add("a", &[("a", "1\n")]).await;
    harness.add("b", &[("b", "1\n")]).await;
    let before = harness.state().await;
    let refused = refusal(harness.engine.remove_queue(&harness.queue, &RemoveOptions::default()).await);
    assert_eq!(refused, MergeError::OpenEntries(2));
    assert!(refused.to_string().contains("2 open entries"), "{refused}");
    assert_eq!(harness.state().await, before, "the queue is unchanged");
    harness.settle().await;
    let removed = harness.engine.remove_queue(&harness.queue, &RemoveOptions::default()).await.unwrap();
    assert!(removed.is_removed(), "an empty queue needs no option");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn entries_of_a_removed_queue_are_cancelled_and_their_running_checks_too() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    // A worker runs the check.
    let store = harness.tasks.store();
    let (queue, worker) = (CHECK_QUEUE.try_into().unwrap(), "w".try_into().unwrap());
    let request = LeaseRequest::new(Namespace::default(), queue, worker, LeaseToken(1));
    let leased = store.lease(request).await.unwrap();
    assert_eq!(leased.len(), 1);
    let removed = harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
    assert!(removed.is_removed(), "{removed:?}");
    assert_eq!(removed.removal.unwrap().entries, 2);
    let tasks = harness.tasks.enqueued().await;
    assert!(tasks.iter().all(|task| task.state == TaskState::Cancelled), "{tasks:?}");
    assert_eq!(tasks.len(), 1);
    for entry in [a, b] {
        assert_eq!(harness.reason(entry).await.word(), "queue_removed");
        assert_eq!(harness.entry(entry).await.entry.status, Status::Cancelled);
    }
    let words: Vec<String> = harness.events().await.into_keys().collect();
    for word in [":added:1", ":added:2", ":removed:1", ":removed:2", ":queue_removed:"] {
        assert!(words.iter().any(|key| key.contains(word)), "{word}: {words:?}");
    }
    assert_eq!(harness.engine.queues().await.unwrap(), []);
    let refused = harness.engine.enqueue(&harness.queue, "a", 5).await.unwrap_err();
    assert_eq!(refused, EngineError::Merge(MergeError::QueueRemoved(harness.queue.clone())));
    let refused = harness.engine.resume(&harness.queue).await.unwrap_err();
    assert_eq!(refused, EngineError::Merge(MergeError::QueueRemoved(harness.queue.clone())));
    harness
        .engine
        .remove_queue(&harness.queue, &RemoveOptions::default())
        .await
        .expect("repeating is harmless");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_check_task_that_is_not_recorded_yet_is_cancelled_with_the_queue() {
    let harness = Harness::new().await;
    harness.add("a", &[("a", "1\n")]).await;
    let is_enqueued = Arc::new(AtomicU64::new(0));
    let plan = move |site: &CallSite| {
        if site.method == "enqueue_batch" {
            is_enqueued.store(1, Ordering::SeqCst);
        }
        let is_over = site.method == "put_document" && is_enqueued.load(Ordering::SeqCst) == 1;
        if is_over { Fault::FailBefore } else { Fault::None }
    };
    let clock = Arc::new(harness.tasks.clock().clone());
    let store = Arc::new(FaultyStore::new(harness.tasks.store(), clock, plan));
    let dying = engine(store, forges(), &harness.tasks, Policy::default());
    assert_eq!(dying.reconcile_all().await.unwrap().1.len(), 1, "it fails after it enqueued the task");
    assert_eq!(harness.state().await.entries[0].checks[0].runs[0].task, None);
    assert_eq!(harness.tasks.enqueued().await[0].state, TaskState::Queued);
    let removed = harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
    assert!(removed.is_removed(), "{removed:?}");
    let states: Vec<TaskState> = harness.tasks.enqueued().await.iter().map(|task| task.state).collect();
    assert_eq!(states, [TaskState::Cancelled]);
    harness.prove(&[]).await;
}

/// The head passes its checks, but cannot land while the returned lock file exists.
async fn passed_and_blocked(harness: &Harness) -> std::path::PathBuf {
    let lock = harness.repo.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    harness.engine.reconcile_all().await.unwrap();
    harness.tasks.drain(&harness.registry()).await;
    harness.engine.reconcile_all().await.unwrap();
    assert_eq!(harness.state().await.entries[0].status, Status::Ready);
    lock
}

#[tokio::test]
async fn an_entry_that_is_landing_refuses_the_removal_and_lands() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let lock = passed_and_blocked(&harness).await;
    let refused = refusal(harness.engine.remove_queue(&harness.queue, &with_entries()).await);
    assert_eq!(refused, MergeError::Landing(a));
    std::fs::remove_file(lock).unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert!(harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap().is_removed());
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_queue_whose_repository_is_gone_can_be_removed_even_while_an_entry_is_ready() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let lock = passed_and_blocked(&harness).await;
    std::fs::remove_file(lock).unwrap();
    let elsewhere = harness.repo.scratch("gone").join("repo.git");
    std::fs::rename(harness.repo.path(), &elsewhere).unwrap();
    let removed = harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
    assert!(removed.is_removed(), "{removed:?}");
    assert_eq!(harness.reason(a).await.word(), "queue_removed");
    std::fs::rename(elsewhere, harness.repo.path()).unwrap();
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_queue_that_breaks_an_invariant_can_be_removed() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    let mut state = harness.state().await;
    state.entries.swap(0, 1);
    let key = DocumentKey::new(Namespace::default(), QUEUE_KIND, harness.queue.0.clone());
    let body = serde_json::to_vec(&state).unwrap();
    harness.tasks.store().put_document(&key, body.into(), Expect::Anything, None).await.unwrap();
    harness.engine.reconcile_all().await.unwrap();
    assert!(harness.state().await.paused.unwrap().reason.contains("corrupted"));
    let removed = harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
    assert!(removed.is_removed(), "{removed:?}");
    for entry in [a, b] {
        assert_eq!(harness.reason(entry).await.word(), "queue_removed");
    }
}

#[tokio::test]
async fn a_queue_that_is_added_again_continues_its_numbers_its_history_and_its_chain() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
    let kept = harness.engine.verify_all(&harness.queue, 0..u64::MAX).await.unwrap();
    assert!(kept.is_sound() && kept.links.len() == 2, "the chain of a removed queue: {kept:?}");
    assert_eq!(harness.engine.history(&harness.queue, 10).await.unwrap().len(), 1);
    let repository = harness.state().await.repository;
    let again = harness.engine.add_queue(repository, "main").await.unwrap();
    assert_eq!((&again.removal, again.next_entry, again.tally.landed), (&None, 2, 1));
    let b = harness.add("b", &[("b", "1\n")]).await;
    assert_eq!((a, b), (EntryId(1), EntryId(2)));
    harness.settle().await;
    assert!(harness.has_landed(a).await && harness.has_landed(b).await);
    let all = harness.engine.verify_all(&harness.queue, 0..u64::MAX).await.unwrap();
    assert!(all.is_sound() && all.links.len() == 3, "one chain: {all:?}");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_push_while_the_queue_was_removed_is_a_change_from_outside() {
    let harness = Harness::new().await;
    harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
    harness.repo.commit("main", None, &[("outside", "1\n")]);
    let repository = harness.state().await.repository;
    harness.engine.add_queue(repository, "main").await.unwrap();
    harness.engine.reconcile_all().await.unwrap();
    assert_eq!(harness.state().await.paused.unwrap().cause, PauseCause::Foreign);
}

#[tokio::test]
async fn the_name_of_a_removed_queue_is_not_given_to_another_repository() {
    let (harness, other) = (Harness::new().await, Harness::new().await);
    harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
    let foreign = Repository { name: "demo".into(), location: other.state().await.repository.location };
    let refused = refusal(harness.engine.add_queue(foreign, "main").await);
    assert_eq!(refused, MergeError::NameTaken(harness.queue.clone()));
    // The same repository in another place is not another one.
    let moved = harness.repo.scratch("moved").join("demo.git");
    harness.repo.git(&["clone", "--quiet", "--bare", ".", moved.to_str().unwrap()]);
    let moved = Repository { name: "demo".into(), location: moved.to_str().unwrap().to_owned() };
    let again = harness.engine.add_queue(moved.clone(), "main").await.unwrap();
    assert_eq!((again.next_entry, again.repository), (2, moved));
}

/// Runs a future on a thread of its own, from within a hook.
fn aside(future: impl Future<Output = ()> + Send) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|scope| scope.spawn(|| runtime().block_on(future)).join().unwrap());
}

/// An engine of another node, during whose first merge the queue is removed, and added again if `is_added`.
fn interrupted(harness: &Arc<Harness>, is_added: bool) -> MergeEngine {
    let (weak, done) = (Arc::downgrade(harness), AtomicU64::new(0));
    let hook = move |effect: &'static str| {
        let harness = weak.upgrade().unwrap();
        if effect == "merge" && done.fetch_add(1, Ordering::SeqCst) == 0 {
            aside(async {
                let removed = harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
                assert!(removed.is_removed());
                if is_added {
                    harness.engine.add_queue(removed.repository, "main").await.unwrap();
                }
            });
        }
    };
    let forges = HookedForges { forges: forges(), hook: Arc::new(hook) };
    engine(harness.tasks.store(), Arc::new(forges), &harness.tasks, Policy::default())
}

#[tokio::test]
async fn a_node_with_an_older_view_does_not_bring_a_removed_queue_back() {
    for is_added in [false, true] {
        let harness = Arc::new(Harness::new().await);
        let a = harness.add("a", &[("a", "1\n")]).await;
        let other = interrupted(&harness, is_added);
        let (_, problems) = other.reconcile_all().await.unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        let state = harness.state().await;
        assert_eq!((state.is_removed(), state.entries.len()), (!is_added, 0), "{state:?}");
        assert_eq!(harness.reason(a).await.word(), "queue_removed");
        assert_eq!(harness.tasks.enqueued().await, [], "nothing was started");
        harness.prove(&[]).await;
    }
}

#[tokio::test]
async fn a_running_engine_takes_up_a_queue_that_was_removed_and_added_again() {
    let harness = Harness::new().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let drive = async {
        let removed = harness.engine.remove_queue(&harness.queue, &with_entries()).await.unwrap();
        harness.engine.add_queue(removed.repository, "main").await.unwrap();
        harness.repo.commit("a", Some("main"), &[("a", "1\n")]);
        let mut published = harness.engine.published();
        harness.engine.enqueue(&harness.queue, "a", 5).await.unwrap();
        while !harness.events().await.keys().any(|key| key.contains(":added:1")) {
            published.changed().await.unwrap();
        }
        stop.send(()).unwrap();
    };
    tokio::join!(harness.engine.run(async { drop(stopped.await) }), drive);
}

#[tokio::test]
async fn a_removal_that_is_interrupted_at_any_write_is_completed_or_was_not_begun() {
    let (mut at, mut completed) = (0, 0);
    loop {
        let harness = Harness::new().await;
        for name in ["a", "b"] {
            harness.add(name, &[(name, "1\n")]).await;
        }
        harness.engine.reconcile_all().await.unwrap();
        let writes = Arc::new(AtomicU64::new(0));
        let plan = {
            let writes = Arc::clone(&writes);
            move |site: &CallSite| {
                let is_write = matches!(
                    site.method,
                    "put_document" | "append_entries" | "commit" | "enqueue_batch" | "write_documents"
                );
                let is_over = is_write && writes.fetch_add(1, Ordering::SeqCst) >= at;
                if is_over { Fault::FailBefore } else { Fault::None }
            }
        };
        let clock = Arc::new(harness.tasks.clock().clone());
        let store = Arc::new(FaultyStore::new(harness.tasks.store(), clock, plan));
        let dying = engine(store, forges(), &harness.tasks, Policy::default());
        let is_whole =
            dying.remove_queue(&harness.queue, &with_entries()).await.is_ok_and(|it| it.is_removed());
        let is_begun = harness.state().await.removal.is_some();
        // Another process continues.
        harness.settle().await;
        let state = harness.state().await;
        assert_eq!(state.is_removed(), is_begun, "after {at} writes: {state:?}");
        if is_begun {
            completed += 1;
            assert_eq!((state.entries.len(), state.outbox.len(), state.stopping.len()), (0, 0, 0));
            let tasks = harness.tasks.enqueued().await;
            assert!(tasks.iter().all(|task| task.state.is_terminal()), "after {at} writes: {tasks:?}");
            let events = harness.events().await;
            for word in [":removed:1", ":removed:2", ":queue_removed:"] {
                assert!(events.keys().any(|key| key.contains(word)), "after {at} writes: {word}");
            }
        } else {
            assert!(harness.has_landed(EntryId(1)).await && harness.has_landed(EntryId(2)).await);
        }
        harness.prove(&[]).await;
        if is_whole {
            break;
        }
        at += 1;
    }
    assert!(completed > 6 && at >= completed - 1, "{completed} of {at}");
}
