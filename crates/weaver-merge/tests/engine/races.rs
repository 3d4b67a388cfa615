//! Concurrent pushes, processes and operators.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weaver_core::queue::QueueExt;
use weaver_core::task::TaskState;
use weaver_merge::domain::{MergeError, Reason, Status};
use weaver_merge::engine::{EngineError, MergeEngine};
use weaver_merge::forge::{Forge, Landing, MergeOutcome, MergeRequest};
use weaver_merge::plan::Policy;

use crate::harness::{Harness, engine, forges};
use crate::hooked::{Hook, HookedForges};
use crate::proof::{config, unit};

/// An engine that calls a hook before each effect on the repository.
fn hooked(harness: &Harness, hook: impl Hook + 'static) -> MergeEngine {
    let forges = HookedForges { forges: forges(), hook: Arc::new(hook) };
    engine(harness.tasks.store(), Arc::new(forges), &harness.tasks, Policy::default())
}

#[tokio::test]
async fn a_push_to_the_base_during_landing_wins_and_the_change_is_tested_on_it() {
    let harness = Arc::new(Harness::new().await);
    harness.accept_foreign().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let landings = Arc::new(AtomicUsize::new(0));
    let push = {
        let (harness, landings) = (Arc::downgrade(&harness), Arc::clone(&landings));
        move |effect: &'static str| {
            if effect == "land" && landings.fetch_add(1, Ordering::SeqCst) < 2 {
                let harness = harness.upgrade().unwrap();
                let name = format!("outside-{}", landings.load(Ordering::SeqCst));
                harness.repo.commit("main", None, &[(&name, "1\n")]);
            }
        }
    };
    harness.settle_with(&hooked(&harness, push)).await;
    assert!(harness.has_landed(a).await);
    assert_eq!(landings.load(Ordering::SeqCst), 3, "twice the base was not the tested parent");
    assert!(harness.files().is_superset(&["a", "outside-1", "outside-2"].map(str::to_owned).into()));
    let outsiders = harness.repo.git(&["rev-list", "--first-parent", "main~1", "-2"]);
    let outsiders: Vec<_> = outsiders.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(harness.state().await.tally.runs, 3);
    harness.prove(&outsiders).await;
}

