//! From pending to a candidate, and ejection.

use weaver_merge::domain::{EntryOutcome, MergeError, Notice, Reason, Status};
use weaver_merge::plan::{Action, BaseSeen, PullRequestSeen, Report};

use crate::scene::{Scene, change, merged, oid, passed};

fn reason(scene: &Scene) -> Option<Reason> {
    scene.queue.outbox.iter().rev().find_map(|notice| match notice {
        Notice::Completed { outcome: EntryOutcome::Removed(reason), .. } => Some(reason.clone()),
        _ => None,
    })
}

#[test]
fn only_the_head_entry_is_built_from_its_exact_head_onto_the_exact_base() {
    let mut scene = Scene::new(&["a", "b"], &["unit"]);
    let actions = scene.plan();
    assert_eq!(actions, [Action::Build { entry: scene.first(), base: oid(100), head: oid(1) }]);
    assert_eq!(scene.status(), Some(Status::Updating));
    assert_eq!(scene.queue.entries[1].status, Status::Pending);
}

#[test]
fn a_build_whose_report_was_lost_is_requested_again() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    let first = scene.plan();
    assert_eq!(scene.plan(), first);
}

#[test]
fn a_conflict_ejects_the_change_and_names_the_files() {
    let mut scene = Scene::new(&["a", "b"], &["unit"]);
    scene.plan();
    let entry = scene.first();
    scene.report(Report::Conflict {
        entry,
        base: oid(100),
        head: oid(1),
        paths: vec!["x.rs".into()],
        with: Vec::new(),
    });
    assert_eq!(reason(&scene), Some(Reason::Conflicted { paths: vec!["x.rs".into()], with: Vec::new() }));
    assert_eq!((scene.queue.entries.len(), scene.queue.tally.removed["conflicted"]), (1, 1));
}

#[test]
fn a_report_about_another_base_or_head_changes_nothing() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.plan();
    let (entry, paths) = (scene.first(), Vec::new());
    assert!(!scene.report(Report::Conflict {
        entry,
        base: oid(99),
        head: oid(1),
        paths: paths.clone(),
        with: Vec::new()
    }));
    assert!(!scene.report(Report::Conflict { entry, base: oid(100), head: oid(2), paths, with: Vec::new() }));
    let (base, head) = (oid(99), oid(1));
    let (merged, checks) = (merged(&base, &head), Vec::new());
    assert!(!scene.report(Report::Built { entry, base, head, merged, checks }));
    assert_eq!(scene.status(), Some(Status::Updating));
}

#[test]
fn a_transient_error_keeps_the_entry_and_backs_off() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    for count in 1..=3 {
        assert_eq!(scene.plan().len(), 1, "try {count}");
        scene.report(Report::Fault { entry: scene.first(), message: "no space left".into() });
        assert_eq!(scene.status(), Some(Status::Pending));
        assert_eq!(scene.plan(), [], "it waits");
        scene.pass(5 << (count - 1));
    }
    scene.step();
    assert_eq!(scene.status(), Some(Status::Checking));
    assert_eq!(scene.queue.current_entry().unwrap().fault, None);
}

#[test]
fn persistent_errors_are_published_and_eject_no_entry() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    for _ in 0..20 {
        scene.plan();
        scene.report(Report::Fault { entry: scene.first(), message: "denied".into() });
        scene.pass(1000);
    }
    let faults = scene.queue.outbox.iter().filter(|notice| matches!(notice, Notice::Fault { .. }));
    assert_eq!((faults.count(), scene.queue.entries.len()), (3, 1), "after 4, 8 and 16 errors");
}

#[test]
fn a_change_that_was_closed_deleted_retargeted_drafted_or_untriggered_is_removed() {
    let mut closed = change("a", 1);
    closed.is_open = false;
    let mut draft = change("a", 1);
    draft.is_draft = true;
    let mut retargeted = change("a", 1);
    retargeted.base_branch = "next".into();
    let mut untriggered = change("a", 1);
    untriggered.has_trigger = false;
    let table = [
        (PullRequestSeen::BranchDeleted, Reason::BranchDeleted),
        (PullRequestSeen::Present(closed), Reason::Closed),
        (PullRequestSeen::Present(draft), Reason::Draft),
        (PullRequestSeen::Present(retargeted), Reason::Retargeted),
        (PullRequestSeen::Present(untriggered), Reason::TriggerRemoved),
    ];
    for (seen, expected) in table {
        let mut scene = Scene::new(&["a", "b"], &["unit", "lint"]);
        scene.step();
        scene.step();
        assert_eq!(scene.queue.active_checks(), 2);
        scene.seen.pull_requests.insert(scene.first(), seen);
        let actions = scene.plan();
        let stops = actions.iter().filter(|action| matches!(action, Action::StopCheck { .. })).count();
        assert_eq!((reason(&scene), stops), (Some(expected), 2));
        assert_eq!(scene.queue.entries.len(), 1);
    }
}

