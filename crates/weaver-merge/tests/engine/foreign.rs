//! The base is moved by others: forward, back, and to what is in line.

use weaver_merge::domain::{MergeError, PauseCause, Reason};
use weaver_merge::engine::EngineError;

use crate::bench::Bench;
use crate::proof::{config, unit};

async fn pause(bench: &Bench) -> (PauseCause, String) {
    let pause = bench.state().await.paused.expect("the queue is paused");
    (pause.cause, pause.reason)
}

#[tokio::test]
async fn a_push_to_the_base_pauses_the_queue_until_it_is_accepted_by_name() {
    let bench = Bench::new().await;
    let outsider = bench.repo.commit("main", None, &[("outside", "1\n")]);
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle().await;
    let (cause, reason) = pause(&bench).await;
    assert_eq!(cause, PauseCause::Foreign);
    let way_out = format!("weaver merge resume --accept {outsider}");
    assert!(reason.contains(&way_out) && reason.contains("Ada <ada@example.org>"), "{reason}");
    // Resumed without a word about it, it pauses again.
    bench.engine.resume(&bench.queue).await.unwrap();
    bench.settle().await;
    assert_eq!(pause(&bench).await.0, PauseCause::Foreign);
    bench.engine.accept(&bench.queue, &outsider, "ops").await.unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    let report = bench.engine.verify_all(&bench.queue, 0..100).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    let untested: Vec<&str> = report.links.iter().filter_map(|link| link.untested.as_deref()).collect();
    assert!(untested.len() == 2 && untested[1].contains(outsider.as_str()), "{untested:?}");
    assert!(untested[1].contains("moved by Ada") && untested[1].contains("accepted by ops"), "{untested:?}");
    assert!(bench.events().await.keys().any(|key| key.contains(":foreign:")), "people are told");
    bench.prove(&[outsider]).await;
}

#[tokio::test]
async fn a_push_is_accepted_by_the_setting_of_the_queue_and_named_as_untested() {
    let bench = Bench::new().await;
    bench.accept_foreign().await;
    let outsider = bench.repo.commit("main", None, &[("outside", "1\n")]);
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    let report = bench.engine.verify_all(&bench.queue, 0..100).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    let foreign = report.links.iter().find(|link| link.kind == "foreign").unwrap();
    assert!(foreign.untested.as_ref().unwrap().contains("on_foreign = accept"), "{foreign:?}");
    bench.prove(&[outsider]).await;
}

/// The attack: the code of a change moves the base to itself while it is tested.
#[tokio::test]
async fn a_check_that_moves_the_base_to_its_own_change_lands_nothing_and_stops_the_queue() {
    let bench = Bench::with(|repo| {
        let script =
            format!("git --git-dir {} update-ref refs/heads/main refs/heads/evil", repo.path().display());
        config(&[("unit", &unit(repo)), ("attack", &script)])
    })
    .await;
    let evil = bench.add("evil", &[("bad", "1\n")]).await;
    bench.settle().await;
    let state = bench.state().await;
    assert_eq!((state.entries.len(), state.tally.landed), (1, 0), "it neither landed nor left");
    let (cause, reason) = pause(&bench).await;
    assert!(cause == PauseCause::Foreign && reason.contains(bench.repo.tip("evil").as_str()), "{reason}");
    let report = bench.engine.verify_all(&bench.queue, 0..100).await.unwrap();
    assert!(report.base.as_ref().is_some_and(|base| base.contains("not tested")), "{report:?}");
    // Accepted by an operator, the change is not said to have been merged by the queue.
    let tip = bench.repo.tip("main");
    bench.engine.accept(&bench.queue, &tip, "ops").await.unwrap();
    bench.settle().await;
    assert_eq!(bench.reason(evil).await, Reason::MergedOutside);
}

