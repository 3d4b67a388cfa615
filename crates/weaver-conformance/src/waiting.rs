//! Waiting for work: a waiter is woken as soon as it can lease a task, and not for tasks it cannot lease.

use std::time::Duration;

use weaver_core::lifecycle::Command;
use weaver_core::outcome::Outcome;
use weaver_core::task::NewTask;

use super::cases;
use super::waiter::{Waiter, work};
use weaver_testkit::harness::{Harness, seconds, task};

async fn a_wait_returns_at_once_when_work_is_due(harness: Harness) {
    harness.enqueue(task()).await;
    Waiter::for_work(&harness).wakes().await;
}

async fn a_waiter_is_woken_by_a_new_task(harness: Harness) {
    let waiter = waiting(&harness).await;
    harness.enqueue(task()).await;
    waiter.wakes().await;
    assert_eq!(harness.lease(1).await.len(), 1);
}

async fn a_waiter_is_woken_by_a_new_task_in_any_of_its_queues(harness: Harness) {
    for name in ["a", "b"] {
        let mut waiter = Waiter::new(&harness, work("default", &["a", "b"], None), seconds(60));
        assert!(waiter.still_waits().await);
        harness.enqueue(task().queue(name)).await;
        waiter.wakes().await;
        harness.lease_in("default", &["a", "b"], 1).await;
    }
}

async fn a_waiter_is_woken_exactly_when_the_next_task_becomes_due(harness: Harness) {
    harness.enqueue(task().delay(seconds(10))).await;
    let mut waiter = waiting(&harness).await;
    harness.advance(seconds(10) - Duration::from_micros(1)).await;
    assert!(waiter.still_waits().await);
    harness.advance(Duration::from_micros(1)).await;
    waiter.wakes().await;
    assert_eq!(harness.lease(1).await.len(), 1);
}

async fn a_task_with_an_earlier_time_shortens_the_wait(harness: Harness) {
    harness.enqueue(task().delay(seconds(100))).await;
    let mut waiter = waiting(&harness).await;
    harness.enqueue(task().delay(seconds(10))).await;
    assert!(waiter.still_waits().await);
    harness.advance(seconds(9)).await;
    assert!(waiter.still_waits().await);
    harness.advance(seconds(1)).await;
    waiter.wakes().await;
}

async fn a_task_cancelled_before_its_due_time_wakes_no_waiter(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(10))).await;
    let mut waiter = waiting(&harness).await;
    harness.cancel(&key).await;
    harness.advance(seconds(20)).await;
    assert!(waiter.still_waits().await);
}