#[test]
fn a_candidate_with_an_invalid_configuration_ejects_the_change() {
    let mut scene = Scene::new(&["a", "b"], &["unit"]);
    scene.plan();
    let (entry, problem) = (scene.first(), "no check".to_owned());
    let report = |head| Report::InvalidConfig { entry, base: oid(100), head, problem: problem.clone() };
    assert!(!scene.report(report(oid(2))), "late");
    assert!(scene.report(report(oid(1))));
    assert_eq!(reason(&scene), Some(Reason::InvalidConfig { problem: problem.clone() }));
    assert!(scene.queue.paused.is_none() && scene.queue.entries.len() == 1);
}

#[test]
fn a_branch_that_could_not_be_queried_stays() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.seen.pull_requests.clear();
    scene.step();
    assert_eq!(scene.status(), Some(Status::Checking));
}

#[test]
fn a_missing_repository_pauses_the_queue_and_removes_nothing() {
    let mut scene = Scene::new(&["a", "b"], &["unit"]);
    scene.step();
    scene.seen.base = BaseSeen::Missing("demo.git".into());
    assert_eq!(scene.plan(), []);
    assert_eq!(scene.queue.entries.len(), 2);
    assert!(scene.queue.paused.as_ref().unwrap().reason.contains("demo.git"));
    let notices = scene.queue.outbox.len();
    scene.plan();
    assert_eq!(scene.queue.outbox.len(), notices, "one notice");
}

#[test]
fn an_unreachable_base_changes_nothing() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    let before = scene.queue.clone();
    scene.seen.base = BaseSeen::Unreachable("timeout".into());
    assert_eq!(scene.plan(), []);
    assert_eq!(scene.queue, before);
}

#[test]
fn an_invalid_configuration_pauses_the_queue_and_ejects_no_entry() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.seen.base = BaseSeen::Tip { oid: oid(100), checks: Err("no `[[check]]`".into()) };
    assert_eq!(scene.plan(), []);
    assert!(scene.queue.paused.is_some() && scene.queue.entries.len() == 1);
}

#[test]
fn a_paused_or_inactive_queue_starts_nothing() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.seen.is_active = false;
    assert_eq!(scene.plan(), []);
    scene.seen.is_active = true;
    scene.queue.pause("by hand".into(), scene.now);
    assert_eq!(scene.plan(), []);
    scene.queue.resume();
    assert_eq!(scene.plan().len(), 1);
}

#[test]
fn a_corrupted_queue_is_not_planned() {
    let mut scene = Scene::new(&["a", "b"], &["unit"]);
    scene.queue.entries.swap(0, 1);
    let planned = weaver_merge::plan::plan(&scene.queue, &scene.seen, &scene.policy, scene.now);
    assert!(matches!(planned, Err(MergeError::InvalidPosition { .. })));
}

#[test]
fn a_tree_that_passed_the_same_checks_is_not_tested_again() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    scene.end_runs(|_, _| passed());
    // Ready; then the base moves, and the rebuilt candidate happens to have the same tree.
    scene.plan();
    scene.set_base(&oid(101));
    scene.plan();
    let (entry, base, head) = (scene.first(), oid(101), oid(1));
    let same = weaver_merge::domain::Merged { commit: oid(777), tree: merged(&oid(100), &head).tree };
    let checks = vec![weaver_merge::domain::CheckName("unit".into())];
    scene.report(Report::Built { entry, base, head, merged: same, checks });
    let actions = scene.plan();
    assert_eq!(actions, [Action::Land { entry, base: oid(101), commit: oid(777) }]);
    assert_eq!((scene.queue.tally.reused, scene.queue.tally.runs), (1, 1));
}
