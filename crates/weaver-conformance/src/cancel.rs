//! G11, cancellation: a cancelled task is terminal at once. A worker that waits for cancellations is woken,
//! and learns of it when it renews. The cancellation hold keeps slot and serial key until the worker confirms
//! that it stopped, or its lease expires.

use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::{Lease, Leased, Renewed};
use weaver_core::lifecycle::{Command, OverdueReason};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, TaskRecord, TaskState};

use super::cases;
use super::waiter::Waiter;
use weaver_testkit::harness::{Harness, end_of, seconds, task};

async fn a_queued_task_is_cancelled_and_never_leased(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.cancel(&key).await;
    let record = harness.record(&key).await;
    expect_cancelled(&record, CancelReason::User);
    assert_eq!((record.version.0, record.finished_at), (2, Some(harness.now().await)));
    assert!(record.hold().is_none() && record.attempts.is_empty());
    assert!(harness.lease(10).await.is_empty());
}

async fn a_cancelled_scheduled_task_is_never_leased(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(10))).await;
    harness.cancel(&key).await;
    expect_cancelled(&harness.record(&key).await, CancelReason::User);
    harness.advance(seconds(20)).await;
    assert!(harness.lease(10).await.is_empty());
}

async fn a_cancelled_retry_is_never_leased(harness: Harness) {
    let leased = running(&harness).await;
    harness.end(&leased, Outcome::Snoozed { delay: seconds(10) }).await;
    harness.cancel(&leased.lease.key).await;
    let record = harness.record(&leased.lease.key).await;
    expect_cancelled(&record, CancelReason::User);
    assert!(record.hold().is_none());
    harness.advance(seconds(20)).await;
    assert!(harness.lease(10).await.is_empty());
}

async fn a_running_task_is_terminal_at_once_and_keeps_a_hold(harness: Harness) {
    let (key, leased) = cancelled(&harness).await;
    let record = harness.record(&key).await;
    expect_cancelled(&record, CancelReason::User);
    assert_eq!((record.version.0, record.finished_at), (3, Some(harness.now().await)));
    assert_eq!(record.hold(), Some(leased.lease));
    assert_eq!(record.attempts[0].outcome, AttemptOutcome::Cancelled);
    assert_eq!((record.failures, record.losses), (0, 0));
}

async fn a_replaced_task_is_cancelled_as_replaced(harness: Harness) {
    let waiting = harness.enqueue(task().delay(seconds(10))).await;
    let leased = running(&harness).await;
    for key in [&waiting, &leased.lease.key] {
        harness.apply(key, Command::Replace).await;
        expect_cancelled(&harness.record(key).await, CancelReason::Replaced);
    }
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Cancelled);
}

async fn renewing_reports_the_cancellation_and_changes_nothing(harness: Harness) {
    let (key, leased) = cancelled(&harness).await;
    let before = harness.record(&key).await;
    for _ in 0..3 {
        harness.advance(seconds(5)).await;
        assert_eq!(harness.renew(&leased.lease).await, Renewed::Cancelled);
    }
    assert_eq!(harness.record(&key).await, before, "renewing does not prolong a hold");
}

async fn renewing_reports_the_cancellation_even_after_the_hold_has_ended(harness: Harness) {
    let (_, leased) = cancelled(&harness).await;
    harness.advance(seconds(31)).await;
    assert_eq!(harness.maintain().await, 1);
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Cancelled);
}

async fn an_older_lease_of_a_cancelled_task_is_lost_and_not_cancelled(harness: Harness) {
    let old = running(&harness).await;
    harness.end(&old, Outcome::Released).await;
    harness.lease_one().await;
    harness.cancel(&old.lease.key).await;
    assert_eq!(harness.renew(&old.lease).await, Renewed::Lost);
}

