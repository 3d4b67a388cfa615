//! How attempts end: succeed, fail, time_out, expire_lease, release, snooze, cancel.

use bytes::Bytes;
use weaver_core::id::ProcessId;
use weaver_core::lease::Renewal;
use weaver_core::lifecycle::{Command, OverdueReason, Refused, Transition, decide, renew};
use weaver_core::outcome::{Outcome, RESULT_MAX_BYTES, Retry};
use weaver_core::retry::{DELAY_MAX, RetryPolicy};
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, TaskState};

use crate::life::{Life, SECOND, TTL, task};

/// Leases it and ends it this way until it is dead; at most ten times, should it never be.
fn until_dead(life: &mut Life, end: impl Fn(&mut Life) -> Transition) {
    for _ in 0..10 {
        if !life.record.state.is_terminal() {
            let _ = life.lease();
            let _ = end(life);
        }
    }
}

#[test]
fn a_success_stores_the_result_and_removes_the_lease() {
    let mut life = Life::running(task());
    let result = Some(Bytes::from_static(b"[1]"));
    let _ = life.finish(Outcome::Succeeded { result: result.clone() });
    assert_eq!((life.record.state, life.record.cause), (TaskState::Succeeded, None));
    assert_eq!((&life.record.result, &life.record.lease), (&result, &None));
    assert_eq!(life.record.finished_at, Some(life.now));
    assert_eq!(life.record.attempts.last().unwrap().outcome, AttemptOutcome::Succeeded);
}

#[test]
fn a_result_too_large_to_store_is_refused_and_the_task_keeps_running() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    let bytes = RESULT_MAX_BYTES + 1;
    let outcome = Outcome::Succeeded { result: Some(vec![b' '; bytes].into()) };
    let refused = Refused::ResultTooLarge { bytes, max_bytes: RESULT_MAX_BYTES };
    assert_eq!(life.ask(Command::Finish { lease: lease.clone(), outcome }), Err(refused));
    assert_eq!(life.record.current_lease(), Some(lease), "so that its worker can report another end");
}

#[test]
fn a_task_that_always_fails_runs_five_times_by_default() {
    let mut life = Life::of(task());
    until_dead(&mut life, |life| life.finish(Outcome::failed("no route to host")));
    assert_eq!((life.record.state, life.record.cause), (TaskState::Dead, Some(Cause::Failed)));
    assert_eq!((life.record.executions, life.record.failures), (5, 5));
    assert_eq!(life.record.last_error.as_deref(), Some("no route to host"));
}

#[test]
fn a_failed_task_waits_as_long_as_its_policy_says() {
    let mut life = Life::running(task().retry(RetryPolicy::Fixed { delay: 90 * SECOND }));
    let _ = life.finish(Outcome::failed("no route to host"));
    assert_eq!((life.record.state, life.record.cause), (TaskState::RetryScheduled, Some(Cause::Failed)));
    assert_eq!(life.record.next_run_at(), Some(life.now.saturating_add(90 * SECOND)));
}

#[test]
fn a_handler_may_choose_its_own_delay_up_to_the_maximum() {
    for (requested, granted) in [(7 * SECOND, 7 * SECOND), (2 * DELAY_MAX, DELAY_MAX)] {
        let mut life = Life::running(task());
        let _ = life.finish(Outcome::Failed { error: "busy".into(), retry: Retry::After(requested) });
        assert_eq!(life.record.next_run_at(), Some(life.now.saturating_add(granted)));
    }
}

#[test]
fn a_fatal_error_is_not_retried() {
    let mut life = Life::running(task());
    let _ = life.finish(Outcome::fatal("no such address"));
    assert_eq!((life.record.state, life.record.cause), (TaskState::Dead, Some(Cause::Failed)));
    assert_eq!(life.record.failures, 1);
}

#[test]
fn a_task_without_a_retry_policy_is_dead_after_its_first_failure() {
    for outcome in [Outcome::failed("no route to host"), Outcome::TimedOut] {
        let mut life = Life::running(task().retry(RetryPolicy::None));
        let _ = life.finish(outcome);
        assert_eq!((life.record.state, life.record.failures), (TaskState::Dead, 1));
    }
}

#[test]
fn a_timeout_is_charged_like_a_failure_and_says_how_long_it_took() {
    let mut life = Life::running(task().timeout(3 * SECOND).max_attempts(2));
    let _ = life.finish(Outcome::TimedOut);
    assert_eq!((life.record.state, life.record.cause), (TaskState::RetryScheduled, Some(Cause::TimedOut)));
    assert_eq!((life.record.failures, life.record.losses), (1, 0));
    assert_eq!(life.record.last_error.as_deref(), Some("timed out after 3s"));
    let _ = life.lease();
    let _ = life.finish(Outcome::TimedOut);
    assert_eq!((life.record.state, life.record.cause), (TaskState::Dead, Some(Cause::TimedOut)));
}

