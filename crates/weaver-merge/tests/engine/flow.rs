//! Entries that land, and entries that are ejected.

use std::time::Duration;

use weaver_merge::domain::{CheckName, Conflict, LandedChange, MergeError, Reason};
use weaver_merge::engine::EngineError;

use crate::harness::Harness;
use crate::proof::{config, unit};

#[tokio::test]
async fn changes_that_pass_land_in_order_and_one_that_fails_is_ejected() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let bad = harness.add("b", &[("bad", "1\n")]).await;
    let c = harness.add("c", &[("c", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await && harness.has_landed(c).await);
    assert_eq!(harness.reason(bad).await, Reason::ChecksFailed { checks: vec![CheckName("unit".into())] });
    let files = harness.files();
    assert!(files.contains("a") && files.contains("c") && !files.contains("bad"));
    assert!(harness.state().await.entries.is_empty());
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_conflict_is_refused_on_enqueue_and_a_later_one_ejects_the_entry() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("README", "a\n")]).await;
    let b = harness.add("b", &[("README", "b\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    let commit = harness.entry(a).await.certificate.unwrap().commit;
    let with = vec![LandedChange { entry: a, pull_request: "a".into(), commit }];
    let paths = vec!["README".to_owned()];
    assert_eq!(harness.reason(b).await, Reason::Conflicted { paths: paths.clone(), with: with.clone() });
    let again = harness.engine.enqueue(&harness.queue, "b", 5).await.unwrap_err();
    let text = format!("in README; with entry {a} (`a`), landed as {};", with[0].commit);
    assert!(again.to_string().contains(&text), "{again}");
    let conflict = Conflict { paths, with };
    let refused = MergeError::PullRequestConflicted { pull_request: "b".into(), conflict };
    assert_eq!(again, EngineError::Merge(refused));
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_clean_merge_with_a_semantic_conflict_does_not_land() {
    // One change renames what another begins to use: git merges both, and only a test of the merge can tell.
    let harness = Harness::with(|repo| {
        let script = "for name in $(cat callers); do grep -qx $name names || exit 1; done";
        config(&[("unit", &unit(repo)), ("names", script)])
    })
    .await;
    let mut files = vec![("names", "greet\nbow\n"), ("callers", "bow\n")];
    let setup = harness.add("setup", &files).await;
    harness.settle().await;
    assert!(harness.has_landed(setup).await);
    files = vec![("names", "salute\nbow\n")];
    harness.repo.commit("rename", Some("main"), &files);
    harness.repo.commit("caller", Some("main"), &[("callers", "bow\ngreet\n")]);
    let rename = harness.engine.enqueue(&harness.queue, "rename", 5).await.unwrap().entry;
    let caller = harness.engine.enqueue(&harness.queue, "caller", 5).await.unwrap().entry;
    harness.settle().await;
    assert!(harness.has_landed(rename).await);
    assert_eq!(
        harness.reason(caller).await,
        Reason::ChecksFailed { checks: vec![CheckName("names".into())] }
    );
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_change_cannot_weaken_its_own_checks() {
    let harness = Harness::new().await;
    let weak = config(&[("unit", "true")]);
    let change = harness.add("weak", &[(".weaver/merge.toml", &weak), ("bad", "1\n")]).await;
    harness.settle().await;
    assert_eq!(harness.reason(change).await.word(), "checks_failed");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_broken_base_pauses_the_queue_and_no_entry_is_ejected() {
    let harness = Harness::new().await;
    harness.accept_foreign().await;
    let broken = harness.repo.commit("main", None, &[("bad", "1\n")]);
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    let state = harness.state().await;
    assert!(state.paused.as_ref().unwrap().reason.contains("`main` itself fails unit"), "{state:?}");
    assert_eq!(state.entries[0].id, a);
    let fixed = harness.repo.commit("main", None, &[("bad", "")]);
    harness.engine.resume(&harness.queue).await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    harness.prove(&[broken, fixed]).await;
}

#[tokio::test]
async fn a_flaky_check_is_repeated_and_counted() {
    let harness = Harness::with(|repo| {
        let marker = repo.scratch("flaky").join("ran");
        let script = format!("if test -e {0}; then exit 0; fi; touch {0}; exit 1", marker.display());
        config(&[("unit", &unit(repo)), ("flaky", &script)])
    })
    .await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert_eq!(harness.state().await.tally.flaky, 1);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_change_already_on_the_base_is_removed_without_landing() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    let again = harness.engine.enqueue(&harness.queue, "a", 5).await.unwrap().entry;
    harness.settle().await;
    assert_eq!(harness.reason(again).await, Reason::AlreadyMerged);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_transient_error_is_retried_and_ejects_no_entry() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let lock = harness.repo.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    let registry = harness.registry();
    for _ in 0..5 {
        harness.engine.reconcile_all().await.unwrap();
        harness.tasks.drain(&registry).await;
        harness.tasks.clock().advance(Duration::from_secs(1000));
    }
    let state = harness.state().await;
    let fault = state.entries[0].fault.as_ref().unwrap();
    assert!(fault.message.contains("lock") && fault.count >= 2, "{fault:?}");
    std::fs::remove_file(&lock).unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_repository_that_disappears_pauses_the_queue_and_ejects_no_entry() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let away = harness.repo.path().with_extension("away");
    std::fs::rename(harness.repo.path(), &away).unwrap();
    harness.settle().await;
    let state = harness.state().await;
    assert!(state.paused.is_some() && state.entries.len() == 1);
    std::fs::rename(&away, harness.repo.path()).unwrap();
    harness.engine.resume(&harness.queue).await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn an_urgent_change_overtakes_waiting_ones() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    assert_eq!(harness.engine.set_priority(&harness.queue, b, 0).await, Ok(1));
    harness.settle().await;
    let landed = |detail: weaver_merge::engine::EntryDetail| detail.entry.completed_at.unwrap();
    assert!(landed(harness.entry(b).await) <= landed(harness.entry(a).await));
    let order = harness.repo.git(&["log", "--first-parent", "--format=%s", "-2", "main"]);
    assert_eq!(order, "Merge `a` into `main`\nMerge `b` into `main`");
    harness.prove(&[]).await;
}
