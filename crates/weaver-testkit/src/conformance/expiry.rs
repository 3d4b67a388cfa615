//! `expires_at`: a task that has not started by then never does; one that has started is not touched by it.

use std::time::Duration;

use weaver_core::id::Epoch;
use weaver_core::lifecycle::{Command, OverdueWhy, Refused, decide};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, NewTask, TaskRecord, TaskState};

use super::cases;
use crate::bed::{Bed, seconds, task, worker};

async fn a_task_can_start_until_it_expires(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    bed.advance(seconds(10) - Duration::from_micros(1)).await;
    assert!(bed.overdue().await.is_empty());
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn a_task_cannot_start_from_the_moment_it_expires(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    bed.advance(seconds(10)).await;
    assert!(bed.lease(10).await.is_empty());
    assert_eq!(bed.overdue().await, [(key, OverdueWhy::ExpiresAt)]);
}

async fn an_expired_task_is_cancelled_as_expired(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    bed.advance(seconds(11)).await;
    assert_eq!(bed.maintain().await, 1);
    let record = bed.record(&key).await;
    expect_expired(&record);
    assert_eq!((record.executions, record.finished_at), (0, Some(bed.now().await)));
    assert!(bed.overdue().await.is_empty());
}

async fn an_expired_task_does_not_hide_those_behind_it(bed: Bed) {
    bed.enqueue_all(vec![expiring(&bed).await.priority(0); 150]).await;
    let other = bed.enqueue(task()).await;
    bed.advance(seconds(11)).await;
    assert_eq!(bed.lease_keys(10).await, [other]);
}

async fn a_delayed_task_that_expires_before_its_time_is_overdue_then(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await.delay(seconds(60))).await;
    bed.advance(seconds(11)).await;
    assert_eq!(bed.overdue().await, [(key.clone(), OverdueWhy::ExpiresAt)]);
    bed.maintain().await;
    expect_expired(&bed.record(&key).await);
    bed.advance(seconds(60)).await;
    assert!(bed.lease(10).await.is_empty());
}

async fn a_task_that_runs_does_not_expire(bed: Bed) {
    bed.enqueue(expiring(&bed).await).await;
    let leased = bed.lease_one().await;
    bed.advance(seconds(11)).await;
    assert!(bed.overdue().await.is_empty());
    bed.succeed(&leased).await;
}

async fn a_task_that_has_started_does_not_expire_while_it_waits_for_a_retry(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Snoozed { delay: seconds(60) }).await;
    bed.advance(seconds(60)).await;
    assert!(bed.overdue().await.is_empty());
    assert_eq!(bed.lease_keys(10).await, [key]);
}

async fn a_task_that_was_lost_after_its_start_does_not_expire(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    bed.lease_one().await;
    bed.lose().await;
    assert!(bed.overdue().await.is_empty());
    assert_eq!(bed.lease_keys(10).await, [key]);
}

async fn a_task_that_was_assigned_but_not_started_does_expire(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    bed.apply(&key, Command::Assign { worker: worker("w"), epoch: Epoch(1) }).await;
    bed.advance(seconds(11)).await;
    assert_eq!(bed.overdue().await, [(key.clone(), OverdueWhy::ExpiresAt)]);
    bed.maintain().await;
    let record = bed.record(&key).await;
    expect_expired(&record);
    assert_eq!((record.assignment, record.attempts[0].outcome), (None, AttemptOutcome::Cancelled));
}

async fn an_orphan_that_never_started_does_expire(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    bed.apply(&key, Command::Assign { worker: worker("w"), epoch: Epoch(1) }).await;
    bed.apply(&key, Command::Orphan).await;
    bed.advance(seconds(11)).await;
    assert_eq!(bed.overdue().await, [(key.clone(), OverdueWhy::ExpiresAt)]);
    bed.maintain().await;
    expect_expired(&bed.record(&key).await);
}

async fn a_start_between_the_finding_and_the_write_saves_the_task(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    let record = bed.record(&key).await;
    let later = bed.now().await.saturating_add(seconds(11));
    let found = decide(&record, Command::Expire(OverdueWhy::ExpiresAt), later).expect("it expires by then");
    let leased = bed.lease_one().await;
    assert_eq!(bed.commit_one(found).await, Committed::Stale);
    bed.succeed(&leased).await;
}

async fn a_task_that_has_not_expired_is_not_cancelled_as_expired(bed: Bed) {
    let key = bed.enqueue(expiring(&bed).await).await;
    let answer = decide(&bed.record(&key).await, Command::Expire(OverdueWhy::ExpiresAt), bed.now().await);
    assert_eq!(answer, Err(Refused::NotExpired));
}

async fn an_expired_head_lets_the_next_of_its_key_go_once_it_is_cancelled(bed: Bed) {
    bed.enqueue(expiring(&bed).await.serial_key("k")).await;
    let next = bed.enqueue(task().serial_key("k")).await;
    bed.advance(seconds(11)).await;
    bed.maintain().await;
    assert_eq!(bed.lease_keys(10).await, [next]);
}

/// A task that expires in 10 s.
async fn expiring(bed: &Bed) -> NewTask {
    task().expires_at(bed.now().await.saturating_add(seconds(10)))
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
    a_start_between_the_finding_and_the_write_saves_the_task,
    a_task_that_has_not_expired_is_not_cancelled_as_expired,
    an_expired_head_lets_the_next_of_its_key_go_once_it_is_cancelled,
];
