//! Paused and limited queues: a paused queue gives nothing and stops nothing; a limit counts what is under way over all
//! workers, until it has really ended.

use weaver_core::id::TaskKey;
use weaver_core::lease::Renewed;
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Expect, QueueSettings};

use super::cases;
use super::steps::keys;
use crate::bed::{Bed, queue, seconds, task};

async fn a_paused_queue_gives_nothing_until_it_is_resumed(bed: Bed) {
    let key = bed.enqueue(task()).await;
    bed.pause("default").await;
    assert!(bed.lease(10).await.is_empty());
    bed.reset_queue("default").await;
    assert_eq!(bed.lease_keys(10).await, [key]);
}

async fn a_queue_can_be_paused_before_it_has_tasks(bed: Bed) {
    bed.pause("default").await;
    bed.enqueue(task()).await;
    assert!(bed.lease(10).await.is_empty());
}

async fn a_pause_outlasts_times_and_retries_that_come_due(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![task(), task().delay(seconds(5))]).await;
    let leased = bed.lease_one().await;
    bed.pause("default").await;
    bed.end(&leased, Outcome::Released).await;
    bed.advance(seconds(10)).await;
    assert!(bed.lease(10).await.is_empty());
    bed.reset_queue("default").await;
    assert_eq!(bed.lease_keys(10).await, enqueued);
}

async fn what_runs_in_a_paused_queue_goes_on(bed: Bed) {
    bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    bed.pause("default").await;
    assert_eq!(bed.renew(&leased.lease).await, Renewed::Extended);
    bed.succeed(&leased).await;
}

async fn a_lease_call_repeated_after_a_pause_returns_what_it_granted(bed: Bed) {
    bed.enqueue(task()).await;
    let request = bed.request(1);
    let first = bed.lease_as(request.clone()).await;
    bed.pause("default").await;
    assert_eq!(keys(&bed.lease_as(request).await), keys(&first));
}

async fn a_paused_queue_does_not_stop_another(bed: Bed) {
    bed.enqueue(task().queue("a").priority(0)).await;
    let other = bed.enqueue(task().queue("b")).await;
    bed.pause("a").await;
    assert_eq!(keys(&bed.lease_in("default", &["a", "b"], 10).await), [other]);
}

async fn a_queue_paused_in_one_namespace_is_open_in_another(bed: Bed) {
    let there = bed.enqueue(task().namespace("b")).await;
    bed.pause("default").await;
    assert_eq!(keys(&bed.lease_in("b", &["default"], 10).await), [there]);
}

async fn no_more_run_than_the_limit_over_all_workers(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![task(); 5]).await;
    bed.limit("default", 2).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[..2]);
    assert!(bed.lease_by("v", 10).await.is_empty());
}

async fn a_limit_serves_in_order(bed: Bed) {
    bed.limit("default", 1).await;
    bed.enqueue_all(vec![task(); 2]).await;
    let urgent = bed.enqueue(task().priority(0)).await;
    assert_eq!(bed.lease_keys(10).await, [urgent]);
}

async fn an_end_makes_room(bed: Bed) {
    let enqueued = limited(&bed).await;
    for outcome in [Outcome::DONE, Outcome::fatal("no"), Outcome::Snoozed { delay: seconds(60) }] {
        let leased = bed.lease_one().await;
        assert!(bed.lease(1).await.is_empty());
        bed.end(&leased, outcome).await;
    }
    assert_eq!(bed.lease_keys(10).await, enqueued[3..4]);
}

async fn a_released_task_gives_its_slot_back(bed: Bed) {
    let enqueued = limited(&bed).await;
    let leased = bed.lease_one().await;
    bed.advance(seconds(1)).await;
    bed.end(&leased, Outcome::Released).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[1..2]);
}

async fn a_lost_worker_keeps_its_slot_until_the_loss_is_noticed(bed: Bed) {
    let enqueued = limited(&bed).await;
    bed.lease_one().await;
    bed.advance(seconds(31)).await;
    assert!(bed.lease(10).await.is_empty());
    assert_eq!(bed.maintain().await, 1);
    assert_eq!(bed.lease_keys(10).await, enqueued[1..2]);
}

async fn a_cancelled_task_keeps_its_slot_until_its_handler_has_stopped(bed: Bed) {
    let enqueued = limited(&bed).await;
    let leased = bed.lease_one().await;
    bed.cancel(&enqueued[0]).await;
    assert!(bed.lease(10).await.is_empty());
    bed.confirm(&leased.lease).await;
    bed.confirm(&leased.lease).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[1..2], "one slot, however often it was confirmed");
}

async fn a_cancelled_task_keeps_its_slot_no_longer_than_its_lease(bed: Bed) {
    let enqueued = limited(&bed).await;
    bed.lease_one().await;
    bed.cancel(&enqueued[0]).await;
    bed.advance(seconds(31)).await;
    assert_eq!(bed.maintain().await, 1);
    assert_eq!(bed.lease_keys(10).await, enqueued[1..2]);
}

async fn cancelling_a_waiting_task_makes_no_room(bed: Bed) {
    let enqueued = limited(&bed).await;
    bed.lease_one().await;
    bed.cancel(&enqueued[1]).await;
    assert!(bed.lease(10).await.is_empty());
}

