//! G5, a task that crashes its worker must not charge others with a loss. Fragile tasks (lost before, or with
//! no budget for losses) are granted no more than `slots`, because each of them must start at once.

use weaver_core::id::TaskKey;
use weaver_core::lease::LeaseRequest;
use weaver_core::outcome::Outcome;
use weaver_core::retry::RetryPolicy;
use weaver_core::task::NewTask;

use super::cases;
use super::steps::keys;
use weaver_testkit::harness::{Harness, seconds, task};

async fn no_more_tasks_that_tolerate_no_loss_are_granted_than_there_are_slots(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![fragile(); 5]).await;
    assert_eq!(with_slots(&harness, 10, 2).await, enqueued[..2]);
}

async fn skipped_tasks_go_to_the_next_call(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![fragile(); 5]).await;
    assert_eq!(with_slots(&harness, 10, 3).await, enqueued[..3]);
    assert_eq!(with_slots(&harness, 10, 3).await, enqueued[3..]);
}

async fn loss_tolerant_tasks_need_no_slot(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 5]).await;
    assert_eq!(with_slots(&harness, 10, 0).await, enqueued);
}

async fn loss_tolerant_tasks_pass_skipped_ones_in_order(harness: Harness) {
    let alternating = [fragile(), task(), fragile(), task(), fragile(), task()];
    let enqueued = harness.enqueue_all(alternating.to_vec()).await;
    let expected: Vec<_> = [0, 1, 3, 5].map(|index| enqueued[index].clone()).to_vec();
    assert_eq!(with_slots(&harness, 10, 1).await, expected);
}

async fn many_skipped_fragile_tasks_do_not_hide_the_tasks_behind_them(harness: Harness) {
    harness.enqueue_all(vec![fragile().priority(0); 300]).await;
    let tolerant = harness.enqueue_all(vec![task(); 2]).await;
    assert_eq!(with_slots(&harness, 10, 0).await, tolerant);
}

async fn without_a_slot_none_of_them_is_granted(harness: Harness) {
    harness.enqueue_all(vec![fragile(); 3]).await;
    assert!(with_slots(&harness, 10, 0).await.is_empty());
}

async fn slots_do_not_raise_the_requested_maximum(harness: Harness) {
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

async fn a_failed_or_released_task_needs_no_slot(harness: Harness) {
    let key = harness.enqueue(task().retry(RetryPolicy::Fixed { delay: seconds(5) })).await;
    for outcome in [Outcome::failed("no"), Outcome::Released] {
        let leased = harness.lease_one().await;
        harness.end(&leased, outcome).await;
        harness.advance(seconds(5)).await;
    }
    assert_eq!(with_slots(&harness, 1, 0).await, [key]);
}

async fn a_serial_key_head_that_is_skipped_lets_no_task_past(harness: Harness) {
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
    skipped_tasks_go_to_the_next_call,
    loss_tolerant_tasks_need_no_slot,
    loss_tolerant_tasks_pass_skipped_ones_in_order,
    many_skipped_fragile_tasks_do_not_hide_the_tasks_behind_them,
    without_a_slot_none_of_them_is_granted,
    slots_do_not_raise_the_requested_maximum,
    a_task_that_was_lost_before_needs_a_slot,
    a_failed_or_released_task_needs_no_slot,
    a_serial_key_head_that_is_skipped_lets_no_task_past,
];