#[tokio::test]
async fn a_force_push_to_the_head_during_a_check_ejects_the_entry() {
    // The first run of the check forces the branch to something bad, and passes.
    let harness = Harness::with(|repo| {
        let (git, marker) = (repo.path(), repo.scratch("marker").join("ran"));
        let script = format!(
            "if test ! -e {0}; then touch {0}; git --git-dir {1} update-ref refs/heads/a refs/heads/worse; fi",
            marker.display(),
            git.display()
        );
        config(&[("unit", &unit(repo)), ("push", &script)])
    })
    .await;
    harness.repo.commit("worse", Some(harness.first.as_str()), &[("bad", "1\n")]);
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    assert_eq!(harness.reason(a).await.word(), "head_changed");
    assert_eq!(harness.repo.tip("main"), harness.first);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_landing_by_another_process_is_detected_and_not_repeated() {
    let harness = Arc::new(Harness::new().await);
    let a = harness.add("a", &[("a", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    // Another process makes the same landing just before, each time.
    let landings = Arc::new(AtomicUsize::new(0));
    let race = {
        let (harness, landings) = (Arc::downgrade(&harness), Arc::clone(&landings));
        move |effect: &'static str| {
            if effect == "land" {
                landings.fetch_add(1, Ordering::SeqCst);
                land_elsewhere(&harness.upgrade().unwrap());
            }
        }
    };
    harness.settle_with(&hooked(&harness, race)).await;
    assert!(harness.has_landed(a).await && harness.has_landed(b).await);
    assert_eq!(landings.load(Ordering::SeqCst), 2);
    harness.prove(&[]).await;
}

/// Lands the head of the queue as another process does, which has candidates of its own.
fn land_elsewhere(harness: &Harness) {
    let landing = async {
        let entry = harness.state().await.entries[0].clone();
        let (name, candidate) = (&entry.pull_request.head_ref, entry.candidate.as_ref().unwrap());
        let (queue, id) = (&harness.queue, entry.id);
        let message = format!("Merge `{name}` into `main`\n\nWeaver-Queue: {queue}\nWeaver-Entry: {id}\n");
        let (base, head) = (candidate.base.clone(), candidate.head.clone());
        let commit = entry.merged().unwrap().commit.clone();
        let forge = harness.repo.forge();
        let merged = forge.merge(&MergeRequest { base: base.clone(), head, message }).await;
        assert!(matches!(merged, Ok(MergeOutcome::Merged(merged)) if merged.commit == commit));
        assert_eq!(forge.land("main", &base, &commit).await, Ok(Landing::Done));
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|scope| scope.spawn(|| runtime().block_on(landing)).join().unwrap());
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
async fn a_candidate_of_a_process_that_ended_is_rebuilt_and_lands() {
    let mut harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let lock = passed_and_blocked(&harness).await;
    let entry = harness.state().await.entries[0].clone();
    // Its candidates are removed with the old engine; what a failed push left is pruned.
    harness.engine = engine(harness.tasks.store(), forges(), &harness.tasks, Policy::default());
    harness.repo.git(&["prune", "--expire=now"]);
    let commit = entry.merged().unwrap().commit.clone();
    assert!(harness.repo.try_git(&["cat-file", "-e", commit.as_str()]).is_none(), "it is not in there");
    std::fs::remove_file(&lock).unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert_eq!(harness.repo.tip("main"), commit, "the very same");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_candidate_whose_head_was_pruned_too_cannot_land_and_an_event_says_so() {
    let harness = Harness::retesting().await;
    harness.accept_foreign().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let lock = passed_and_blocked(&harness).await;
    // The tested commit no longer exists.
    let forced = harness.repo.commit("a", Some(harness.first.as_str()), &[("a", "2\n")]);
    std::fs::remove_file(harness.repo.path().join("logs/refs/heads/a")).unwrap();
    harness.repo.git(&["prune", "--expire=now"]);
    std::fs::remove_file(&lock).unwrap();
    for _ in 0..6 {
        harness.engine.reconcile_all().await.unwrap();
        harness.tasks.clock().advance(Duration::from_secs(1000));
    }
    assert!(harness.events().await.keys().any(|key| key.contains(":trouble:")), "a notice is published");
    assert_eq!(harness.state().await.entries[0].id, a);
    // A push to the base resolves it.
    let outsider = harness.repo.commit("main", None, &[("outside", "1\n")]);
    harness.settle().await;
    assert_eq!(harness.entry(a).await.certificate.unwrap().head, forced);
    harness.prove(&[outsider]).await;
}

#[tokio::test]
async fn a_push_to_the_base_between_passing_and_landing_causes_another_test() {
    let harness = Harness::new().await;
    harness.accept_foreign().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    // The checks pass; the engine has not reconciled yet.
    harness.tasks.drain(&harness.registry()).await;
    let outsider = harness.repo.commit("main", None, &[("outside", "1\n")]);
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert_eq!(harness.entry(a).await.certificate.unwrap().base, outsider);
    assert_eq!(harness.state().await.tally.runs, 2);
    harness.prove(&[outsider]).await;
}

#[tokio::test]
async fn a_push_to_a_retested_head_during_a_check_is_tested_with_the_new_head() {
    let harness = Harness::retesting().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    assert_eq!(harness.state().await.entries[0].status, Status::Checking);
    let forced = harness.repo.commit("a", Some("main"), &[("a", "2\n")]);
    harness.settle().await;
    assert_eq!(harness.entry(a).await.certificate.unwrap().head, forced);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_late_result_of_an_old_candidate_is_ignored() {
    let harness = Harness::retesting().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    harness.tasks.drain(&harness.registry()).await;
    // It passed before a bad push: the result is for a commit that is no longer the head.
    harness.repo.commit("a", Some("main"), &[("bad", "1\n")]);
    harness.settle().await;
    assert_eq!(harness.reason(a).await.word(), "checks_failed");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_deleted_branch_is_removed_and_its_checks_are_cancelled() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    harness.repo.git(&["update-ref", "-d", "refs/heads/a"]);
    harness.engine.reconcile_all().await.unwrap();
    assert_eq!(harness.reason(a).await, Reason::BranchDeleted);
    let states: Vec<_> = harness.tasks.enqueued().await.iter().map(|record| record.state).collect();
    assert_eq!(states, [TaskState::Cancelled]);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_cancelled_change_is_removed_and_the_next_one_is_processed() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    harness.engine.cancel(&harness.queue, a).await.unwrap();
    harness.settle().await;
    assert_eq!(harness.reason(a).await, Reason::Cancelled);
    assert!(harness.has_landed(b).await);
    let repeated = harness.engine.cancel(&harness.queue, a).await;
    assert_eq!(repeated, Err(EngineError::Merge(MergeError::EntryNotFound(a))));
    harness.prove(&[]).await;
}

#[tokio::test]
async fn two_engines_on_one_queue_land_each_change_once() {
    let harness = Harness::new().await;
    let mut entries = Vec::new();
    for name in ["a", "b", "c"] {
        entries.push(harness.add(name, &[(name, "1\n")]).await);
    }
    let other = engine(harness.tasks.store(), forges(), &harness.tasks, Policy::default());
    let registry = harness.registry();
    for _ in 0..30 {
        let (one, two) = tokio::join!(harness.engine.reconcile_all(), other.reconcile_all());
        assert!(one.unwrap().1.is_empty() && two.unwrap().1.is_empty());
        harness.tasks.drain(&registry).await;
        harness.tasks.clock().advance(Duration::from_secs(10));
    }
    for entry in entries {
        assert!(harness.has_landed(entry).await);
    }
    assert_eq!(harness.state().await.tally.landed, 3);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_check_whose_task_an_operator_cancelled_is_run_again() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    let task = harness.tasks.enqueued().await[0].key.clone();
    harness.tasks.store().cancel(&task).await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn check_budget_limits_the_concurrent_checks_of_all_queues() {
    let harness = Harness::new().await.with_policy(Policy { check_budget: 1, ..Policy::default() });
    harness.repo.git(&["branch", "next", "main"]);
    let repository = harness.state().await.repository;
    let second = harness.engine.add_queue(repository, "next").await.unwrap().id;
    harness.add("a", &[("a", "1\n")]).await;
    harness.repo.commit("b", Some("next"), &[("b", "1\n")]);
    harness.engine.enqueue(&second, "b", 5).await.unwrap();
    harness.engine.set_queue_priority(&second, 1).await.unwrap();
    harness.engine.reconcile_all().await.unwrap();
    let tasks = harness.tasks.enqueued().await;
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].spec.origin().labels["merge_queue"], second.0, "the more urgent queue goes first");
    harness.settle().await;
    assert!(harness.engine.get(&second).await.unwrap().queue.entries.is_empty());
    assert!(harness.state().await.entries.is_empty());
    harness.prove(&[]).await;
}
