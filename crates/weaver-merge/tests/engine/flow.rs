//! From the queue to the base, and out of it.

use std::time::Duration;

use weaver_merge::domain::{CheckName, MergeError, Reason};
use weaver_merge::engine::EngineError;

use crate::bench::Bench;
use crate::proof::{config, unit};

#[tokio::test]
async fn changes_that_pass_land_in_order_and_one_that_fails_is_taken_out() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let bad = bench.add("b", &[("bad", "1\n")]).await;
    let c = bench.add("c", &[("c", "1\n")]).await;
    bench.settle().await;
    assert!(bench.has_landed(a).await && bench.has_landed(c).await);
    assert_eq!(bench.reason(bad).await, Reason::ChecksFailed { checks: vec![CheckName("unit".into())] });
    let files = bench.files();
    assert!(files.contains("a") && files.contains("c") && !files.contains("bad"));
    assert!(bench.state().await.entries.is_empty());
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_conflict_is_refused_at_once_and_one_that_arises_later_takes_the_change_out() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("README", "a\n")]).await;
    let b = bench.add("b", &[("README", "b\n")]).await;
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    assert_eq!(bench.reason(b).await, Reason::Conflicted { paths: vec!["README".into()] });
    let again = bench.engine.enqueue(&bench.queue, "b", 5).await;
    assert_eq!(again, Err(EngineError::Merge(MergeError::PullRequestConflicted("b".into()))));
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_clean_merge_that_breaks_the_meaning_does_not_land() {
    // One change renames what another begins to use: git merges both, and only a test of the merge can tell.
    let bench = Bench::with(|repo| {
        let script = "for name in $(cat callers); do grep -qx $name names || exit 1; done";
        config(&[("unit", &unit(repo)), ("names", script)])
    })
    .await;
    let mut files = vec![("names", "greet\nbow\n"), ("callers", "bow\n")];
    let setup = bench.add("setup", &files).await;
    bench.settle().await;
    assert!(bench.has_landed(setup).await);
    files = vec![("names", "salute\nbow\n")];
    bench.repo.commit("rename", Some("main"), &files);
    bench.repo.commit("caller", Some("main"), &[("callers", "bow\ngreet\n")]);
    let rename = bench.engine.enqueue(&bench.queue, "rename", 5).await.unwrap().entry;
    let caller = bench.engine.enqueue(&bench.queue, "caller", 5).await.unwrap().entry;
    bench.settle().await;
    assert!(bench.has_landed(rename).await);
    assert_eq!(bench.reason(caller).await, Reason::ChecksFailed { checks: vec![CheckName("names".into())] });
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_change_cannot_weaken_its_own_checks() {
    let bench = Bench::new().await;
    let weak = config(&[("unit", "true")]);
    let change = bench.add("weak", &[(".weaver/merge.toml", &weak), ("bad", "1\n")]).await;
    bench.settle().await;
    assert_eq!(bench.reason(change).await.word(), "checks_failed");
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_broken_base_pauses_the_queue_and_nobody_is_blamed() {
    let bench = Bench::new().await;
    bench.accept_foreign().await;
    let broken = bench.repo.commit("main", None, &[("bad", "1\n")]);
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle().await;
    let state = bench.state().await;
    assert!(state.paused.as_ref().unwrap().reason.contains("`main` itself fails unit"), "{state:?}");
    assert_eq!(state.entries[0].id, a);
    let mended = bench.repo.commit("main", None, &[("bad", "")]);
    bench.engine.resume(&bench.queue).await.unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    bench.prove(&[broken, mended]).await;
}

#[tokio::test]
async fn a_flaky_check_is_repeated_and_counted() {
    let bench = Bench::with(|repo| {
        let marker = repo.scratch("flaky").join("ran");
        let script = format!("if test -e {0}; then exit 0; fi; touch {0}; exit 1", marker.display());
        config(&[("unit", &unit(repo)), ("flaky", &script)])
    })
    .await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    assert_eq!(bench.state().await.tally.flaky, 1);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_change_the_base_has_already_leaves_without_landing() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    let again = bench.engine.enqueue(&bench.queue, "a", 5).await.unwrap().entry;
    bench.settle().await;
    assert_eq!(bench.reason(again).await, Reason::AlreadyMerged);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn what_cannot_be_done_now_is_done_later_and_nobody_is_taken_out() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let lock = bench.repo.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    let registry = bench.registry();
    for _ in 0..5 {
        bench.engine.reconcile_all().await.unwrap();
        bench.tasks.drain(&registry).await;
        bench.tasks.clock().advance(Duration::from_secs(1000));
    }
    let state = bench.state().await;
    let trouble = state.entries[0].trouble.as_ref().unwrap();
    assert!(trouble.message.contains("lock") && trouble.count >= 2, "{trouble:?}");
    std::fs::remove_file(&lock).unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_repository_that_is_gone_pauses_the_queue_and_removes_nothing() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let away = bench.repo.path().with_extension("away");
    std::fs::rename(bench.repo.path(), &away).unwrap();
    bench.settle().await;
    let state = bench.state().await;
    assert!(state.paused.is_some() && state.entries.len() == 1);
    std::fs::rename(&away, bench.repo.path()).unwrap();
    bench.engine.resume(&bench.queue).await.unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn an_urgent_change_overtakes_those_that_wait() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let b = bench.add("b", &[("b", "1\n")]).await;
    assert_eq!(bench.engine.set_priority(&bench.queue, b, 0).await, Ok(1));
    bench.settle().await;
    let landed = |detail: weaver_merge::engine::EntryDetail| detail.entry.completed_at.unwrap();
    assert!(landed(bench.entry(b).await) <= landed(bench.entry(a).await));
    let order = bench.repo.git(&["log", "--first-parent", "--format=%s", "-2", "main"]);
    assert_eq!(order, "Merge `a` into `main`\nMerge `b` into `main`");
    bench.prove(&[]).await;
}
