//! How tasks are admitted and started: admit, lease, assign, start, orphan, abandon_orphan, expire, run_now.

use weaver_core::id::Epoch;
use weaver_core::lifecycle::{Command, OrphanCause, OverdueReason, Refused, Verb};
use weaver_core::outcome::Outcome;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, TaskState};

use crate::life::{BEGIN, Life, SECOND, task, worker};

#[test]
fn a_new_task_is_queued_and_one_with_a_delay_is_scheduled() {
    assert_eq!(Life::of(task()).record.state, TaskState::Queued);
    let scheduled = Life::of(task().delay(60 * SECOND)).record;
    assert_eq!(scheduled.state, TaskState::Scheduled);
    assert_eq!(scheduled.next_run_at(), Some(BEGIN.saturating_add(60 * SECOND)));
}

#[test]
fn a_time_to_run_at_that_has_passed_means_at_once() {
    let record = Life::of(task().run_at(BEGIN.saturating_sub(60 * SECOND))).record;
    assert_eq!((record.state, record.ready_at), (TaskState::Queued, BEGIN));
}

#[test]
fn a_lease_assigns_and_starts_in_one_step() {
    let mut life = Life::of(task());
    let lease = life.lease();
    let record = &life.record;
    assert_eq!(record.state, TaskState::Running);
    assert_eq!((record.attempt, record.executions), (1, 1));
    assert_eq!((lease.version, lease.epoch, lease.attempt), (record.version, Epoch(0), 1));
    assert_eq!(record.first_started_at, Some(BEGIN));
}

#[test]
fn a_scheduled_task_is_not_leased_before_its_time() {
    let mut life = Life::of(task().delay(60 * SECOND));
    let ready_at = life.record.ready_at;
    life.now = ready_at.saturating_sub(SECOND);
    assert_eq!(life.ask(Command::Lease(life.grant("ada"))), Err(Refused::NotDue { ready_at }));
    assert_eq!(life.assign("ada", 1), Err(Refused::NotDue { ready_at }));
    life.now = ready_at;
    assert!(life.ask(Command::Lease(life.grant("ada"))).is_ok());
}

#[test]
fn an_expired_task_cannot_be_leased() {
    let expires_at = BEGIN.saturating_add(60 * SECOND);
    let mut life = Life::of(task().expires_at(expires_at));
    life.now = expires_at;
    assert_eq!(life.ask(Command::Lease(life.grant("ada"))), Err(Refused::Expired { expires_at }));
    assert_eq!(life.assign("ada", 1), Err(Refused::Expired { expires_at }));
    let _ = life.ask(Command::Expire(OverdueReason::ExpiresAt)).unwrap();
    assert_eq!(life.record.state, TaskState::Cancelled);
    assert_eq!(life.record.cause, Some(Cause::Cancelled(CancelReason::Expired)));
}

#[test]
fn a_task_does_not_expire_early_or_after_its_first_start() {
    let expires_at = BEGIN.saturating_add(60 * SECOND);
    let mut life = Life::of(task().expires_at(expires_at));
    assert_eq!(life.ask(Command::Expire(OverdueReason::ExpiresAt)), Err(Refused::NotExpired));
    let _ = life.lease();
    let _ = life.finish(Outcome::failed("no route to host"));
    life.now = expires_at.saturating_add(60 * SECOND);
    assert_eq!(life.ask(Command::Expire(OverdueReason::ExpiresAt)), Err(Refused::NotExpired));
    let _ = life.lease();
}

#[test]
fn an_assigned_task_that_expires_closes_its_attempt() {
    let expires_at = BEGIN.saturating_add(60 * SECOND);
    let mut life = Life::of(task().expires_at(expires_at));
    let _ = life.assign("ada", 1).unwrap();
    life.now = expires_at;
    let _ = life.ask(Command::Expire(OverdueReason::ExpiresAt)).unwrap();
    let ended = life.record.attempts.last().unwrap();
    assert_eq!((ended.outcome, ended.started_at), (AttemptOutcome::Cancelled, None));
    assert_eq!(life.record.assignment, None);
}

#[test]
fn an_assigned_task_is_not_started_for_the_first_time_after_its_expiry() {
    let expires_at = BEGIN.saturating_add(60 * SECOND);
    let mut life = Life::of(task().expires_at(expires_at));
    let _ = life.assign("ada", 1).unwrap();
    life.now = expires_at;
    assert_eq!(life.start("ada"), Err(Refused::Expired { expires_at }));
}

#[test]
fn an_assigned_task_is_started_only_by_its_worker() {
    let mut life = Life::of(task());
    let _ = life.assign("ada", 7).unwrap();
    assert_eq!(life.start("bob"), Err(Refused::AssignedElsewhere { worker: worker("ada") }));
    let lease = life.start("ada").unwrap();
    assert_eq!(lease.epoch, Epoch(7), "the leader's epoch goes into the lease");
    assert_eq!(life.record.state, TaskState::Running);
}

#[test]
fn an_assigned_start_is_an_execution_but_not_another_attempt() {
    let mut life = Life::of(task());
    let _ = life.assign("ada", 1).unwrap();
    assert_eq!((life.record.attempt, life.record.executions), (1, 0));
    let _ = life.start("ada").unwrap();
    assert_eq!((life.record.attempt, life.record.executions), (1, 1));
}