#[tokio::test]
async fn a_head_that_landed_through_another_entry_is_already_merged() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.repo.git(&["branch", "again", "a"]);
    let again = bench.engine.enqueue(&bench.queue, "again", 5).await.unwrap().entry;
    bench.repo.git(&["branch", "old", bench.first.as_str()]);
    let old = bench.engine.enqueue(&bench.queue, "old", 5).await.unwrap().entry;
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    assert_eq!(bench.reason(again).await, Reason::AlreadyMerged);
    assert_eq!(bench.reason(old).await, Reason::AlreadyMerged, "from before there was a queue");
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_base_that_was_moved_back_pauses_the_queue_and_the_missing_entries_are_named() {
    let bench = Bench::new().await;
    bench.accept_foreign().await; // Which does not accept this.
    let (a, b) = (bench.add("a", &[("a", "1\n")]).await, bench.add("b", &[("b", "1\n")]).await);
    bench.settle().await;
    let landed = bench.repo.tip("main");
    let after_a = bench.entry(a).await.certificate.unwrap().commit;
    bench.repo.git(&["update-ref", "refs/heads/main", after_a.as_str()]);
    let c = bench.add("c", &[("c", "1\n")]).await;
    bench.settle().await;
    let (cause, reason) = pause(&bench).await;
    assert_eq!(cause, PauseCause::MovedBack);
    assert!(reason.contains(&format!("entries {b}")) && reason.contains(landed.as_str()), "{reason}");
    let report = bench.engine.verify_all(&bench.queue, 0..100).await.unwrap();
    assert!(!report.is_sound() && report.base.unwrap().contains("does not contain"));
    // Brought back, it goes on.
    bench.repo.git(&["update-ref", "refs/heads/main", landed.as_str()]);
    bench.engine.resume(&bench.queue).await.unwrap();
    bench.settle().await;
    assert!(bench.has_landed(c).await);
    assert!(bench.engine.verify_all(&bench.queue, 0..100).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_base_that_was_moved_back_on_purpose_is_accepted_and_verify_says_what_is_gone() {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle().await;
    bench.repo.git(&["update-ref", "refs/heads/main", bench.first.as_str()]);
    bench.settle().await;
    assert_eq!(pause(&bench).await.0, PauseCause::MovedBack, "also with nothing in line");
    let moved = bench.engine.accept(&bench.queue, &bench.first, "ops").await.unwrap();
    assert_eq!(moved.taken_back, [a]);
    let b = bench.add("b", &[("b", "1\n")]).await;
    bench.settle().await;
    assert!(bench.has_landed(b).await);
    let report = bench.engine.verify_all(&bench.queue, 0..100).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    let foreign = report.links.iter().find(|link| link.kind == "foreign").unwrap();
    assert!(foreign.untested.as_ref().unwrap().contains(&format!("entries {a}")), "{foreign:?}");
}

#[tokio::test]
async fn only_where_the_base_is_can_be_accepted() {
    let bench = Bench::new().await;
    let head = bench.repo.commit("a", Some("main"), &[("a", "1\n")]);
    let refused = |result: Result<_, EngineError>| {
        matches!(result.map(drop), Err(EngineError::Merge(MergeError::NothingToAccept { .. })))
    };
    assert!(refused(bench.engine.accept(&bench.queue, &head, "ops").await), "it is not on the base");
    assert!(refused(bench.engine.accept(&bench.queue, &bench.first, "ops").await), "nobody else moved it");
    let one = bench.repo.commit("main", None, &[("one", "1\n")]);
    let two = bench.repo.commit("main", None, &[("two", "1\n")]);
    bench.settle().await;
    assert!(pause(&bench).await.1.contains(two.as_str()));
    // Up to there, and no further.
    bench.engine.accept(&bench.queue, &one, "ops").await.unwrap();
    bench.settle().await;
    let (cause, reason) = pause(&bench).await;
    assert!(
        cause == PauseCause::Foreign && reason.contains(one.as_str()) && reason.contains(two.as_str()),
        "{reason}"
    );
}
