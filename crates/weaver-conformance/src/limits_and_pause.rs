//! Paused and limited queues: a paused queue leases nothing and stops nothing; a concurrency limit counts
//! running tasks and cancellation holds over all workers.

use weaver_core::id::TaskKey;
use weaver_core::lease::Renewed;
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Expect, QueueSettings};

use super::cases;
use super::steps::keys;
use weaver_testkit::harness::{Harness, queue, seconds, task};

async fn a_paused_queue_gives_nothing_until_it_is_resumed(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.pause("default").await;
    assert!(harness.lease(10).await.is_empty());
    harness.reset_queue("default").await;
    assert_eq!(harness.lease_keys(10).await, [key]);
}

async fn a_queue_can_be_paused_before_it_has_tasks(harness: Harness) {
    harness.pause("default").await;
    harness.enqueue(task()).await;
    assert!(harness.lease(10).await.is_empty());
}

async fn a_pause_also_holds_delayed_tasks_and_retries_that_become_due(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(), task().delay(seconds(5))]).await;
    let leased = harness.lease_one().await;
    harness.pause("default").await;
    harness.end(&leased, Outcome::Released).await;
    harness.advance(seconds(10)).await;
    assert!(harness.lease(10).await.is_empty());
    harness.reset_queue("default").await;
    assert_eq!(harness.lease_keys(10).await, enqueued);
}

async fn running_tasks_of_a_paused_queue_continue(harness: Harness) {
    harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.pause("default").await;
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    harness.succeed(&leased).await;
}

async fn a_lease_call_repeated_after_a_pause_returns_what_it_granted(harness: Harness) {
    harness.enqueue(task()).await;
    let request = harness.request(1);
    let first = harness.lease_as(request.clone()).await;
    harness.pause("default").await;
    assert_eq!(keys(&harness.lease_as(request).await), keys(&first));
}

async fn a_paused_queue_does_not_stop_another(harness: Harness) {
    harness.enqueue(task().queue("a").priority(0)).await;
    let other = harness.enqueue(task().queue("b")).await;
    harness.pause("a").await;
    assert_eq!(keys(&harness.lease_in("default", &["a", "b"], 10).await), [other]);
}

async fn a_queue_paused_in_one_namespace_is_open_in_another(harness: Harness) {
    let there = harness.enqueue(task().namespace("b")).await;
    harness.pause("default").await;
    assert_eq!(keys(&harness.lease_in("b", &["default"], 10).await), [there]);
}

async fn no_more_run_than_the_limit_over_all_workers(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 5]).await;
    harness.limit("default", 2).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[..2]);
    assert!(harness.lease_by("v", 10).await.is_empty());
}

async fn a_limit_serves_in_order(harness: Harness) {
    harness.limit("default", 1).await;
    harness.enqueue_all(vec![task(); 2]).await;
    let urgent = harness.enqueue(task().priority(0)).await;
    assert_eq!(harness.lease_keys(10).await, [urgent]);
}

async fn an_end_makes_room(harness: Harness) {
    let enqueued = limited(&harness).await;
    for outcome in [Outcome::DONE, Outcome::fatal("no"), Outcome::Snoozed { delay: seconds(60) }] {
        let leased = harness.lease_one().await;
        assert!(harness.lease(1).await.is_empty());
        harness.end(&leased, outcome).await;
    }
    assert_eq!(harness.lease_keys(10).await, enqueued[3..4]);
}

async fn a_released_task_frees_its_slot(harness: Harness) {
    let enqueued = limited(&harness).await;
    let leased = harness.lease_one().await;
    harness.advance(seconds(1)).await;
    harness.end(&leased, Outcome::Released).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[1..2]);
}

async fn a_lost_worker_keeps_its_slot_until_the_lease_expiry_is_recorded(harness: Harness) {
    let enqueued = limited(&harness).await;
    harness.lease_one().await;
    harness.advance(seconds(31)).await;
    assert!(harness.lease(10).await.is_empty());
    assert_eq!(harness.maintain().await, 1);
    assert_eq!(harness.lease_keys(10).await, enqueued[1..2]);
}

async fn a_cancelled_task_keeps_its_slot_until_its_handler_has_stopped(harness: Harness) {
    let enqueued = limited(&harness).await;
    let leased = harness.lease_one().await;
    harness.cancel(&enqueued[0]).await;
    assert!(harness.lease(10).await.is_empty());
    harness.confirm(&leased.lease).await;
    harness.confirm(&leased.lease).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[1..2], "one slot, however often it was confirmed");
}

async fn a_cancelled_task_keeps_its_slot_no_longer_than_its_lease(harness: Harness) {
    let enqueued = limited(&harness).await;
    harness.lease_one().await;
    harness.cancel(&enqueued[0]).await;
    harness.advance(seconds(31)).await;
    assert_eq!(harness.maintain().await, 1);
    assert_eq!(harness.lease_keys(10).await, enqueued[1..2]);
}

async fn cancelling_a_waiting_task_makes_no_room(harness: Harness) {
    let enqueued = limited(&harness).await;
    harness.lease_one().await;
    harness.cancel(&enqueued[1]).await;
    assert!(harness.lease(10).await.is_empty());
}