#[test]
fn an_assigned_task_cannot_be_pulled_or_assigned_again() {
    let mut life = Life::of(task());
    let _ = life.assign("ada", 1).unwrap();
    let refused = |verb| Err(Refused::NotAllowed { from: TaskState::Assigned, verb });
    assert_eq!(life.ask(Command::Lease(life.grant("ada"))), refused(Verb::Lease));
    assert_eq!(life.assign("bob", 2), refused(Verb::Assign));
}

#[test]
fn an_orphan_is_charged_as_a_loss_and_assigned_again_as_another_attempt() {
    let mut life = Life::of(task());
    let _ = life.assign("ada", 1).unwrap();
    let _ = life.ask(Command::Orphan(OrphanCause::Silent)).unwrap();
    assert_eq!((life.record.state, life.record.losses), (TaskState::Orphaned, 1));
    assert_eq!((life.record.failures, life.record.executions), (0, 0));
    assert_eq!(life.record.attempts[0].outcome, AttemptOutcome::Orphaned);
    assert_eq!(life.start("ada"), Err(Refused::NotAllowed { from: TaskState::Orphaned, verb: Verb::Start }));
    let _ = life.assign("bob", 2).unwrap();
    assert_eq!((life.record.state, life.record.attempt), (TaskState::Assigned, 2));
}

#[test]
fn an_orphan_is_abandoned_exactly_when_max_losses_is_exceeded() {
    let mut life = Life::of(task().max_losses(1));
    let _ = life.assign("ada", 1).unwrap();
    let _ = life.ask(Command::Orphan(OrphanCause::Silent)).unwrap();
    assert_eq!(life.ask(Command::AbandonOrphan), Err(Refused::LossBudgetLeft { losses: 1, max_losses: 1 }));
    let _ = life.assign("bob", 1).unwrap();
    let _ = life.ask(Command::Orphan(OrphanCause::Silent)).unwrap();
    assert_eq!(life.assign("eve", 1), Err(Refused::LossBudgetSpent { max_losses: 1 }));
    let _ = life.ask(Command::AbandonOrphan).unwrap();
    assert_eq!((life.record.state, life.record.cause), (TaskState::Dead, Some(Cause::Lost)));
    assert_eq!(life.record.losses, 2, "abandoning it is not another loss");
}

#[test]
fn an_assignment_is_taken_from_a_worker_that_left_drained_or_was_detached_without_a_charge() {
    for cause in OrphanCause::ALL.into_iter().filter(|cause| *cause != OrphanCause::Silent) {
        let mut life = Life::of(task().max_losses(0));
        let _ = life.assign("ada", 1).unwrap();
        let _ = life.ask(Command::Orphan(cause)).unwrap();
        assert_eq!((life.record.state, life.record.losses), (TaskState::Orphaned, 0), "{cause:?}");
        let error = life.record.attempts[0].error.as_deref().unwrap_or_default();
        assert_eq!(error, format!("worker ada did not start it: {cause}"));
        let _ = life.assign("bob", 1).unwrap();
    }
}

#[test]
fn a_task_that_runs_once_loses_nothing_with_a_worker_that_never_started_it() {
    let mut life = Life::of(task().max_attempts(1).max_losses(0));
    let _ = life.assign("ada", 1).unwrap();
    let _ = life.ask(Command::Orphan(OrphanCause::Silent)).unwrap();
    assert_eq!((life.record.state, life.record.losses), (TaskState::Orphaned, 0));
    let _ = life.assign("bob", 1).unwrap();
    let _ = life.start("bob").unwrap();
}

#[test]
fn an_orphan_is_released_for_any_worker_unless_its_losses_are_spent() {
    let mut life = Life::of(task().max_losses(0));
    let _ = life.assign("ada", 1).unwrap();
    assert_eq!(
        life.ask(Command::ReleaseOrphan),
        Err(Refused::NotAllowed { from: TaskState::Assigned, verb: Verb::ReleaseOrphan })
    );
    let _ = life.ask(Command::Orphan(OrphanCause::Left)).unwrap();
    let _ = life.ask(Command::ReleaseOrphan).unwrap();
    assert_eq!((life.record.state, life.record.cause), (TaskState::RetryScheduled, Some(Cause::Released)));
    assert_eq!((life.record.ready_at, life.record.losses), (life.now, 0));
    assert_eq!(life.lease().attempt, 2);

    let mut spent = Life::of(task().max_losses(0));
    let _ = spent.assign("ada", 1).unwrap();
    let _ = spent.ask(Command::Orphan(OrphanCause::Silent)).unwrap();
    assert_eq!(spent.ask(Command::ReleaseOrphan), Err(Refused::LossBudgetSpent { max_losses: 0 }));
}

#[test]
fn run_now_makes_a_waiting_task_due_and_keeps_its_state() {
    let mut life = Life::of(task().delay(3600 * SECOND));
    let _ = life.ask(Command::RunNow).unwrap();
    assert_eq!((life.record.state, life.record.ready_at), (TaskState::Scheduled, life.now));
    let _ = life.lease();
    let _ = life.finish(Outcome::Snoozed { delay: 3600 * SECOND });
    let _ = life.ask(Command::RunNow).unwrap();
    assert_eq!((life.record.state, life.record.ready_at), (TaskState::RetryScheduled, life.now));
    assert_eq!(life.record.cause, Some(Cause::Snoozed), "why it waits has not changed");
}