async fn a_waiter_is_woken_when_a_task_is_made_due(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(100))).await;
    let waiter = waiting(&harness).await;
    harness.apply(&key, Command::RunNow).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_retry_is_due(harness: Harness) {
    harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let mut waiter = waiting(&harness).await;
    harness.end(&leased, Outcome::Snoozed { delay: seconds(10) }).await;
    assert!(waiter.still_waits().await);
    harness.advance(seconds(10)).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_task_is_released(harness: Harness) {
    harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let waiter = waiting(&harness).await;
    harness.end(&leased, Outcome::Released).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_lease_expiry_is_recorded(harness: Harness) {
    harness.enqueue(task()).await;
    harness.lease_one().await;
    let waiter = waiting(&harness).await;
    harness.lose().await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_queue_is_resumed(harness: Harness) {
    harness.enqueue(task()).await;
    harness.pause("default").await;
    let waiter = waiting(&harness).await;
    harness.reset_queue("default").await;
    waiter.wakes().await;
}

async fn a_task_that_becomes_due_in_a_paused_queue_wakes_no_waiter_until_resume(harness: Harness) {
    harness.enqueue(task().delay(seconds(10))).await;
    harness.pause("default").await;
    let mut waiter = waiting(&harness).await;
    harness.advance(seconds(20)).await;
    assert!(waiter.still_waits().await);
    harness.reset_queue("default").await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_key_is_free(harness: Harness) {
    harness.enqueue_all(vec![task().serial_key("k"); 2]).await;
    let leased = harness.lease_one().await;
    let waiter = waiting(&harness).await;
    harness.succeed(&leased).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_key_is_freed_from_another_queue(harness: Harness) {
    harness.enqueue(task().serial_key("k").queue("other")).await;
    harness.enqueue(task().serial_key("k")).await;
    let leased = harness.lease_in("default", &["other"], 1).await.remove(0);
    let waiter = waiting(&harness).await;
    harness.succeed(&leased).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_the_waiting_head_of_a_key_is_cancelled(harness: Harness) {
    let head = harness.enqueue(task().serial_key("k").queue("other")).await;
    harness.enqueue(task().serial_key("k")).await;
    let waiter = waiting(&harness).await;
    harness.cancel(&head).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_cancelled_handler_frees_its_key(harness: Harness) {
    harness.enqueue_all(vec![task().serial_key("k"); 2]).await;
    let leased = harness.lease_one().await;
    harness.cancel(&leased.lease.key).await;
    let waiter = waiting(&harness).await;
    harness.confirm(&leased.lease).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_full_queue_has_room(harness: Harness) {
    harness.enqueue_all(vec![task(); 2]).await;
    harness.limit("default", 1).await;
    let leased = harness.lease_one().await;
    let waiter = waiting(&harness).await;
    harness.succeed(&leased).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_cancelled_handler_frees_its_slot(harness: Harness) {
    harness.enqueue_all(vec![task(); 2]).await;
    harness.limit("default", 1).await;
    let leased = harness.lease_one().await;
    harness.cancel(&leased.lease.key).await;
    let waiter = waiting(&harness).await;
    harness.confirm(&leased.lease).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_limit_is_raised(harness: Harness) {
    harness.enqueue_all(vec![task(); 2]).await;
    harness.limit("default", 1).await;
    harness.lease_one().await;
    let waiter = waiting(&harness).await;
    harness.limit("default", 2).await;
    waiter.wakes().await;
}

async fn work_in_another_queue_wakes_no_waiter(harness: Harness) {
    let mut waiter = Waiter::new(&harness, work("default", &["default"], Some(&["t", "u"])), seconds(60));
    assert!(waiter.still_waits().await);
    harness.enqueue(task().queue("other")).await;
    harness.enqueue(task().namespace("b")).await;
    harness.enqueue(NewTask::new("v")).await;
    assert!(waiter.still_waits().await);
    harness.enqueue(NewTask::new("u")).await;
    waiter.wakes().await;
}

async fn work_in_another_queue_that_becomes_due_wakes_no_waiter(harness: Harness) {
    harness.enqueue(task().queue("other").delay(seconds(10))).await;
    harness.enqueue(task().namespace("b").delay(seconds(10))).await;
    harness.enqueue(NewTask::new("v").delay(seconds(10))).await;
    let interest = work("default", &["default"], Some(&["t"]));
    let mut waiter = Waiter::new(&harness, interest, seconds(60));
    assert!(waiter.still_waits().await);
    harness.advance(seconds(20)).await;
    assert!(waiter.still_waits().await);
}

async fn an_expired_task_wakes_no_waiter(harness: Harness) {
    harness.enqueue(task().expires_at(harness.now().await.saturating_add(seconds(10)))).await;
    harness.advance(seconds(10)).await;
    waiting(&harness).await;
}

async fn running_and_finished_tasks_wake_no_waiter(harness: Harness) {
    harness.enqueue_all(vec![task(); 2]).await;
    let leased = harness.lease(2).await;
    harness.succeed(&leased[0]).await;
    waiting(&harness).await;
}

async fn a_wait_ends_with_its_time(harness: Harness) {
    let mut waiter = Waiter::new(&harness, work("default", &["default"], None), seconds(10));
    assert!(waiter.still_waits().await);
    harness.advance(seconds(9)).await;
    assert!(waiter.still_waits().await);
    harness.advance(seconds(1)).await;
    waiter.times_out().await;
}

async fn a_wait_ends_with_its_time_though_work_comes_later(harness: Harness) {
    harness.enqueue(task().delay(seconds(20))).await;
    let mut waiter = Waiter::new(&harness, work("default", &["default"], None), seconds(10));
    assert!(waiter.still_waits().await);
    harness.advance(seconds(10)).await;
    waiter.times_out().await;
}

async fn a_wait_with_a_zero_timeout_only_polls(harness: Harness) {
    let poll = || Waiter::new(&harness, work("default", &["default"], None), Duration::ZERO);
    poll().times_out().await;
    harness.enqueue(task()).await;
    poll().wakes().await;
}

async fn two_tasks_wake_two_waiters(harness: Harness) {
    let (one, other) = (waiting(&harness).await, waiting(&harness).await);
    harness.enqueue_all(vec![task(); 2]).await;
    one.wakes().await;
    other.wakes().await;
}

async fn two_tasks_that_become_due_wake_two_waiters(harness: Harness) {
    harness.enqueue_all(vec![task().delay(seconds(10)); 2]).await;
    let (one, other) = (waiting(&harness).await, waiting(&harness).await);
    harness.advance(seconds(10)).await;
    one.wakes().await;
    other.wakes().await;
}

async fn a_dropped_waiter_does_not_swallow_a_wakeup(harness: Harness) {
    for first_goes in [true, false] {
        let (one, other) = (waiting(&harness).await, waiting(&harness).await);
        harness.enqueue(task()).await;
        // Woken or not, one of the two is dropped before it leased anything.
        let (dropped, remaining) = if first_goes { (one, other) } else { (other, one) };
        drop(dropped);
        remaining.wakes().await;
        harness.lease_one().await;
    }
}

async fn a_dropped_waiter_does_not_swallow_the_wakeup_of_a_task_becoming_due(harness: Harness) {
    harness.enqueue(task().delay(seconds(10))).await;
    let (dropped, remaining) = (waiting(&harness).await, waiting(&harness).await);
    harness.advance(seconds(10)).await;
    drop(dropped);
    remaining.wakes().await;
}

async fn a_waiter_for_another_type_does_not_swallow_the_wake_up(harness: Harness) {
    let mut picky = Waiter::new(&harness, work("default", &["default"], Some(&["v"])), seconds(60));
    assert!(picky.still_waits().await);
    let other = waiting(&harness).await;
    harness.enqueue(task()).await;
    assert!(picky.still_waits().await);
    other.wakes().await;
}

async fn a_fragile_task_does_not_wake_a_worker_without_a_slot_for_it(harness: Harness) {
    let mut without_slot = Waiter::for_sturdy_work(&harness);
    assert!(without_slot.still_waits().await);
    let with_slot = waiting(&harness).await;
    harness.enqueue(task().max_losses(0)).await;
    with_slot.wakes().await;
    assert!(without_slot.still_waits().await);
    harness.enqueue(task()).await;
    without_slot.wakes().await;
}

async fn a_lost_task_does_not_wake_a_worker_without_a_slot_for_it(harness: Harness) {
    harness.enqueue(task()).await;
    harness.lease_one().await;
    let mut without_slot = Waiter::for_sturdy_work(&harness);
    assert!(without_slot.still_waits().await);
    harness.lose().await;
    assert!(without_slot.still_waits().await);
    Waiter::for_work(&harness).wakes().await;
}

/// A waiter for work in queue `default` that has found none.
async fn waiting(harness: &Harness) -> Waiter {
    let mut waiter = Waiter::for_work(harness);
    assert!(waiter.still_waits().await, "there should be nothing to do");
    waiter
}

cases![
    a_wait_returns_at_once_when_work_is_due,
    a_waiter_is_woken_by_a_new_task,
    a_waiter_is_woken_by_a_new_task_in_any_of_its_queues,
    a_waiter_is_woken_exactly_when_the_next_task_becomes_due,
    a_task_with_an_earlier_time_shortens_the_wait,
    a_task_cancelled_before_its_due_time_wakes_no_waiter,
    a_waiter_is_woken_when_a_task_is_made_due,
    a_waiter_is_woken_when_a_retry_is_due,
    a_waiter_is_woken_when_a_task_is_released,
    a_waiter_is_woken_when_a_lease_expiry_is_recorded,
    a_waiter_is_woken_when_a_queue_is_resumed,
    a_task_that_becomes_due_in_a_paused_queue_wakes_no_waiter_until_resume,
    a_waiter_is_woken_when_a_key_is_free,
    a_waiter_is_woken_when_a_key_is_freed_from_another_queue,
    a_waiter_is_woken_when_the_waiting_head_of_a_key_is_cancelled,
    a_waiter_is_woken_when_a_cancelled_handler_frees_its_key,
    a_waiter_is_woken_when_a_full_queue_has_room,
    a_waiter_is_woken_when_a_cancelled_handler_frees_its_slot,
    a_waiter_is_woken_when_a_limit_is_raised,
    work_in_another_queue_wakes_no_waiter,
    work_in_another_queue_that_becomes_due_wakes_no_waiter,
    an_expired_task_wakes_no_waiter,
    running_and_finished_tasks_wake_no_waiter,
    a_wait_ends_with_its_time,
    a_wait_ends_with_its_time_though_work_comes_later,
    a_wait_with_a_zero_timeout_only_polls,
    two_tasks_wake_two_waiters,
    two_tasks_that_become_due_wake_two_waiters,
    a_dropped_waiter_does_not_swallow_a_wakeup,
    a_dropped_waiter_does_not_swallow_the_wakeup_of_a_task_becoming_due,
    a_waiter_for_another_type_does_not_swallow_the_wake_up,
    a_fragile_task_does_not_wake_a_worker_without_a_slot_for_it,
    a_lost_task_does_not_wake_a_worker_without_a_slot_for_it,
];
