//! Others act at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weaver_core::queue::QueueExt;
use weaver_core::task::TaskState;
use weaver_merge::domain::{MergeError, Reason, Status};
use weaver_merge::engine::{EngineError, MergeEngine};
use weaver_merge::plan::Policy;

use crate::bench::{Bench, engine, forges};
use crate::hooked::{Hook, HookedForges};
use crate::proof::{config, unit};

/// An engine whose effects on the repository somebody is told of first.
fn hooked(bench: &Bench, hook: impl Hook + 'static) -> MergeEngine {
    let forges = HookedForges { forges: forges(), hook: Arc::new(hook) };
    engine(bench.tasks.store(), Arc::new(forges), &bench.tasks, Policy::default())
}

#[tokio::test]
async fn a_push_to_the_base_at_the_moment_of_landing_wins_and_the_change_is_tested_on_it() {
    let bench = Arc::new(Bench::new().await);
    bench.accept_foreign().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let landings = Arc::new(AtomicUsize::new(0));
    let push = {
        let (bench, landings) = (Arc::downgrade(&bench), Arc::clone(&landings));
        move |effect: &'static str| {
            if effect == "land" && landings.fetch_add(1, Ordering::SeqCst) < 2 {
                let bench = bench.upgrade().unwrap();
                let name = format!("outside-{}", landings.load(Ordering::SeqCst));
                bench.repo.commit("main", None, &[(&name, "1\n")]);
            }
        }
    };
    bench.settle_with(&hooked(&bench, push)).await;
    assert!(bench.has_landed(a).await);
    assert_eq!(landings.load(Ordering::SeqCst), 3, "twice the base was not where it was tested");
    assert!(bench.files().is_superset(&["a", "outside-1", "outside-2"].map(str::to_owned).into()));
    let outsiders = bench.repo.git(&["rev-list", "--first-parent", "main~1", "-2"]);
    let outsiders: Vec<_> = outsiders.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(bench.state().await.tally.runs, 3);
    bench.prove(&outsiders).await;
}

#[tokio::test]
async fn a_head_that_is_forced_while_its_check_runs_makes_that_run_count_for_nothing() {
    // The first run of the check forces the branch to something bad, and passes.
    let bench = Bench::with(|repo| {
        let (git, marker) = (repo.path(), repo.scratch("marker").join("ran"));
        let script = format!(
            "if test ! -e {0}; then touch {0}; git --git-dir {1} update-ref refs/heads/a refs/heads/worse; fi",
            marker.display(),
            git.display()
        );
        config(&[("unit", &unit(repo)), ("push", &script)])
    })
    .await;
    bench.repo.commit("worse", Some(bench.first.as_str()), &[("bad", "1\n")]);
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle().await;
    assert_eq!(bench.reason(a).await.word(), "checks_failed");
    assert_eq!(bench.repo.tip("main"), bench.first);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_landing_another_process_made_is_seen_and_not_made_again() {
    let bench = Arc::new(Bench::new().await);
    let a = bench.add("a", &[("a", "1\n")]).await;
    let b = bench.add("b", &[("b", "1\n")]).await;
    // Somebody with the same order is faster by a hair, each time.
    let race = {
        let bench = Arc::downgrade(&bench);
        move |effect: &'static str| {
            if effect == "land" {
                let bench = bench.upgrade().unwrap();
                let merges = bench.repo.git(&["fsck", "--unreachable", "--no-reflogs", "--no-progress"]);
                let tip = bench.repo.tip("main");
                let commit = merges.lines().filter_map(|line| line.strip_prefix("unreachable commit "));
                for commit in commit {
                    let message = bench.repo.git(&["log", "-1", "--format=%P %s", commit]);
                    if message.starts_with(tip.as_str()) && message.contains("Merge `") {
                        let words = ["update-ref", "refs/heads/main", commit];
                        bench.repo.git_as("Weaver merge queue", &words).unwrap();
                    }
                }
            }
        }
    };
    bench.settle_with(&hooked(&bench, race)).await;
    assert!(bench.has_landed(a).await && bench.has_landed(b).await);
    bench.prove(&[]).await;
}

/// The first in line passes, and cannot land while the file that this names is there.
async fn passed_and_held_up(bench: &Bench) -> std::path::PathBuf {
    let lock = bench.repo.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    bench.engine.reconcile_all().await.unwrap();
    bench.tasks.drain(&bench.registry()).await;
    bench.engine.reconcile_all().await.unwrap();
    assert_eq!(bench.state().await.entries[0].status, Status::Ready);
    lock
}

#[tokio::test]
async fn a_candidate_that_was_pruned_before_it_landed_is_made_again_and_lands() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let lock = passed_and_held_up(&bench).await;
    let entry = bench.state().await.entries[0].clone();
    // Meanwhile somebody collects what no ref leads to.
    bench.repo.git(&["prune", "--expire=now"]);
    let commit = entry.merged().unwrap().commit.clone();
    assert!(bench.repo.try_git(&["cat-file", "-e", commit.as_str()]).is_none(), "it is gone");
    std::fs::remove_file(&lock).unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    assert_eq!(bench.repo.tip("main"), commit, "the very same");
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_candidate_whose_head_was_pruned_too_cannot_land_and_people_are_told() {
    let bench = Bench::new().await;
    bench.accept_foreign().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let lock = passed_and_held_up(&bench).await;
    // What was tested is gone from everywhere.
    let forced = bench.repo.commit("a", Some(bench.first.as_str()), &[("a", "2\n")]);
    std::fs::remove_file(bench.repo.path().join("logs/refs/heads/a")).unwrap();
    bench.repo.git(&["prune", "--expire=now"]);
    std::fs::remove_file(&lock).unwrap();
    for _ in 0..6 {
        bench.engine.reconcile_all().await.unwrap();
        bench.tasks.clock().advance(Duration::from_secs(1000));
    }
    assert!(bench.events().await.keys().any(|key| key.contains(":trouble:")), "people are told");
    assert_eq!(bench.state().await.entries[0].id, a);
    // A push to the base makes way.
    let outsider = bench.repo.commit("main", None, &[("outside", "1\n")]);
    bench.settle().await;
    assert_eq!(bench.entry(a).await.certificate.unwrap().head, forced);
    bench.prove(&[outsider]).await;
}