async fn a_report_after_the_cancel_is_stale(harness: Harness) {
    let (key, leased) = cancelled(&harness).await;
    let before = harness.record(&key).await;
    let own_cancel = Outcome::Cancelled { message: "I stop".into() };
    let others = [Outcome::DONE, Outcome::failed("no"), Outcome::Released, Outcome::TimedOut];
    for outcome in others.into_iter().chain([own_cancel]) {
        assert_eq!(harness.commit_one(end_of(&leased, outcome)).await, Committed::Stale);
    }
    assert_eq!(harness.record(&key).await, before);
}

async fn a_cancel_decided_on_an_older_version_is_stale(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let decided = harness.decided(&key, Command::Cancel).await;
    let leased = harness.lease_one().await;
    assert_eq!(harness.commit_one(decided).await, Committed::Stale);
    harness.succeed(&leased).await;
}

async fn the_same_cancel_twice_was_already_applied(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let decided = harness.decided(&key, Command::Cancel).await;
    harness.cancel(&key).await;
    assert_eq!(harness.commit_one(decided).await, Committed::AlreadyApplied);
}

async fn confirming_ends_the_hold_and_touches_nothing_else(harness: Harness) {
    let (key, leased) = cancelled(&harness).await;
    let before = harness.record(&key).await;
    harness.advance(seconds(5)).await;
    harness.confirm(&leased.lease).await;
    let after = harness.record(&key).await;
    assert!(after.hold().is_none());
    assert_eq!(after, TaskRecord { lease: None, ..before });
}

async fn confirming_may_be_repeated(harness: Harness) {
    let (key, leased) = cancelled(&harness).await;
    harness.confirm(&leased.lease).await;
    let before = harness.record(&key).await;
    harness.confirm(&leased.lease).await;
    harness.store.confirm_stopped(vec![]).await.expect("nothing is wrong with it");
    assert_eq!(harness.record(&key).await, before);
}

async fn confirming_a_running_lease_does_nothing(harness: Harness) {
    let leased = running(&harness).await;
    harness.confirm(&leased.lease).await;
    assert_eq!(harness.record(&leased.lease.key).await, leased.record);
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
}

async fn confirming_with_another_token_does_nothing(harness: Harness) {
    let (key, leased) = cancelled(&harness).await;
    harness.confirm(&Lease { token: LeaseToken(u128::MAX), ..leased.lease.clone() }).await;
    assert_eq!(harness.record(&key).await.hold(), Some(leased.lease));
}

async fn several_confirmations_each_end_their_hold(harness: Harness) {
    harness.enqueue_all(vec![task(); 3]).await;
    let leased = harness.lease(3).await;
    for leased in &leased[..2] {
        harness.cancel(&leased.lease.key).await;
    }
    let leases = leased.iter().map(|leased| leased.lease.clone()).collect();
    harness.store.confirm_stopped(leases).await.expect("the store answers");
    assert!(harness.record(&leased[0].lease.key).await.hold().is_none());
    assert!(harness.record(&leased[1].lease.key).await.hold().is_none());
    harness.succeed(&leased[2]).await;
}

async fn a_cancellation_hold_is_overdue_when_its_lease_has_expired(harness: Harness) {
    let (key, _) = cancelled(&harness).await;
    harness.advance(seconds(20)).await;
    assert!(harness.overdue().await.is_empty());
    harness.advance(seconds(11)).await;
    assert_eq!(harness.overdue().await, [(key.clone(), OverdueReason::Hold)]);
    assert_eq!(harness.maintain().await, 1);
    let record = harness.record(&key).await;
    assert!(record.hold().is_none());
    assert_eq!(record.version.0, 3);
    assert!(harness.overdue().await.is_empty());
}

async fn a_confirmed_hold_is_never_overdue(harness: Harness) {
    let (_, leased) = cancelled(&harness).await;
    harness.confirm(&leased.lease).await;
    harness.advance(seconds(3600)).await;
    assert!(harness.overdue().await.is_empty());
}

