//! Waiting for work: a worker that waits is woken when something can be leased, at the moment it can, and not for what
//! it cannot have.

use std::time::Duration;

use weaver_core::lifecycle::Command;
use weaver_core::outcome::Outcome;
use weaver_core::task::NewTask;

use super::cases;
use super::waiter::{Waiter, work};
use crate::bed::{Bed, seconds, task};

async fn who_comes_when_work_is_due_does_not_wait(bed: Bed) {
    bed.enqueue(task()).await;
    Waiter::for_work(&bed).wakes().await;
}

async fn a_waiter_is_woken_by_a_new_task(bed: Bed) {
    let waiter = waiting(&bed).await;
    bed.enqueue(task()).await;
    waiter.wakes().await;
    assert_eq!(bed.lease(1).await.len(), 1);
}

async fn a_waiter_is_woken_by_a_new_task_in_any_of_its_queues(bed: Bed) {
    for name in ["a", "b"] {
        let mut waiter = Waiter::new(&bed, work("default", &["a", "b"], None), seconds(60));
        assert!(waiter.still_waits().await);
        bed.enqueue(task().queue(name)).await;
        waiter.wakes().await;
        bed.lease_in("default", &["a", "b"], 1).await;
    }
}

async fn a_waiter_is_woken_exactly_when_the_next_task_becomes_due(bed: Bed) {
    bed.enqueue(task().delay(seconds(10))).await;
    let mut waiter = waiting(&bed).await;
    bed.advance(seconds(10) - Duration::from_micros(1)).await;
    assert!(waiter.still_waits().await);
    bed.advance(Duration::from_micros(1)).await;
    waiter.wakes().await;
    assert_eq!(bed.lease(1).await.len(), 1);
}

async fn a_task_with_an_earlier_time_shortens_the_wait(bed: Bed) {
    bed.enqueue(task().delay(seconds(100))).await;
    let mut waiter = waiting(&bed).await;
    bed.enqueue(task().delay(seconds(10))).await;
    assert!(waiter.still_waits().await);
    bed.advance(seconds(9)).await;
    assert!(waiter.still_waits().await);
    bed.advance(seconds(1)).await;
    waiter.wakes().await;
}

async fn a_task_cancelled_before_its_time_wakes_nobody(bed: Bed) {
    let key = bed.enqueue(task().delay(seconds(10))).await;
    let mut waiter = waiting(&bed).await;
    bed.cancel(&key).await;
    bed.advance(seconds(20)).await;
    assert!(waiter.still_waits().await);
}