#[test]
fn an_expired_lease_is_charged_as_a_loss_and_not_as_a_failure() {
    let mut life = Life::running(task());
    let _ = life.expire_lease();
    assert_eq!((life.record.state, life.record.cause), (TaskState::RetryScheduled, Some(Cause::Lost)));
    assert_eq!((life.record.losses, life.record.failures), (1, 0));
    assert_eq!(life.record.ready_at, life.now, "the task is not at fault: it is due at once");
    let ended = life.record.attempts.last().unwrap();
    assert_eq!(ended.outcome, AttemptOutcome::Lost);
    assert!(ended.error.as_deref().unwrap().contains("ada"), "{ended:?} names the worker");
}

#[test]
fn a_task_that_crashes_its_workers_is_dead_on_its_fourth_loss_by_default() {
    let mut life = Life::of(task());
    until_dead(&mut life, Life::expire_lease);
    assert_eq!((life.record.state, life.record.cause), (TaskState::Dead, Some(Cause::Lost)));
    assert_eq!((life.record.losses, life.record.executions, life.record.failures), (4, 4, 0));
}

#[test]
fn failures_and_losses_have_budgets_of_their_own() {
    let mut life = Life::of(task().max_attempts(3).max_losses(2));
    for _ in 0..2 {
        let _ = life.lease();
        let _ = life.finish(Outcome::failed("no route to host"));
        let _ = life.lease();
        let _ = life.expire_lease();
    }
    assert_eq!(life.record.state, TaskState::RetryScheduled);
    assert_eq!((life.record.failures, life.record.losses, life.record.executions), (2, 2, 4));
}

#[test]
fn a_release_charges_nothing() {
    let mut life = Life::of(task().max_attempts(1).max_losses(0));
    for _ in 0..30 {
        let _ = life.lease();
        let _ = life.finish(Outcome::Released);
        assert_eq!(
            (life.record.state, life.record.cause),
            (TaskState::RetryScheduled, Some(Cause::Released))
        );
        assert_eq!(life.record.ready_at, life.now, "it is due at once");
    }
    assert_eq!((life.record.failures, life.record.losses, life.record.executions), (0, 0, 30));
}

#[test]
fn a_task_remembers_its_last_twenty_attempts_and_counts_them_all() {
    let mut life = Life::of(task());
    for _ in 0..25 {
        let _ = life.lease();
        let _ = life.finish(Outcome::Released);
    }
    let remembered: Vec<_> = life.record.attempts.iter().map(|ended| ended.attempt).collect();
    assert_eq!(remembered, (6..=25).collect::<Vec<_>>());
    assert_eq!(life.record.attempt, 25);
}

#[test]
fn a_snooze_charges_nothing_and_waits_as_long_as_asked() {
    let mut life = Life::of(task().max_attempts(1).max_losses(0));
    for _ in 0..30 {
        let _ = life.lease();
        let _ = life.finish(Outcome::Snoozed { delay: 60 * SECOND });
        assert_eq!((life.record.state, life.record.cause), (TaskState::RetryScheduled, Some(Cause::Snoozed)));
        assert_eq!(life.record.ready_at, life.now.saturating_add(60 * SECOND));
    }
    assert_eq!((life.record.failures, life.record.losses), (0, 0));
    let _ = life.lease();
    let _ = life.finish(Outcome::Snoozed { delay: 2 * DELAY_MAX });
    assert_eq!(life.record.ready_at, life.now.saturating_add(DELAY_MAX));
}

#[test]
fn a_cancel_of_a_waiting_task_leaves_nothing_behind() {
    let mut life = Life::of(task().serial_key("order-42"));
    let _ = life.ask(Command::Cancel).unwrap();
    assert_eq!(life.record.cause, Some(Cause::Cancelled(CancelReason::User)));
    assert!(!life.record.occupies_slot() && !life.record.holds_key());
    assert!(life.record.attempts.is_empty());
}

