//! G6, not before time: nothing starts before it is due, and everything can from that very moment.

use std::time::Duration;

use weaver_core::lifecycle::Command;
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{Cause, TaskState};

use super::cases;
use crate::bed::{Bed, seconds, task};

const INSTANT: Duration = Duration::from_micros(1);

async fn a_task_is_leased_at_its_time_and_not_one_microsecond_before(bed: Bed) {
    let run_at = bed.now().await.saturating_add(seconds(10));
    let key = bed.enqueue(task().run_at(run_at)).await;
    due_after(&bed, seconds(10)).await;
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn a_delay_counts_from_when_the_task_was_stored(bed: Bed) {
    bed.advance(seconds(3)).await;
    let key = bed.enqueue(task().delay(seconds(10))).await;
    due_after(&bed, seconds(10)).await;
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn a_due_task_keeps_its_state_until_it_starts(bed: Bed) {
    let key = bed.enqueue(task().delay(seconds(1))).await;
    bed.advance(seconds(2)).await;
    let record = bed.record(&key).await;
    assert_eq!((record.state, record.version.0), (TaskState::Scheduled, 1));
}

async fn delayed_tasks_come_one_by_one_as_their_time_comes(bed: Bed) {
    let tasks = (1..=20).map(|delay_s| task().delay(seconds(delay_s))).collect();
    for key in bed.enqueue_all(tasks).await {
        assert!(bed.lease(10).await.is_empty());
        bed.advance(seconds(1)).await;
        assert_eq!(bed.lease_keys(10).await, [key]);
    }
}

async fn a_task_far_in_the_future_does_come(bed: Bed) {
    let key = bed.enqueue(task().delay(seconds(300 * 24 * 3600))).await;
    bed.enqueue(task().delay(seconds(301 * 24 * 3600))).await;
    due_after(&bed, seconds(300 * 24 * 3600)).await;
    assert_eq!(bed.lease_keys(2).await, [key]);
}

async fn a_failed_task_is_not_started_before_its_policy_says(bed: Bed) {
    let key = bed.enqueue(task().retry(RetryPolicy::Fixed { delay: seconds(10) })).await;
    fail(&bed, Retry::ByPolicy).await;
    due_after(&bed, seconds(10)).await;
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn a_failed_task_is_not_started_before_its_handler_wishes(bed: Bed) {
    let key = bed.enqueue(task().retry(RetryPolicy::Fixed { delay: seconds(10) })).await;
    fail(&bed, Retry::After(seconds(20))).await;
    due_after(&bed, seconds(20)).await;
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn a_retry_counts_from_when_the_end_was_stored(bed: Bed) {
    bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    bed.advance(seconds(7)).await;
    bed.end(&leased, Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(10)) }).await;
    let record = bed.record(&leased.lease.key).await;
    assert_eq!(record.next_run_at(), Some(bed.now().await.saturating_add(seconds(10))));
    due_after(&bed, seconds(10)).await;
}

async fn a_snoozed_task_comes_back_when_it_said(bed: Bed) {
    let key = bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Snoozed { delay: seconds(60) }).await;
    let record = bed.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Snoozed)));
    due_after(&bed, seconds(60)).await;
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn a_released_task_is_due_at_once(bed: Bed) {
    let key = bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Released).await;
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn run_now_makes_a_scheduled_task_due(bed: Bed) {
    let key = bed.enqueue(task().delay(seconds(3600))).await;
    bed.advance(seconds(5)).await;
    bed.apply(&key, Command::RunNow).await;
    let record = bed.record(&key).await;
    assert_eq!((record.state, record.ready_at), (TaskState::Scheduled, bed.now().await));
    assert_eq!(record.version.0, 2);
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn run_now_makes_a_retry_due_and_keeps_its_cause(bed: Bed) {
    let key = bed.enqueue(task()).await;
    fail(&bed, Retry::After(seconds(3600))).await;
    bed.apply(&key, Command::RunNow).await;
    let record = bed.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Failed)));
    assert_eq!(bed.lease_keys(1).await, [key]);
}

async fn run_now_does_not_bring_the_old_time_back(bed: Bed) {
    let key = bed.enqueue(task().delay(seconds(10))).await;
    bed.apply(&key, Command::RunNow).await;
    let leased = bed.lease_one().await;
    bed.succeed(&leased).await;
    bed.advance(seconds(20)).await;
    assert!(bed.lease(1).await.is_empty());
    assert_eq!(bed.record(&key).await.executions, 1);
}

/// Nothing can be leased until exactly this long from now.
async fn due_after(bed: &Bed, span: Duration) {
    assert!(bed.lease(1).await.is_empty(), "leased at once");
    bed.advance(span - INSTANT).await;
    assert!(bed.lease(1).await.is_empty(), "leased too early");
    bed.advance(INSTANT).await;
}

async fn fail(bed: &Bed, retry: Retry) {
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Failed { error: "no".into(), retry }).await;
}

cases![
    a_task_is_leased_at_its_time_and_not_one_microsecond_before,
    a_delay_counts_from_when_the_task_was_stored,
    a_due_task_keeps_its_state_until_it_starts,
    delayed_tasks_come_one_by_one_as_their_time_comes,
    a_task_far_in_the_future_does_come,
    a_failed_task_is_not_started_before_its_policy_says,
    a_failed_task_is_not_started_before_its_handler_wishes,
    a_retry_counts_from_when_the_end_was_stored,
    a_snoozed_task_comes_back_when_it_said,
    a_released_task_is_due_at_once,
    run_now_makes_a_scheduled_task_due,
    run_now_makes_a_retry_due_and_keeps_its_cause,
    run_now_does_not_bring_the_old_time_back,
];
