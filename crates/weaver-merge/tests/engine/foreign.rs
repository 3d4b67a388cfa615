//! The base is changed outside the queue: forward, rewound, and to a queued change.

use weaver_merge::domain::{MergeError, PauseCause, Reason};
use weaver_merge::engine::EngineError;

use crate::harness::Harness;
use crate::proof::{config, unit};

async fn pause(harness: &Harness) -> (PauseCause, String) {
    let pause = harness.state().await.paused.expect("the queue is paused");
    (pause.cause, pause.reason)
}

#[tokio::test]
async fn a_push_to_the_base_pauses_the_queue_until_it_is_accepted_by_name() {
    let harness = Harness::new().await;
    let outsider = harness.repo.commit("main", None, &[("outside", "1\n")]);
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    let (cause, reason) = pause(&harness).await;
    assert_eq!(cause, PauseCause::Foreign);
    let remedy = format!("weaver merge resume --accept {outsider}");
    assert!(reason.contains(&remedy) && reason.contains("Ada <ada@example.org>"), "{reason}");
    // Resumed without accepting it, the queue pauses again.
    harness.engine.resume(&harness.queue).await.unwrap();
    harness.settle().await;
    assert_eq!(pause(&harness).await.0, PauseCause::Foreign);
    harness.engine.accept(&harness.queue, &outsider, "ops").await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    let report = harness.engine.verify_all(&harness.queue, 0..100).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    let untested: Vec<&str> = report.links.iter().filter_map(|link| link.untested.as_deref()).collect();
    assert!(untested.len() == 2 && untested[1].contains(outsider.as_str()), "{untested:?}");
    assert!(untested[1].contains("moved by Ada") && untested[1].contains("accepted by ops"), "{untested:?}");
    assert!(harness.events().await.keys().any(|key| key.contains(":foreign:")), "a notice is published");
    harness.prove(&[outsider]).await;
}

#[tokio::test]
async fn a_push_is_accepted_by_the_setting_of_the_queue_and_named_as_untested() {
    let harness = Harness::new().await;
    harness.accept_foreign().await;
    let outsider = harness.repo.commit("main", None, &[("outside", "1\n")]);
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    let report = harness.engine.verify_all(&harness.queue, 0..100).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    let foreign = report.links.iter().find(|link| link.kind == "foreign").unwrap();
    assert!(foreign.untested.as_ref().unwrap().contains("on_foreign = accept"), "{foreign:?}");
    harness.prove(&[outsider]).await;
}

/// The attack: the code of a change moves the base to itself while it is tested.
#[tokio::test]
async fn a_check_that_moves_the_base_to_its_own_change_lands_nothing_and_pauses_the_queue() {
    let harness = Harness::with(|repo| {
        let script =
            format!("git --git-dir {} update-ref refs/heads/main refs/heads/evil", repo.path().display());
        config(&[("unit", &unit(repo)), ("attack", &script)])
    })
    .await;
    let evil = harness.add("evil", &[("bad", "1\n")]).await;
    harness.settle().await;
    let state = harness.state().await;
    assert_eq!((state.entries.len(), state.tally.landed), (1, 0), "it neither landed nor was removed");
    let (cause, reason) = pause(&harness).await;
    assert!(cause == PauseCause::Foreign && reason.contains(harness.repo.tip("evil").as_str()), "{reason}");
    let report = harness.engine.verify_all(&harness.queue, 0..100).await.unwrap();
    assert!(report.base.as_ref().is_some_and(|base| base.contains("not tested")), "{report:?}");
    // Accepted by an operator, the change is not said to have been merged by the queue.
    let tip = harness.repo.tip("main");
    harness.engine.accept(&harness.queue, &tip, "ops").await.unwrap();
    harness.settle().await;
    assert_eq!(harness.reason(evil).await, Reason::MergedOutside);
}

#[tokio::test]
async fn a_head_that_landed_through_another_entry_is_already_merged() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.repo.git(&["branch", "again", "a"]);
    let again = harness.engine.enqueue(&harness.queue, "again", 5).await.unwrap().entry;
    harness.repo.git(&["branch", "old", harness.first.as_str()]);
    let old = harness.engine.enqueue(&harness.queue, "old", 5).await.unwrap().entry;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert_eq!(harness.reason(again).await, Reason::AlreadyMerged);
    assert_eq!(harness.reason(old).await, Reason::AlreadyMerged, "from before there was a queue");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_rewound_base_pauses_the_queue_and_the_lost_entries_are_named() {
    let harness = Harness::new().await;
    harness.accept_foreign().await; // Which does not accept this.
    let (a, b) = (harness.add("a", &[("a", "1\n")]).await, harness.add("b", &[("b", "1\n")]).await);
    harness.settle().await;
    let landed = harness.repo.tip("main");
    let after_a = harness.entry(a).await.certificate.unwrap().commit;
    harness.repo.git(&["update-ref", "refs/heads/main", after_a.as_str()]);
    let c = harness.add("c", &[("c", "1\n")]).await;
    harness.settle().await;
    let (cause, reason) = pause(&harness).await;
    assert_eq!(cause, PauseCause::MovedBack);
    assert!(reason.contains(&format!("entries {b}")) && reason.contains(landed.as_str()), "{reason}");
    let report = harness.engine.verify_all(&harness.queue, 0..100).await.unwrap();
    assert!(!report.is_sound() && report.base.unwrap().contains("does not contain"));
    // After the rewind is undone, the queue resumes.
    harness.repo.git(&["update-ref", "refs/heads/main", landed.as_str()]);
    harness.engine.resume(&harness.queue).await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(c).await);
    assert!(harness.engine.verify_all(&harness.queue, 0..100).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_rewound_base_can_be_accepted_and_verify_names_the_lost_landings() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    harness.repo.git(&["update-ref", "refs/heads/main", harness.first.as_str()]);
    harness.settle().await;
    assert_eq!(pause(&harness).await.0, PauseCause::MovedBack, "also with an empty queue");
    let moved = harness.engine.accept(&harness.queue, &harness.first, "ops").await.unwrap();
    assert_eq!(moved.taken_back, [a]);
    let b = harness.add("b", &[("b", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(b).await);
    let report = harness.engine.verify_all(&harness.queue, 0..100).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    let foreign = report.links.iter().find(|link| link.kind == "foreign").unwrap();
    assert!(foreign.untested.as_ref().unwrap().contains(&format!("entries {a}")), "{foreign:?}");
}

#[tokio::test]
async fn only_a_commit_the_base_was_moved_to_can_be_accepted() {
    let harness = Harness::new().await;
    let head = harness.repo.commit("a", Some("main"), &[("a", "1\n")]);
    let refused = |result: Result<_, EngineError>| {
        matches!(result.map(drop), Err(EngineError::Merge(MergeError::NothingToAccept { .. })))
    };
    assert!(refused(harness.engine.accept(&harness.queue, &head, "ops").await), "it is not on the base");
    assert!(
        refused(harness.engine.accept(&harness.queue, &harness.first, "ops").await),
        "only the queue moved it"
    );
    let one = harness.repo.commit("main", None, &[("one", "1\n")]);
    let two = harness.repo.commit("main", None, &[("two", "1\n")]);
    harness.settle().await;
    assert!(pause(&harness).await.1.contains(two.as_str()));
    // The first commit is accepted, the second is not.
    harness.engine.accept(&harness.queue, &one, "ops").await.unwrap();
    harness.settle().await;
    let (cause, reason) = pause(&harness).await;
    assert!(
        cause == PauseCause::Foreign && reason.contains(one.as_str()) && reason.contains(two.as_str()),
        "{reason}"
    );
}