#[tokio::test]
async fn a_push_to_the_base_between_passing_and_landing_makes_it_test_again() {
    let bench = Bench::new().await;
    bench.accept_foreign().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.engine.reconcile_all().await.unwrap();
    // The checks pass; the engine has not looked yet.
    bench.tasks.drain(&bench.registry()).await;
    let outsider = bench.repo.commit("main", None, &[("outside", "1\n")]);
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    assert_eq!(bench.entry(a).await.certificate.unwrap().base, outsider);
    assert_eq!(bench.state().await.tally.runs, 2);
    bench.prove(&[outsider]).await;
}

#[tokio::test]
async fn a_head_that_was_pushed_while_it_was_checked_is_tested_as_it_is_now() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.engine.reconcile_all().await.unwrap();
    assert_eq!(bench.state().await.entries[0].status, Status::Checking);
    let forced = bench.repo.commit("a", Some("main"), &[("a", "2\n")]);
    bench.settle().await;
    assert_eq!(bench.entry(a).await.certificate.unwrap().head, forced);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_late_result_of_an_old_candidate_counts_for_nothing() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.engine.reconcile_all().await.unwrap();
    bench.tasks.drain(&bench.registry()).await;
    // It passed, and then becomes bad: the pass is of a commit that is not the head any more.
    bench.repo.commit("a", Some("main"), &[("bad", "1\n")]);
    bench.settle().await;
    assert_eq!(bench.reason(a).await.word(), "checks_failed");
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_branch_that_was_deleted_leaves_and_its_checks_are_cancelled() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.engine.reconcile_all().await.unwrap();
    bench.repo.git(&["update-ref", "-d", "refs/heads/a"]);
    bench.engine.reconcile_all().await.unwrap();
    assert_eq!(bench.reason(a).await, Reason::BranchDeleted);
    let states: Vec<_> = bench.tasks.enqueued().await.iter().map(|record| record.state).collect();
    assert_eq!(states, [TaskState::Cancelled]);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_change_that_was_cancelled_leaves_and_the_next_one_goes_on() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let b = bench.add("b", &[("b", "1\n")]).await;
    bench.engine.reconcile_all().await.unwrap();
    bench.engine.cancel(&bench.queue, a).await.unwrap();
    bench.settle().await;
    assert_eq!(bench.reason(a).await, Reason::Cancelled);
    assert!(bench.has_landed(b).await);
    let gone = bench.engine.cancel(&bench.queue, a).await;
    assert_eq!(gone, Err(EngineError::Merge(MergeError::EntryNotFound(a))));
    bench.prove(&[]).await;
}

#[tokio::test]
async fn two_engines_on_one_queue_land_each_change_once() {
    let bench = Bench::new().await;
    let mut entries = Vec::new();
    for name in ["a", "b", "c"] {
        entries.push(bench.add(name, &[(name, "1\n")]).await);
    }
    let other = engine(bench.tasks.store(), forges(), &bench.tasks, Policy::default());
    let registry = bench.registry();
    for _ in 0..30 {
        let (one, two) = tokio::join!(bench.engine.reconcile_all(), other.reconcile_all());
        assert!(one.unwrap().1.is_empty() && two.unwrap().1.is_empty());
        bench.tasks.drain(&registry).await;
        bench.tasks.clock().advance(Duration::from_secs(10));
    }
    for entry in entries {
        assert!(bench.has_landed(entry).await);
    }
    assert_eq!(bench.state().await.tally.landed, 3);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_check_whose_task_was_cancelled_by_hand_is_run_again() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.engine.reconcile_all().await.unwrap();
    let task = bench.tasks.enqueued().await[0].key.clone();
    bench.tasks.store().cancel(&task).await.unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn no_more_checks_run_at_once_than_the_budget_allows_over_all_queues() {
    let bench = Bench::new().await.with_policy(Policy { check_budget: 1, ..Policy::default() });
    bench.repo.git(&["branch", "next", "main"]);
    let repository = bench.state().await.repository;
    let second = bench.engine.add_queue(repository, "next").await.unwrap().id;
    bench.add("a", &[("a", "1\n")]).await;
    bench.repo.commit("b", Some("next"), &[("b", "1\n")]);
    bench.engine.enqueue(&second, "b", 5).await.unwrap();
    bench.engine.set_queue_priority(&second, 1).await.unwrap();
    bench.engine.reconcile_all().await.unwrap();
    let tasks = bench.tasks.enqueued().await;
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].spec.origin().labels["merge_queue"], second.0, "the more urgent queue goes first");
    bench.settle().await;
    assert!(bench.engine.get(&second).await.unwrap().queue.entries.is_empty());
    assert!(bench.state().await.entries.is_empty());
    bench.prove(&[]).await;
}
