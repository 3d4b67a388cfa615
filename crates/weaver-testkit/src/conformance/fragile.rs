//! G5, a task that kills its worker takes no bystanders along: tasks that were lost before, or may not be
//! lost at all, are granted no more than `slots`, because each of them must start at once.

use weaver_core::id::TaskKey;
use weaver_core::lease::LeaseRequest;
use weaver_core::outcome::Outcome;
use weaver_core::retry::RetryPolicy;
use weaver_core::task::NewTask;

use super::cases;
use super::steps::keys;
use crate::harness::{Harness, seconds, task};

async fn no_more_tasks_that_tolerate_no_loss_are_granted_than_there_are_slots(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![fragile(); 5]).await;
    assert_eq!(with_slots(&harness, 10, 2).await, enqueued[..2]);
}

async fn those_left_out_go_to_the_next_call(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![fragile(); 5]).await;
    assert_eq!(with_slots(&harness, 10, 3).await, enqueued[..3]);
    assert_eq!(with_slots(&harness, 10, 3).await, enqueued[3..]);
}

async fn sturdy_tasks_need_no_slot(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 5]).await;
    assert_eq!(with_slots(&harness, 10, 0).await, enqueued);
}

async fn sturdy_tasks_go_past_those_left_out_and_in_order(harness: Harness) {
    let sturdy_then_fragile = [fragile(), task(), fragile(), task(), fragile(), task()];
    let enqueued = harness.enqueue_all(sturdy_then_fragile.to_vec()).await;
    let expected: Vec<_> = [0, 1, 3, 5].map(|index| enqueued[index].clone()).to_vec();
    assert_eq!(with_slots(&harness, 10, 1).await, expected);
}

async fn many_left_out_do_not_hide_the_sturdy_behind_them(harness: Harness) {
    harness.enqueue_all(vec![fragile().priority(0); 300]).await;
    let sturdy = harness.enqueue_all(vec![task(); 2]).await;
    assert_eq!(with_slots(&harness, 10, 0).await, sturdy);
}

async fn without_a_slot_none_of_them_is_granted(harness: Harness) {
    harness.enqueue_all(vec![fragile(); 3]).await;
    assert!(with_slots(&harness, 10, 0).await.is_empty());
}

async fn slots_do_not_raise_what_was_asked_for(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![fragile(); 5]).await;
    assert_eq!(with_slots(&harness, 2, 5).await, enqueued[..2]);
}

async fn a_task_that_was_lost_before_needs_a_slot(harness: Harness) {
    let key = harness.enqueue(task()).await;
    assert_eq!(with_slots(&harness, 1, 0).await.as_slice(), std::slice::from_ref(&key));
    harness.lose().await;
    assert!(with_slots(&harness, 1, 0).await.is_empty());
    assert_eq!(with_slots(&harness, 1, 1).await, [key]);
}

async fn a_task_that_failed_or_was_released_needs_none(harness: Harness) {
    let key = harness.enqueue(task().retry(RetryPolicy::Fixed { delay: seconds(5) })).await;
    for outcome in [Outcome::failed("no"), Outcome::Released] {
        let leased = harness.lease_one().await;
        harness.end(&leased, outcome).await;
        harness.advance(seconds(5)).await;
    }
    assert_eq!(with_slots(&harness, 1, 0).await, [key]);
}

async fn a_head_of_a_key_that_is_left_out_lets_nobody_past(harness: Harness) {
    let head = harness.enqueue(fragile().serial_key("k")).await;
    harness.enqueue(task().serial_key("k")).await;
    assert!(with_slots(&harness, 10, 0).await.is_empty());
    assert_eq!(with_slots(&harness, 10, 1).await, [head]);
}

fn fragile() -> NewTask {
    task().max_losses(0)
}

async fn with_slots(harness: &Harness, max: u32, slots: u32) -> Vec<TaskKey> {
    keys(&harness.lease_as(LeaseRequest { slots, ..harness.request(max) }).await)
}

cases![
    no_more_tasks_that_tolerate_no_loss_are_granted_than_there_are_slots,
    those_left_out_go_to_the_next_call,
    sturdy_tasks_need_no_slot,
    sturdy_tasks_go_past_those_left_out_and_in_order,
    many_left_out_do_not_hide_the_sturdy_behind_them,
    without_a_slot_none_of_them_is_granted,
    slots_do_not_raise_what_was_asked_for,
    a_task_that_was_lost_before_needs_a_slot,
    a_task_that_failed_or_was_released_needs_none,
    a_head_of_a_key_that_is_left_out_lets_nobody_past,
];