async fn a_limit_is_for_its_queue_alone(bed: Bed) {
    bed.enqueue_all(vec![task().queue("a"); 3]).await;
    bed.enqueue_all(vec![task().queue("b"); 3]).await;
    bed.enqueue_all(vec![task().queue("c"); 3]).await;
    bed.limit("a", 1).await;
    bed.limit("b", 2).await;
    let leased = bed.lease_in("default", &["a", "b", "c"], 10).await;
    let of = |name| leased.iter().filter(|leased| leased.record.spec.queue == queue(name)).count();
    assert_eq!((of("a"), of("b"), of("c")), (1, 2, 3));
}

async fn a_limit_is_for_its_namespace_alone(bed: Bed) {
    bed.limit("default", 1).await;
    bed.enqueue(task()).await;
    bed.lease_one().await;
    bed.enqueue_all(vec![task().namespace("b"); 3]).await;
    assert_eq!(bed.lease_in("b", &["default"], 10).await.len(), 3);
}

async fn a_full_queue_does_not_hide_another(bed: Bed) {
    bed.limit("a", 1).await;
    bed.enqueue_all(vec![task().queue("a").priority(0); 150]).await;
    bed.lease_in("default", &["a"], 1).await;
    let other = bed.enqueue(task().queue("b").priority(9)).await;
    assert_eq!(keys(&bed.lease_in("default", &["a", "b"], 10).await), [other]);
}

async fn a_limit_below_what_runs_lets_nothing_in_until_there_is_room(bed: Bed) {
    bed.enqueue_all(vec![task(); 5]).await;
    let leased = bed.lease(3).await;
    bed.limit("default", 2).await;
    bed.succeed(&leased[0]).await;
    assert!(bed.lease(10).await.is_empty());
    bed.succeed(&leased[1]).await;
    assert_eq!(bed.lease(10).await.len(), 1);
}

async fn a_raised_or_removed_limit_lets_more_in(bed: Bed) {
    bed.enqueue_all(vec![task(); 5]).await;
    bed.limit("default", 1).await;
    assert_eq!(bed.lease(10).await.len(), 1);
    bed.limit("default", 3).await;
    assert_eq!(bed.lease(10).await.len(), 2);
    bed.reset_queue("default").await;
    assert_eq!(bed.lease(10).await.len(), 2);
}

async fn a_paused_and_limited_queue_is_both(bed: Bed) {
    bed.enqueue_all(vec![task(); 3]).await;
    bed.set_queue("default", QueueSettings { paused: true, max_running: Some(1) }).await;
    assert!(bed.lease(10).await.is_empty());
    bed.limit("default", 1).await;
    assert_eq!(bed.lease(10).await.len(), 1);
}

async fn a_refused_change_of_settings_leaves_them(bed: Bed) {
    bed.enqueue(task()).await;
    bed.pause("default").await;
    let (space, name, open) = (Namespace::default(), queue("default"), QueueSettings::default());
    assert!(bed.store.put_queue(&space, &name, open, Expect::Absent).await.is_err());
    assert!(bed.lease(10).await.is_empty());
}

async fn concurrent_leasers_never_exceed_a_limit(bed: Bed) {
    bed.enqueue_all(vec![task(); 100]).await;
    bed.limit("default", 7).await;
    let leasers: Vec<_> = (0..8)
        .map(|_| {
            let other = bed.clone();
            bed.spawn(async move { other.lease(3).await.len() })
        })
        .collect();
    let mut granted = 0;
    for leaser in leasers {
        granted += leaser.await.expect("no panic");
    }
    granted += bed.lease(10).await.len();
    assert_eq!(granted, 7);
}

/// Five tasks in queue `default`, of which one may run.
async fn limited(bed: &Bed) -> Vec<TaskKey> {
    bed.limit("default", 1).await;
    bed.enqueue_all(vec![task(); 5]).await
}

cases![
    a_paused_queue_gives_nothing_until_it_is_resumed,
    a_queue_can_be_paused_before_it_has_tasks,
    a_pause_outlasts_times_and_retries_that_come_due,
    what_runs_in_a_paused_queue_goes_on,
    a_lease_call_repeated_after_a_pause_returns_what_it_granted,
    a_paused_queue_does_not_stop_another,
    a_queue_paused_in_one_namespace_is_open_in_another,
    no_more_run_than_the_limit_over_all_workers,
    a_limit_serves_in_order,
    an_end_makes_room,
    a_released_task_gives_its_slot_back,
    a_lost_worker_keeps_its_slot_until_the_loss_is_noticed,
    a_cancelled_task_keeps_its_slot_until_its_handler_has_stopped,
    a_cancelled_task_keeps_its_slot_no_longer_than_its_lease,
    cancelling_a_waiting_task_makes_no_room,
    a_limit_is_for_its_queue_alone,
    a_limit_is_for_its_namespace_alone,
    a_full_queue_does_not_hide_another,
    a_limit_below_what_runs_lets_nothing_in_until_there_is_room,
    a_raised_or_removed_limit_lets_more_in,
    a_paused_and_limited_queue_is_both,
    a_refused_change_of_settings_leaves_them,
    concurrent_leasers_never_exceed_a_limit,
];
