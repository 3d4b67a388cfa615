//! G6, not before its time: no task starts before it is due, and every task can from that instant.

use std::time::Duration;

use weaver_core::lifecycle::Command;
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{Cause, TaskState};

use super::cases;
use weaver_testkit::harness::{Harness, seconds, task};

const INSTANT: Duration = Duration::from_micros(1);

async fn a_task_is_leased_at_its_time_and_not_one_microsecond_before(harness: Harness) {
    let run_at = harness.now().await.saturating_add(seconds(10));
    let key = harness.enqueue(task().run_at(run_at)).await;
    due_after(&harness, seconds(10)).await;
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn a_delay_counts_from_when_the_task_was_stored(harness: Harness) {
    harness.advance(seconds(3)).await;
    let key = harness.enqueue(task().delay(seconds(10))).await;
    due_after(&harness, seconds(10)).await;
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn a_due_task_keeps_its_state_until_it_starts(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(1))).await;
    harness.advance(seconds(2)).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.version.0), (TaskState::Scheduled, 1));
}

async fn delayed_tasks_become_due_one_by_one(harness: Harness) {
    let tasks = (1..=20).map(|delay_s| task().delay(seconds(delay_s))).collect();
    for key in harness.enqueue_all(tasks).await {
        assert!(harness.lease(10).await.is_empty());
        harness.advance(seconds(1)).await;
        assert_eq!(harness.lease_keys(10).await, [key]);
    }
}

async fn a_task_far_in_the_future_becomes_due(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(300 * 24 * 3600))).await;
    harness.enqueue(task().delay(seconds(301 * 24 * 3600))).await;
    due_after(&harness, seconds(300 * 24 * 3600)).await;
    assert_eq!(harness.lease_keys(2).await, [key]);
}

async fn a_failed_task_is_not_started_before_its_backoff_is_over(harness: Harness) {
    let key = harness.enqueue(task().retry(RetryPolicy::Fixed { delay: seconds(10) })).await;
    fail(&harness, Retry::ByPolicy).await;
    due_after(&harness, seconds(10)).await;
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn a_failed_task_is_not_started_before_the_handlers_retry_delay(harness: Harness) {
    let key = harness.enqueue(task().retry(RetryPolicy::Fixed { delay: seconds(10) })).await;
    fail(&harness, Retry::After(seconds(20))).await;
    due_after(&harness, seconds(20)).await;
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn a_retry_delay_counts_from_when_the_failure_was_stored(harness: Harness) {
    harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.advance(seconds(7)).await;
    harness.end(&leased, Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(10)) }).await;
    let record = harness.record(&leased.lease.key).await;
    assert_eq!(record.next_run_at(), Some(harness.now().await.saturating_add(seconds(10))));
    due_after(&harness, seconds(10)).await;
}

async fn a_snoozed_task_is_due_after_its_delay(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Snoozed { delay: seconds(60) }).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Snoozed)));
    due_after(&harness, seconds(60)).await;
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn a_released_task_is_due_immediately(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Released).await;
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn run_now_makes_a_scheduled_task_due(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(3600))).await;
    harness.advance(seconds(5)).await;
    harness.apply(&key, Command::RunNow).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.ready_at), (TaskState::Scheduled, harness.now().await));
    assert_eq!(record.version.0, 2);
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn run_now_makes_a_retry_due_and_keeps_its_cause(harness: Harness) {
    let key = harness.enqueue(task()).await;
    fail(&harness, Retry::After(seconds(3600))).await;
    harness.apply(&key, Command::RunNow).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Failed)));
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn run_now_does_not_restore_the_old_time(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(10))).await;
    harness.apply(&key, Command::RunNow).await;
    let leased = harness.lease_one().await;
    harness.succeed(&leased).await;
    harness.advance(seconds(20)).await;
    assert!(harness.lease(1).await.is_empty());
    assert_eq!(harness.record(&key).await.executions, 1);
}

/// Nothing can be leased until exactly this long from now.
async fn due_after(harness: &Harness, span: Duration) {
    assert!(harness.lease(1).await.is_empty(), "leased at once");
    harness.advance(span - INSTANT).await;
    assert!(harness.lease(1).await.is_empty(), "leased too early");
    harness.advance(INSTANT).await;
}

async fn fail(harness: &Harness, retry: Retry) {
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Failed { error: "no".into(), retry }).await;
}

cases![
    a_task_is_leased_at_its_time_and_not_one_microsecond_before,
    a_delay_counts_from_when_the_task_was_stored,
    a_due_task_keeps_its_state_until_it_starts,
    delayed_tasks_become_due_one_by_one,
    a_task_far_in_the_future_becomes_due,
    a_failed_task_is_not_started_before_its_backoff_is_over,
    a_failed_task_is_not_started_before_the_handlers_retry_delay,
    a_retry_delay_counts_from_when_the_failure_was_stored,
    a_snoozed_task_is_due_after_its_delay,
    a_released_task_is_due_immediately,
    run_now_makes_a_scheduled_task_due,
    run_now_makes_a_retry_due_and_keeps_its_cause,
    run_now_does_not_restore_the_old_time,
];