async fn a_waiter_is_woken_when_a_task_is_made_due(bed: Bed) {
    let key = bed.enqueue(task().delay(seconds(100))).await;
    let waiter = waiting(&bed).await;
    bed.apply(&key, Command::RunNow).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_retry_is_due(bed: Bed) {
    bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    let mut waiter = waiting(&bed).await;
    bed.end(&leased, Outcome::Snoozed { delay: seconds(10) }).await;
    assert!(waiter.still_waits().await);
    bed.advance(seconds(10)).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_task_is_given_back(bed: Bed) {
    bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    let waiter = waiting(&bed).await;
    bed.end(&leased, Outcome::Released).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_loss_is_noticed(bed: Bed) {
    bed.enqueue(task()).await;
    bed.lease_one().await;
    let waiter = waiting(&bed).await;
    bed.lose().await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_queue_is_resumed(bed: Bed) {
    bed.enqueue(task()).await;
    bed.pause("default").await;
    let waiter = waiting(&bed).await;
    bed.reset_queue("default").await;
    waiter.wakes().await;
}

async fn a_task_that_becomes_due_in_a_paused_queue_wakes_nobody_until_it_is_resumed(bed: Bed) {
    bed.enqueue(task().delay(seconds(10))).await;
    bed.pause("default").await;
    let mut waiter = waiting(&bed).await;
    bed.advance(seconds(20)).await;
    assert!(waiter.still_waits().await);
    bed.reset_queue("default").await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_key_is_free(bed: Bed) {
    bed.enqueue_all(vec![task().serial_key("k"); 2]).await;
    let leased = bed.lease_one().await;
    let waiter = waiting(&bed).await;
    bed.succeed(&leased).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_key_is_freed_from_another_queue(bed: Bed) {
    bed.enqueue(task().serial_key("k").queue("other")).await;
    bed.enqueue(task().serial_key("k")).await;
    let leased = bed.lease_in("default", &["other"], 1).await.remove(0);
    let waiter = waiting(&bed).await;
    bed.succeed(&leased).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_the_waiting_head_of_a_key_is_cancelled(bed: Bed) {
    let head = bed.enqueue(task().serial_key("k").queue("other")).await;
    bed.enqueue(task().serial_key("k")).await;
    let waiter = waiting(&bed).await;
    bed.cancel(&head).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_cancelled_handler_frees_its_key(bed: Bed) {
    bed.enqueue_all(vec![task().serial_key("k"); 2]).await;
    let leased = bed.lease_one().await;
    bed.cancel(&leased.lease.key).await;
    let waiter = waiting(&bed).await;
    bed.confirm(&leased.lease).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_full_queue_has_room(bed: Bed) {
    bed.enqueue_all(vec![task(); 2]).await;
    bed.limit("default", 1).await;
    let leased = bed.lease_one().await;
    let waiter = waiting(&bed).await;
    bed.succeed(&leased).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_cancelled_handler_gives_its_slot_back(bed: Bed) {
    bed.enqueue_all(vec![task(); 2]).await;
    bed.limit("default", 1).await;
    let leased = bed.lease_one().await;
    bed.cancel(&leased.lease.key).await;
    let waiter = waiting(&bed).await;
    bed.confirm(&leased.lease).await;
    waiter.wakes().await;
}

async fn a_waiter_is_woken_when_a_limit_is_raised(bed: Bed) {
    bed.enqueue_all(vec![task(); 2]).await;
    bed.limit("default", 1).await;
    bed.lease_one().await;
    let waiter = waiting(&bed).await;
    bed.limit("default", 2).await;
    waiter.wakes().await;
}

async fn work_elsewhere_wakes_nobody(bed: Bed) {
    let mut waiter = Waiter::new(&bed, work("default", &["default"], Some(&["t", "u"])), seconds(60));
    assert!(waiter.still_waits().await);
    bed.enqueue(task().queue("other")).await;
    bed.enqueue(task().namespace("b")).await;
    bed.enqueue(NewTask::new("v")).await;
    assert!(waiter.still_waits().await);
    bed.enqueue(NewTask::new("u")).await;
    waiter.wakes().await;
}

async fn work_elsewhere_that_becomes_due_wakes_nobody(bed: Bed) {
    bed.enqueue(task().queue("other").delay(seconds(10))).await;
    bed.enqueue(task().namespace("b").delay(seconds(10))).await;
    bed.enqueue(NewTask::new("v").delay(seconds(10))).await;
    let interest = work("default", &["default"], Some(&["t"]));
    let mut waiter = Waiter::new(&bed, interest, seconds(60));
    assert!(waiter.still_waits().await);
    bed.advance(seconds(20)).await;
    assert!(waiter.still_waits().await);
}

async fn what_has_expired_wakes_nobody(bed: Bed) {
    bed.enqueue(task().expires_at(bed.now().await.saturating_add(seconds(10)))).await;
    bed.advance(seconds(10)).await;
    waiting(&bed).await;
}

async fn what_runs_or_has_ended_wakes_nobody(bed: Bed) {
    bed.enqueue_all(vec![task(); 2]).await;
    let leased = bed.lease(2).await;
    bed.succeed(&leased[0]).await;
    waiting(&bed).await;
}

async fn a_wait_ends_with_its_time(bed: Bed) {
    let mut waiter = Waiter::new(&bed, work("default", &["default"], None), seconds(10));
    assert!(waiter.still_waits().await);
    bed.advance(seconds(9)).await;
    assert!(waiter.still_waits().await);
    bed.advance(seconds(1)).await;
    waiter.times_out().await;
}

async fn a_wait_ends_with_its_time_though_work_comes_later(bed: Bed) {
    bed.enqueue(task().delay(seconds(20))).await;
    let mut waiter = Waiter::new(&bed, work("default", &["default"], None), seconds(10));
    assert!(waiter.still_waits().await);
    bed.advance(seconds(10)).await;
    waiter.times_out().await;
}

async fn a_wait_of_no_time_only_looks(bed: Bed) {
    let look = || Waiter::new(&bed, work("default", &["default"], None), Duration::ZERO);
    look().times_out().await;
    bed.enqueue(task()).await;
    look().wakes().await;
}

async fn two_tasks_wake_two_waiters(bed: Bed) {
    let (one, other) = (waiting(&bed).await, waiting(&bed).await);
    bed.enqueue_all(vec![task(); 2]).await;
    one.wakes().await;
    other.wakes().await;
}

async fn two_tasks_that_become_due_wake_two_waiters(bed: Bed) {
    bed.enqueue_all(vec![task().delay(seconds(10)); 2]).await;
    let (one, other) = (waiting(&bed).await, waiting(&bed).await);
    bed.advance(seconds(10)).await;
    one.wakes().await;
    other.wakes().await;
}

async fn a_waiter_that_is_gone_does_not_swallow_what_was_meant_for_it(bed: Bed) {
    for first_goes in [true, false] {
        let (one, other) = (waiting(&bed).await, waiting(&bed).await);
        bed.enqueue(task()).await;
        // Woken or not, one of the two leaves without having looked.
        let (gone, left) = if first_goes { (one, other) } else { (other, one) };
        drop(gone);
        left.wakes().await;
        bed.lease_one().await;
    }
}

async fn a_waiter_that_is_gone_does_not_swallow_the_moment_a_task_becomes_due(bed: Bed) {
    bed.enqueue(task().delay(seconds(10))).await;
    let (gone, left) = (waiting(&bed).await, waiting(&bed).await);
    bed.advance(seconds(10)).await;
    drop(gone);
    left.wakes().await;
}

async fn a_waiter_for_another_type_does_not_swallow_the_wake_up(bed: Bed) {
    let mut picky = Waiter::new(&bed, work("default", &["default"], Some(&["v"])), seconds(60));
    assert!(picky.still_waits().await);
    let other = waiting(&bed).await;
    bed.enqueue(task()).await;
    assert!(picky.still_waits().await);
    other.wakes().await;
}

async fn a_fragile_task_does_not_wake_who_has_no_slot_for_it(bed: Bed) {
    let mut without_slot = Waiter::for_sturdy_work(&bed);
    assert!(without_slot.still_waits().await);
    let with_slot = waiting(&bed).await;
    bed.enqueue(task().max_losses(0)).await;
    with_slot.wakes().await;
    assert!(without_slot.still_waits().await);
    bed.enqueue(task()).await;
    without_slot.wakes().await;
}

async fn a_task_that_was_lost_does_not_wake_who_has_no_slot_for_it(bed: Bed) {
    bed.enqueue(task()).await;
    bed.lease_one().await;
    let mut without_slot = Waiter::for_sturdy_work(&bed);
    assert!(without_slot.still_waits().await);
    bed.lose().await;
    assert!(without_slot.still_waits().await);
    Waiter::for_work(&bed).wakes().await;
}

/// Somebody who waits for work in queue `default` and finds none.
async fn waiting(bed: &Bed) -> Waiter {
    let mut waiter = Waiter::for_work(bed);
    assert!(waiter.still_waits().await, "there should be nothing to do");
    waiter
}

cases![
    who_comes_when_work_is_due_does_not_wait,
    a_waiter_is_woken_by_a_new_task,
    a_waiter_is_woken_by_a_new_task_in_any_of_its_queues,
    a_waiter_is_woken_exactly_when_the_next_task_becomes_due,
    a_task_with_an_earlier_time_shortens_the_wait,
    a_task_cancelled_before_its_time_wakes_nobody,
    a_waiter_is_woken_when_a_task_is_made_due,
    a_waiter_is_woken_when_a_retry_is_due,
    a_waiter_is_woken_when_a_task_is_given_back,
    a_waiter_is_woken_when_a_loss_is_noticed,
    a_waiter_is_woken_when_a_queue_is_resumed,
    a_task_that_becomes_due_in_a_paused_queue_wakes_nobody_until_it_is_resumed,
    a_waiter_is_woken_when_a_key_is_free,
    a_waiter_is_woken_when_a_key_is_freed_from_another_queue,
    a_waiter_is_woken_when_the_waiting_head_of_a_key_is_cancelled,
    a_waiter_is_woken_when_a_cancelled_handler_frees_its_key,
    a_waiter_is_woken_when_a_full_queue_has_room,
    a_waiter_is_woken_when_a_cancelled_handler_gives_its_slot_back,
    a_waiter_is_woken_when_a_limit_is_raised,
    work_elsewhere_wakes_nobody,
    work_elsewhere_that_becomes_due_wakes_nobody,
    what_has_expired_wakes_nobody,
    what_runs_or_has_ended_wakes_nobody,
    a_wait_ends_with_its_time,
    a_wait_ends_with_its_time_though_work_comes_later,
    a_wait_of_no_time_only_looks,
    two_tasks_wake_two_waiters,
    two_tasks_that_become_due_wake_two_waiters,
    a_waiter_that_is_gone_does_not_swallow_what_was_meant_for_it,
    a_waiter_that_is_gone_does_not_swallow_the_moment_a_task_becomes_due,
    a_waiter_for_another_type_does_not_swallow_the_wake_up,
    a_fragile_task_does_not_wake_who_has_no_slot_for_it,
    a_task_that_was_lost_does_not_wake_who_has_no_slot_for_it,
];
