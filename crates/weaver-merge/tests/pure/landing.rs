//! From a candidate to the base.

use weaver_merge::domain::{CheckTarget, EntryOutcome, MergeError, Notice, OnPush, Status};
use weaver_merge::plan::{Action, BaseSeen, PullRequestSeen, Report, RunSeen};

use crate::scene::{Scene, change, failed, merged, oid, passed};

fn ready() -> Scene {
    let mut scene = Scene::new(&["a", "b"], &["unit", "lint"]);
    scene.step();
    scene.step();
    scene.end_runs(|_, _| passed());
    scene
}

fn landed(scene: &Scene) -> usize {
    let is_landed =
        |notice: &&Notice| matches!(notice, Notice::Completed { outcome: EntryOutcome::Landed, .. });
    scene.queue.outbox.iter().filter(is_landed).count()
}

#[test]
fn a_candidate_whose_checks_all_passed_lands_from_its_tested_parent() {
    let mut scene = ready();
    let commit = merged(&oid(100), &oid(1)).commit;
    let entry = scene.first();
    assert_eq!(scene.plan(), [Action::Land { entry, base: oid(100), commit: commit.clone() }]);
    assert_eq!(scene.status(), Some(Status::Ready));
    scene.report(Report::Landed { entry, commit });
    assert_eq!((landed(&scene), scene.queue.tally.landed), (1, 1));
    assert_eq!(scene.status(), Some(Status::Pending), "the next one is unchanged");
}

#[test]
fn an_entry_records_when_it_was_enqueued_started_and_completed() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    let came = scene.now;
    scene.pass(10);
    scene.step();
    let begun = scene.now;
    scene.pass(10);
    scene.step();
    scene.end_runs(|_, _| passed());
    scene.pass(10);
    scene.step();
    let Some(Notice::Completed { entry, .. }) = scene.queue.outbox.last() else { panic!() };
    let times = (entry.enqueued_at, entry.started_at, entry.completed_at);
    assert_eq!(times, (came, Some(begun), Some(scene.now)));
}

#[test]
fn changes_land_in_order_each_on_the_previous_one() {
    let mut scene = Scene::new(&["a", "b", "c"], &["unit"]);
    for _ in 0..20 {
        if scene.queue.entries.is_empty() {
            break;
        }
        scene.end_runs(|_, _| passed());
        scene.step();
    }
    assert_eq!((landed(&scene), scene.queue.entries.len()), (3, 0));
}

#[test]
fn a_candidate_does_not_land_until_every_check_passed() {
    let mut scene = Scene::new(&["a"], &["unit", "lint"]);
    scene.step();
    scene.step();
    let unit = scene.queue.entries[0].checks[0].runs[0].task.unwrap();
    scene.seen.runs.insert(unit, RunSeen::Ended(passed()));
    assert_eq!(scene.plan(), []);
    assert_eq!(scene.status(), Some(Status::Checking));
}

#[test]
fn a_landing_whose_report_was_lost_is_detected_and_not_repeated() {
    let mut scene = ready();
    scene.plan();
    scene.set_base(&merged(&oid(100), &oid(1)).commit);
    scene.seen.base_has_candidate = true;
    assert_eq!(scene.plan(), []);
    assert_eq!((landed(&scene), scene.first().0), (1, 2));
}

#[test]
fn a_landing_counts_even_if_the_branch_was_deleted_before_it_was_observed() {
    let mut scene = ready();
    scene.plan();
    scene.set_base(&merged(&oid(100), &oid(1)).commit);
    scene.seen.base_has_candidate = true;
    scene.seen.pull_requests.insert(scene.first(), PullRequestSeen::BranchDeleted);
    scene.plan();
    assert_eq!(landed(&scene), 1);
}

#[test]
fn a_base_that_moved_makes_the_candidate_void_whether_it_is_checked_or_ready() {
    for is_ready in [false, true] {
        let mut scene = Scene::new(&["a"], &["unit"]);
        scene.step();
        scene.step();
        if is_ready {
            scene.end_runs(|_, _| passed());
            scene.plan();
        }
        scene.set_base(&oid(101));
        let actions = scene.plan();
        let build = Action::Build { entry: scene.first(), base: oid(101), head: oid(1) };
        assert_eq!(actions.last(), Some(&build));
        assert_eq!(scene.status(), Some(Status::Updating));
    }
}

#[test]
fn a_push_to_a_retested_head_makes_the_candidate_void_and_stops_its_checks() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    let BaseSeen::Tip { checks: Ok(checks), .. } = &mut scene.seen.base else { panic!() };
    checks.on_push = OnPush::Retest;
    scene.step();
    scene.step();
    let task = scene.queue.entries[0].checks[0].runs[0].task.unwrap();
    scene.seen.pull_requests.insert(scene.first(), PullRequestSeen::Present(change("a", 50)));
    let actions = scene.plan();
    let build = Action::Build { entry: scene.first(), base: oid(100), head: oid(50) };
    assert_eq!(actions, [Action::StopCheck { task }, build]);
    // It passes after all, too late.
    scene.act(&actions[1..]);
    scene.seen.runs.insert(task, RunSeen::Ended(passed()));
    scene.plan();
    assert_eq!(scene.status(), Some(Status::Checking));
    assert_eq!(scene.queue.entries[0].checks[0].runs.len(), 1, "a run of its own");
    assert!(!scene.queue.stopping.contains(&task));
}