#[test]
fn a_cancel_of_a_running_task_leaves_a_cancellation_hold() {
    let mut life = Life::running(task().serial_key("order-42"));
    let lease = life.record.current_lease();
    let _ = life.ask(Command::Cancel).unwrap();
    assert_eq!((life.record.state, life.record.finished_at), (TaskState::Cancelled, Some(life.now)));
    assert_eq!(life.record.hold(), lease, "until its handler has stopped");
    assert_eq!(life.record.current_lease(), None);
    assert!(life.record.occupies_slot() && life.record.holds_key());
    assert_eq!(life.record.attempts.last().unwrap().outcome, AttemptOutcome::Cancelled);
}

#[test]
fn a_schedule_that_replaces_a_run_cancels_it_the_same_way() {
    let mut life = Life::running(task());
    let _ = life.ask(Command::Replace).unwrap();
    assert_eq!(life.record.cause, Some(Cause::Cancelled(CancelReason::Replaced)));
    assert!(life.record.hold().is_some());
}

#[test]
fn a_handler_that_cancels_its_task_has_stopped_and_holds_nothing() {
    let mut life = Life::running(task().serial_key("order-42"));
    let _ = life.finish(Outcome::Cancelled { message: "unsubscribed".into() });
    assert_eq!(life.record.cause, Some(Cause::Cancelled(CancelReason::Handler)));
    assert_eq!(life.record.last_error.as_deref(), Some("unsubscribed"));
    assert!(!life.record.occupies_slot() && !life.record.holds_key());
}

#[test]
fn an_assigned_task_that_is_cancelled_holds_nothing() {
    let mut life = Life::of(task().serial_key("order-42"));
    let _ = life.assign("ada", 1).unwrap();
    assert!(life.record.occupies_slot() && life.record.holds_key());
    let _ = life.ask(Command::Cancel).unwrap();
    assert!(!life.record.occupies_slot() && !life.record.holds_key());
}

#[test]
fn a_serial_key_is_held_through_a_retry_wait_but_the_slot_is_not() {
    let mut life = Life::running(task().serial_key("order-42"));
    let _ = life.finish(Outcome::failed("no route to host"));
    assert!(life.record.holds_key() && !life.record.occupies_slot());
}

#[test]
fn a_hold_does_not_expire_by_a_transition() {
    let mut life = Life::running(task());
    let _ = life.ask(Command::Cancel).unwrap();
    life.now = life.now.saturating_add(2 * TTL);
    for why in [OverdueReason::Hold, OverdueReason::Lease, OverdueReason::ExpiresAt] {
        assert!(life.ask(Command::Expire(why)).is_err());
    }
}

#[test]
fn a_record_that_runs_without_a_lease_is_lost_like_one_whose_lease_expired() {
    for (max_losses, ends) in [(3, TaskState::RetryScheduled), (0, TaskState::Dead)] {
        let mut life = Life::running(task().max_losses(max_losses));
        life.record.lease = None;
        let lost = life.ask(Command::Expire(OverdueReason::Lease)).expect("nothing else ends it");
        assert_eq!((life.record.state, life.record.cause), (ends, Some(Cause::Lost)));
        assert_eq!((life.record.losses, life.record.executions), (1, 1), "{lost:?}");
        assert!(life.record.last_error.as_deref().unwrap().contains("without a lease"));
    }
}

#[test]
fn a_process_that_ended_loses_its_leases_as_if_they_had_expired() {
    for max_losses in [3, 0] {
        let mut life = Life::running(task().max_losses(max_losses));
        let process = life.record.lease.as_ref().unwrap().token.process();
        let expired = decide(&life.record, Command::Expire(OverdueReason::Lease), life.now).unwrap();
        let ended = life.ask(Command::HolderEnded { process }).expect("it runs");
        assert!(ended.error.as_deref().unwrap().contains("ended without a report"));
        assert_eq!(
            Transition { error: expired.error.clone(), ..ended },
            expired,
            "the same charge and state"
        );
    }
}

#[test]
fn a_process_that_ended_loses_neither_leases_of_others_nor_renewed_ones() {
    let mut life = Life::running(task());
    let process = life.record.lease.as_ref().unwrap().token.process();
    let other = ProcessId(!process.0);
    let refused = life.ask(Command::HolderEnded { process: other });
    assert!(matches!(refused, Err(Refused::HeldElsewhere { .. })), "{refused:?}");
    let ended = decide(&life.record, Command::HolderEnded { process }, life.now).unwrap();
    let renewal = Renewal::of(life.record.current_lease().unwrap());
    let _ = renew(&mut life.record, renewal, life.now);
    assert!(!ended.fits(&life.record), "it was decided on an older renewal");
    life.record.lease = None;
    assert!(life.ask(Command::HolderEnded { process }).is_err(), "no process holds it");
}