async fn a_handler_that_cancels_its_own_task_leaves_no_hold(harness: Harness) {
    let leased = running(&harness).await;
    harness.end(&leased, Outcome::Cancelled { message: "not needed".into() }).await;
    let record = harness.record(&leased.lease.key).await;
    expect_cancelled(&record, CancelReason::Handler);
    assert_eq!((record.hold(), record.last_error.as_deref()), (None, Some("not needed")));
    harness.advance(seconds(3600)).await;
    assert!(harness.overdue().await.is_empty());
}

async fn repeating_the_lease_call_does_not_grant_a_cancelled_task_again(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let request = harness.request(1);
    harness.lease_as(request.clone()).await;
    harness.cancel(&key).await;
    assert!(harness.lease_as(request).await.is_empty());
}

async fn a_wait_for_the_cancellation_of_a_lease_is_woken_by_it(harness: Harness) {
    let (first, second) = (running(&harness).await, running(&harness).await);
    let mut waiter = Waiter::for_cancelled(&harness, &[first.lease.clone(), second.lease.clone()]);
    assert!(waiter.still_waits().await);
    harness.cancel(&second.lease.key).await;
    // As long as a store that can only be polled may take.
    harness.advance(seconds(2)).await;
    waiter.wakes().await;
    let waiter = Waiter::for_cancelled(&harness, &[first.lease, second.lease]);
    waiter.wakes().await; // A cancellation before the wait is not missed.
}

async fn a_wait_for_cancellations_is_not_ended_by_other_transitions(harness: Harness) {
    let (mine, other, third) = (running(&harness).await, running(&harness).await, running(&harness).await);
    let mut waiter = Waiter::for_cancelled(&harness, &[mine.lease.clone(), third.lease.clone()]);
    assert_eq!(harness.renew(&mine.lease).await, Renewed::Extended);
    harness.succeed(&third).await;
    harness.cancel(&other.lease.key).await;
    harness.advance(seconds(2)).await;
    assert!(waiter.still_waits().await);
    harness.advance(seconds(3600)).await;
    waiter.times_out().await;
}

async fn running(harness: &Harness) -> Leased {
    harness.enqueue(task()).await;
    harness.lease_one().await
}

/// A task that was cancelled while it ran.
async fn cancelled(harness: &Harness) -> (TaskKey, Leased) {
    let leased = running(harness).await;
    harness.cancel(&leased.lease.key).await;
    (leased.lease.key.clone(), leased)
}

#[track_caller]
fn expect_cancelled(record: &TaskRecord, reason: CancelReason) {
    assert_eq!((record.state, record.cause), (TaskState::Cancelled, Some(Cause::Cancelled(reason))));
}

cases![
    a_queued_task_is_cancelled_and_never_leased,
    a_cancelled_scheduled_task_is_never_leased,
    a_cancelled_retry_is_never_leased,
    a_running_task_is_terminal_at_once_and_keeps_a_hold,
    a_replaced_task_is_cancelled_as_replaced,
    renewing_reports_the_cancellation_and_changes_nothing,
    renewing_reports_the_cancellation_even_after_the_hold_has_ended,
    an_older_lease_of_a_cancelled_task_is_lost_and_not_cancelled,
    a_report_after_the_cancel_is_stale,
    a_cancel_decided_on_an_older_version_is_stale,
    the_same_cancel_twice_was_already_applied,
    confirming_ends_the_hold_and_touches_nothing_else,
    confirming_may_be_repeated,
    confirming_a_running_lease_does_nothing,
    confirming_with_another_token_does_nothing,
    several_confirmations_each_end_their_hold,
    a_cancellation_hold_is_overdue_when_its_lease_has_expired,
    a_confirmed_hold_is_never_overdue,
    a_handler_that_cancels_its_own_task_leaves_no_hold,
    repeating_the_lease_call_does_not_grant_a_cancelled_task_again,
    a_wait_for_the_cancellation_of_a_lease_is_woken_by_it,
    a_wait_for_cancellations_is_not_ended_by_other_transitions,
];