#[test]
fn a_landing_change_is_neither_rebuilt_nor_removed() {
    let mut scene = ready();
    scene.plan();
    let (entry, now) = (scene.first(), scene.now);
    for seen in [PullRequestSeen::Present(change("a", 50)), PullRequestSeen::BranchDeleted] {
        scene.seen.pull_requests.insert(entry, seen);
        let actions = scene.plan();
        assert!(matches!(actions[..], [Action::Land { .. }]), "{actions:?}");
    }
    assert_eq!(scene.queue.cancel(entry, now), Err(MergeError::Landing(entry)));
    // A failed try does not mean that no process is landing it.
    scene.report(Report::Fault { entry, message: "denied".into() });
    scene.pass(5);
    let actions = scene.plan();
    assert!(matches!(actions[..], [Action::Land { .. }]), "{actions:?}");
    // From a base that moved it can no longer land.
    scene.set_base(&oid(101));
    scene.plan();
    assert_eq!(scene.queue.tally.removed["branch_deleted"], 1);
}

#[test]
fn a_late_run_of_an_old_candidate_is_stopped_and_still_counted() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    let actions = scene.plan();
    scene.set_base(&oid(101));
    scene.plan();
    scene.act(&actions);
    assert_eq!(scene.queue.stopping.len(), 1);
    assert_eq!(scene.queue.active_checks(), 1);
}

#[test]
fn a_late_landing_report_of_another_candidate_is_ignored() {
    let old = merged(&oid(100), &oid(1)).commit;
    // It landed; before its process could say so, the base was forced elsewhere and the change built onto
    // that.
    let mut scene = ready();
    scene.plan();
    scene.set_base(&oid(101));
    scene.step();
    let entry = scene.first();
    assert_eq!(scene.status(), Some(Status::Checking));
    assert!(
        !scene.report(Report::Landed { entry, commit: old.clone() }),
        "an older candidate, while checking"
    );
    scene.step();
    scene.end_runs(|_, _| passed());
    scene.plan();
    assert_eq!(scene.status(), Some(Status::Ready));
    assert!(!scene.report(Report::Landed { entry, commit: old }), "an older candidate, once ready");
    assert_eq!((landed(&scene), scene.first()), (0, entry));
    let new = merged(&oid(101), &oid(1)).commit;
    assert!(scene.report(Report::Landed { entry, commit: new.clone() }));
    assert!(!scene.report(Report::Landed { entry, commit: new }), "and the right one counts once");
    assert_eq!((landed(&scene), scene.queue.tally.landed), (1, 1));
}

#[test]
fn a_candidate_that_is_still_checked_is_not_landed_by_a_report() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    let (entry, commit) = (scene.first(), merged(&oid(100), &oid(1)).commit);
    assert!(!scene.report(Report::Landed { entry, commit }));
    assert_eq!((landed(&scene), scene.status()), (0, Some(Status::Checking)));
}

#[test]
fn a_transient_landing_error_is_retried_and_ejects_no_entry() {
    let mut scene = ready();
    scene.plan();
    scene.report(Report::Fault { entry: scene.first(), message: "cannot lock ref".into() });
    assert_eq!((scene.status(), scene.plan().len()), (Some(Status::Ready), 0));
    scene.pass(5);
    assert_eq!(scene.plan().len(), 1);
}

#[test]
fn no_more_checks_start_than_there_are_slots() {
    let mut scene = Scene::new(&["a"], &["one", "two", "three"]);
    scene.step();
    scene.seen.slots = 2;
    let actions = scene.step();
    assert_eq!(actions.len(), 2);
    scene.seen.slots = 0;
    assert_eq!(scene.step(), []);
    scene.seen.slots = 1;
    assert_eq!(scene.step().len(), 1);
}

#[test]
fn a_run_whose_task_is_not_known_is_requested_with_the_same_number() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    let first = scene.plan();
    scene.seen.slots = 0;
    assert_eq!(scene.plan(), first, "and takes no second slot");
}

#[test]
fn a_check_without_progress_times_out_and_counts_until_it_has_stopped() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    scene.pass(3599);
    assert_eq!(scene.plan(), []);
    scene.pass(1);
    scene.seen.slots = 0;
    let actions = scene.plan();
    assert!(matches!(actions[..], [Action::StopCheck { .. }]), "{actions:?}");
    assert_eq!(scene.queue.active_checks(), 1);
    scene.act(&actions);
    scene.plan();
    assert_eq!(scene.queue.active_checks(), 0);
}

#[test]
fn a_check_that_renews_its_lease_is_not_timed_out() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    scene.pass(3599);
    let task = scene.queue.entries[0].checks[0].runs[0].task.unwrap();
    scene.seen.runs.insert(task, RunSeen::Active { last_seen_at: scene.now });
    scene.pass(3599);
    assert_eq!(scene.plan(), []);
}

#[test]
fn a_candidate_lands_while_its_control_run_is_still_active() {
    let mut scene = Scene::new(&["a"], &["unit"]);
    scene.step();
    scene.step();
    scene.end_runs(|_, _| failed());
    scene.step();
    let retry = scene.queue.entries[0].checks[0].runs.iter().rfind(|run| run.on == CheckTarget::Candidate);
    scene.seen.runs.insert(retry.unwrap().task.unwrap(), RunSeen::Ended(passed()));
    let actions = scene.plan();
    assert!(matches!(actions[..], [Action::StopCheck { .. }, Action::Land { .. }]), "{actions:?}");
    assert_eq!(scene.queue.tally.flaky, 1);
}
