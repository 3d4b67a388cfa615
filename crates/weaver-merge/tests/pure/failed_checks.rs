//! A check fails: flaky, a broken base, or the change?

use weaver_merge::domain::{CheckName, CheckTarget, EntryOutcome, Notice, Reason, RunOutcome, Status};
use weaver_merge::plan::Action;

use crate::scene::{Scene, failed, oid, passed};

/// A candidate whose check `unit` just failed; `lint` passed.
fn with_failed_check() -> Scene {
    let mut scene = Scene::new(&["a", "b"], &["unit", "lint"]);
    scene.step();
    scene.step();
    scene.end_runs(|name, _| if name == "unit" { failed() } else { passed() });
    scene
}

#[test]
fn a_failed_check_is_repeated_and_run_on_the_base_alone() {
    let mut scene = with_failed_check();
    let actions = scene.step();
    let runs: Vec<_> = actions
        .iter()
        .map(|action| match action {
            Action::StartCheck { check, on, commit, .. } => (check.0.as_str(), *on, commit.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    let candidate = scene.queue.entries[0].merged().unwrap().commit.clone();
    assert_eq!(runs, [("unit", CheckTarget::Candidate, candidate), ("unit", CheckTarget::Base, oid(100))]);
}

#[test]
fn a_culprit_is_ejected_with_the_names_and_outcomes_of_its_checks() {
    let mut scene = with_failed_check();
    scene.step();
    scene.end_runs(|_, on| if on == CheckTarget::Base { passed() } else { failed() });
    scene.step();
    let Some(Notice::Completed { entry, outcome, .. }) = scene.queue.outbox.last() else { panic!() };
    let reason = Reason::ChecksFailed { checks: vec![CheckName("unit".into())] };
    assert_eq!(*outcome, EntryOutcome::Removed(reason));
    assert_eq!((entry.status, entry.checks[0].runs.len()), (Status::Failed, 3));
    assert_eq!(scene.queue.entries.len(), 1);
}

#[test]
fn a_broken_base_pauses_the_queue_and_ejects_no_entry() {
    let mut scene = with_failed_check();
    scene.step();
    scene.end_runs(|_, _| failed());
    scene.step();
    assert_eq!(scene.queue.entries.len(), 2);
    assert!(scene.queue.paused.as_ref().unwrap().reason.contains("`main` itself fails unit"));
    assert_eq!(scene.plan(), []);
    scene.queue.resume();
    let build = Action::Build { entry: scene.first(), base: oid(100), head: oid(1) };
    assert_eq!(scene.plan(), [build]);
    // The base is still broken, and results of the first candidate do not count for the second.
    assert_eq!(scene.queue.entries[0].candidate.as_ref().unwrap().number, 2);
}

#[test]
fn a_flaky_check_is_counted_and_does_not_eject_the_change() {
    let mut scene = with_failed_check();
    scene.step();
    scene.end_runs(|_, _| passed());
    let actions = scene.plan();
    assert!(matches!(actions[..], [Action::Land { .. }]), "{actions:?}");
    assert_eq!((scene.queue.tally.flaky, scene.queue.tally.runs), (1, 4));
}

#[test]
fn a_timed_out_check_is_treated_like_a_failed_one() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    scene.end_runs(|_, _| RunOutcome::TimedOut);
    assert_eq!(scene.step().len(), 2);
    scene.end_runs(|_, on| if on == CheckTarget::Base { passed() } else { RunOutcome::TimedOut });
    scene.step();
    assert_eq!(scene.queue.tally.removed["checks_failed"], 1);
}

#[test]
fn a_lost_run_ejects_no_entry_and_is_repeated() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    for _ in 0..3 {
        scene.end_runs(|_, _| RunOutcome::Lost { reason: "its worker was lost".into() });
        let actions = scene.step();
        assert!(
            matches!(actions[..], [Action::StartCheck { on: CheckTarget::Candidate, .. }]),
            "{actions:?}"
        );
    }
    scene.end_runs(|_, _| passed());
    scene.plan();
    assert_eq!(scene.status(), Some(Status::Ready));
}

#[test]
fn a_check_that_never_completes_pauses_the_queue() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    for _ in 0..20 {
        if scene.queue.paused.is_none() {
            scene.end_runs(|_, _| RunOutcome::Lost { reason: "disk full".into() });
            scene.step();
        }
    }
    assert!(scene.queue.paused.is_some() && scene.queue.entries.len() == 1);
    assert_eq!(scene.queue.tally.runs, 12);
}
