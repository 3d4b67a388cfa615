//! A check fails: whose fault is it?

use weaver_merge::domain::{CheckName, Departure, Notice, On, Reason, RunEnd, Status};
use weaver_merge::plan::Action;

use crate::scene::{Scene, failed, oid, passed};

/// A candidate whose check `unit` just failed; `lint` passed.
fn red() -> Scene {
    let mut scene = Scene::new(&["a", "b"], &["unit", "lint"]);
    scene.step();
    scene.step();
    scene.end_runs(|name, _| if name == "unit" { failed() } else { passed() });
    scene
}

#[test]
fn a_failed_check_is_repeated_and_run_on_the_base_alone() {
    let mut scene = red();
    let actions = scene.step();
    let runs: Vec<_> = actions
        .iter()
        .map(|action| match action {
            Action::StartCheck { check, on, commit, .. } => (check.0.as_str(), *on, commit.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    let candidate = scene.queue.entries[0].merged().unwrap().commit.clone();
    assert_eq!(runs, [("unit", On::Candidate, candidate), ("unit", On::Base, oid(100))]);
}

#[test]
fn a_culprit_leaves_with_the_names_and_ends_of_its_checks() {
    let mut scene = red();
    scene.step();
    scene.end_runs(|_, on| if on == On::Base { passed() } else { failed() });
    scene.step();
    let Some(Notice::Left { entry, departure, .. }) = scene.queue.outbox.last() else { panic!() };
    let reason = Reason::ChecksFailed { checks: vec![CheckName("unit".into())] };
    assert_eq!(*departure, Departure::Removed(reason));
    assert_eq!((entry.status, entry.checks[0].runs.len()), (Status::Failed, 3));
    assert_eq!(scene.queue.entries.len(), 1);
}

#[test]
fn a_broken_base_pauses_the_queue_and_blames_nobody() {
    let mut scene = red();
    scene.step();
    scene.end_runs(|_, _| failed());
    scene.step();
    assert_eq!(scene.queue.entries.len(), 2);
    assert!(scene.queue.paused.as_ref().unwrap().reason.contains("`main` itself fails unit"));
    assert_eq!(scene.plan(), []);
    scene.queue.resume();
    let build = Action::Build { entry: scene.first(), base: oid(100), head: oid(1) };
    assert_eq!(scene.plan(), [build]);
    // Nobody mended it, and the answers of the first candidate do not count for the second.
    assert_eq!(scene.queue.entries[0].candidate.as_ref().unwrap().number, 2);
}

#[test]
fn a_flaky_check_is_counted_and_does_not_keep_the_change_out() {
    let mut scene = red();
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
    scene.end_runs(|_, _| RunEnd::TimedOut);
    assert_eq!(scene.step().len(), 2);
    scene.end_runs(|_, on| if on == On::Base { passed() } else { RunEnd::TimedOut });
    scene.step();
    assert_eq!(scene.queue.tally.removed["checks_failed"], 1);
}

#[test]
fn a_run_that_got_lost_blames_nobody_and_is_repeated() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    for _ in 0..3 {
        scene.end_runs(|_, _| RunEnd::Lost { reason: "its worker vanished".into() });
        let actions = scene.step();
        assert!(matches!(actions[..], [Action::StartCheck { on: On::Candidate, .. }]), "{actions:?}");
    }
    scene.end_runs(|_, _| passed());
    scene.plan();
    assert_eq!(scene.status(), Some(Status::Ready));
}

#[test]
fn a_check_that_never_runs_to_its_end_pauses_the_queue() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    for _ in 0..20 {
        if scene.queue.paused.is_none() {
            scene.end_runs(|_, _| RunEnd::Lost { reason: "no room".into() });
            scene.step();
        }
    }
    assert!(scene.queue.paused.is_some() && scene.queue.entries.len() == 1);
    assert_eq!(scene.queue.tally.runs, 12);
}