async fn a_limit_is_for_its_queue_alone(harness: Harness) {
    harness.enqueue_all(vec![task().queue("a"); 3]).await;
    harness.enqueue_all(vec![task().queue("b"); 3]).await;
    harness.enqueue_all(vec![task().queue("c"); 3]).await;
    harness.limit("a", 1).await;
    harness.limit("b", 2).await;
    let leased = harness.lease_in("default", &["a", "b", "c"], 10).await;
    let of = |name| leased.iter().filter(|leased| leased.record.spec.queue == queue(name)).count();
    assert_eq!((of("a"), of("b"), of("c")), (1, 2, 3));
}

async fn a_limit_is_for_its_namespace_alone(harness: Harness) {
    harness.limit("default", 1).await;
    harness.enqueue(task()).await;
    harness.lease_one().await;
    harness.enqueue_all(vec![task().namespace("b"); 3]).await;
    assert_eq!(harness.lease_in("b", &["default"], 10).await.len(), 3);
}

async fn a_full_queue_does_not_hide_another(harness: Harness) {
    harness.limit("a", 1).await;
    harness.enqueue_all(vec![task().queue("a").priority(0); 150]).await;
    harness.lease_in("default", &["a"], 1).await;
    let other = harness.enqueue(task().queue("b").priority(9)).await;
    assert_eq!(keys(&harness.lease_in("default", &["a", "b"], 10).await), [other]);
}

async fn a_limit_below_the_running_count_admits_nothing_until_there_is_room(harness: Harness) {
    harness.enqueue_all(vec![task(); 5]).await;
    let leased = harness.lease(3).await;
    harness.limit("default", 2).await;
    harness.succeed(&leased[0]).await;
    assert!(harness.lease(10).await.is_empty());
    harness.succeed(&leased[1]).await;
    assert_eq!(harness.lease(10).await.len(), 1);
}

async fn a_raised_or_removed_limit_lets_more_in(harness: Harness) {
    harness.enqueue_all(vec![task(); 5]).await;
    harness.limit("default", 1).await;
    assert_eq!(harness.lease(10).await.len(), 1);
    harness.limit("default", 3).await;
    assert_eq!(harness.lease(10).await.len(), 2);
    harness.reset_queue("default").await;
    assert_eq!(harness.lease(10).await.len(), 2);
}

async fn a_paused_and_limited_queue_is_both(harness: Harness) {
    harness.enqueue_all(vec![task(); 3]).await;
    harness
        .set_queue(
            "default",
            QueueSettings { paused: true, max_running: Some(1), ..QueueSettings::default() },
        )
        .await;
    assert!(harness.lease(10).await.is_empty());
    harness.limit("default", 1).await;
    assert_eq!(harness.lease(10).await.len(), 1);
}

async fn a_refused_change_of_settings_leaves_them(harness: Harness) {
    harness.enqueue(task()).await;
    harness.pause("default").await;
    let (space, name, open) = (Namespace::default(), queue("default"), QueueSettings::default());
    assert!(harness.store.put_queue(&space, &name, open, Expect::Absent).await.is_err());
    assert!(harness.lease(10).await.is_empty());
}

async fn concurrent_leasers_never_exceed_a_limit(harness: Harness) {
    harness.enqueue_all(vec![task(); 100]).await;
    harness.limit("default", 7).await;
    let leasers: Vec<_> = (0..8)
        .map(|_| {
            let other = harness.clone();
            harness.spawn(async move { other.lease(3).await.len() })
        })
        .collect();
    let mut granted = 0;
    for leaser in leasers {
        granted += leaser.await.expect("no panic");
    }
    granted += harness.lease(10).await.len();
    assert_eq!(granted, 7);
}

/// Five tasks in queue `default`, of which one may run.
async fn limited(harness: &Harness) -> Vec<TaskKey> {
    harness.limit("default", 1).await;
    harness.enqueue_all(vec![task(); 5]).await
}

cases![
    a_paused_queue_gives_nothing_until_it_is_resumed,
    a_queue_can_be_paused_before_it_has_tasks,
    a_pause_also_holds_delayed_tasks_and_retries_that_become_due,
    running_tasks_of_a_paused_queue_continue,
    a_lease_call_repeated_after_a_pause_returns_what_it_granted,
    a_paused_queue_does_not_stop_another,
    a_queue_paused_in_one_namespace_is_open_in_another,
    no_more_run_than_the_limit_over_all_workers,
    a_limit_serves_in_order,
    an_end_makes_room,
    a_released_task_frees_its_slot,
    a_lost_worker_keeps_its_slot_until_the_lease_expiry_is_recorded,
    a_cancelled_task_keeps_its_slot_until_its_handler_has_stopped,
    a_cancelled_task_keeps_its_slot_no_longer_than_its_lease,
    cancelling_a_waiting_task_makes_no_room,
    a_limit_is_for_its_queue_alone,
    a_limit_is_for_its_namespace_alone,
    a_full_queue_does_not_hide_another,
    a_limit_below_the_running_count_admits_nothing_until_there_is_room,
    a_raised_or_removed_limit_lets_more_in,
    a_paused_and_limited_queue_is_both,
    a_refused_change_of_settings_leaves_them,
    concurrent_leasers_never_exceed_a_limit,
];
