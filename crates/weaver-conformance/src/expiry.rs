//! `expires_at`: a task that has not started by then never starts; a started task is not affected.

use std::time::Duration;

use weaver_core::id::Epoch;
use weaver_core::lifecycle::{Command, OrphanCause, OverdueReason, Refused, decide};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, NewTask, TaskRecord, TaskState};

use super::cases;
use weaver_testkit::harness::{Harness, seconds, task, worker};

async fn a_task_can_start_until_it_expires(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    harness.advance(seconds(10) - Duration::from_micros(1)).await;
    assert!(harness.overdue().await.is_empty());
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn a_task_cannot_start_from_the_moment_it_expires(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    harness.advance(seconds(10)).await;
    assert!(harness.lease(10).await.is_empty());
    assert_eq!(harness.overdue().await, [(key, OverdueReason::ExpiresAt)]);
}

async fn an_expired_task_is_cancelled_as_expired(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    harness.advance(seconds(11)).await;
    assert_eq!(harness.maintain().await, 1);
    let record = harness.record(&key).await;
    expect_expired(&record);
    assert_eq!((record.executions, record.finished_at), (0, Some(harness.now().await)));
    assert!(harness.overdue().await.is_empty());
}

async fn an_expired_task_does_not_hide_those_behind_it(harness: Harness) {
    harness.enqueue_all(vec![expiring(&harness).await.priority(0); 150]).await;
    let other = harness.enqueue(task()).await;
    harness.advance(seconds(11)).await;
    assert_eq!(harness.lease_keys(10).await, [other]);
}

async fn a_delayed_task_that_expires_before_its_time_is_overdue_then(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await.delay(seconds(60))).await;
    harness.advance(seconds(11)).await;
    assert_eq!(harness.overdue().await, [(key.clone(), OverdueReason::ExpiresAt)]);
    harness.maintain().await;
    expect_expired(&harness.record(&key).await);
    harness.advance(seconds(60)).await;
    assert!(harness.lease(10).await.is_empty());
}

async fn a_task_that_runs_does_not_expire(harness: Harness) {
    harness.enqueue(expiring(&harness).await).await;
    let leased = harness.lease_one().await;
    harness.advance(seconds(11)).await;
    assert!(harness.overdue().await.is_empty());
    harness.succeed(&leased).await;
}

async fn a_task_that_has_started_does_not_expire_while_it_waits_for_a_retry(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Snoozed { delay: seconds(60) }).await;
    harness.advance(seconds(60)).await;
    assert!(harness.overdue().await.is_empty());
    assert_eq!(harness.lease_keys(10).await, [key]);
}

async fn a_task_that_was_lost_after_its_start_does_not_expire(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    harness.lease_one().await;
    harness.lose().await;
    assert!(harness.overdue().await.is_empty());
    assert_eq!(harness.lease_keys(10).await, [key]);
}

async fn a_task_that_was_assigned_but_not_started_does_expire(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    harness.apply(&key, Command::Assign { worker: worker("w"), epoch: Epoch(1) }).await;
    harness.advance(seconds(11)).await;
    assert_eq!(harness.overdue().await, [(key.clone(), OverdueReason::ExpiresAt)]);
    harness.maintain().await;
    let record = harness.record(&key).await;
    expect_expired(&record);
    assert_eq!((record.assignment, record.attempts[0].outcome), (None, AttemptOutcome::Cancelled));
}

async fn an_orphan_that_never_started_does_expire(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    harness.apply(&key, Command::Assign { worker: worker("w"), epoch: Epoch(1) }).await;
    harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    harness.advance(seconds(11)).await;
    assert_eq!(harness.overdue().await, [(key.clone(), OverdueReason::ExpiresAt)]);
    harness.maintain().await;
    expect_expired(&harness.record(&key).await);
}

async fn a_start_between_the_overdue_scan_and_the_write_keeps_the_task(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    let record = harness.record(&key).await;
    let later = harness.now().await.saturating_add(seconds(11));
    let found =
        decide(&record, Command::Expire(OverdueReason::ExpiresAt), later).expect("it expires by then");
    let leased = harness.lease_one().await;
    assert_eq!(harness.commit_one(found).await, Committed::Stale);
    harness.succeed(&leased).await;
}

async fn a_task_that_has_not_expired_is_not_cancelled_as_expired(harness: Harness) {
    let key = harness.enqueue(expiring(&harness).await).await;
    let answer =
        decide(&harness.record(&key).await, Command::Expire(OverdueReason::ExpiresAt), harness.now().await);
    assert_eq!(answer, Err(Refused::NotExpired));
}

async fn an_expired_head_lets_the_next_of_its_key_go_once_it_is_cancelled(harness: Harness) {
    harness.enqueue(expiring(&harness).await.serial_key("k")).await;
    let next = harness.enqueue(task().serial_key("k")).await;
    harness.advance(seconds(11)).await;
    harness.maintain().await;
    assert_eq!(harness.lease_keys(10).await, [next]);
}

/// A task that expires in 10 s.
async fn expiring(harness: &Harness) -> NewTask {
    task().expires_at(harness.now().await.saturating_add(seconds(10)))
}

#[track_caller]
fn expect_expired(record: &TaskRecord) {
    let cause = Some(Cause::Cancelled(CancelReason::Expired));
    assert_eq!((record.state, record.cause), (TaskState::Cancelled, cause));
}

cases![
    a_task_can_start_until_it_expires,
    a_task_cannot_start_from_the_moment_it_expires,
    an_expired_task_is_cancelled_as_expired,
    an_expired_task_does_not_hide_those_behind_it,
    a_delayed_task_that_expires_before_its_time_is_overdue_then,
    a_task_that_runs_does_not_expire,
    a_task_that_has_started_does_not_expire_while_it_waits_for_a_retry,
    a_task_that_was_lost_after_its_start_does_not_expire,
    a_task_that_was_assigned_but_not_started_does_expire,
    an_orphan_that_never_started_does_expire,
    a_start_between_the_overdue_scan_and_the_write_keeps_the_task,
    a_task_that_has_not_expired_is_not_cancelled_as_expired,
    an_expired_head_lets_the_next_of_its_key_go_once_it_is_cancelled,
];
