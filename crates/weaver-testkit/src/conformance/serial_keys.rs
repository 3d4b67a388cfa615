//! G7, the gate: of the tasks with one serial key in a namespace one runs at a time, the lowest id among those due, and
//! it holds the key from its first start to its end, retries included.

use weaver_core::id::TaskKey;
use weaver_core::lease::LeaseRequest;
use weaver_core::lifecycle::Command;
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::task::{NewTask, TaskState};

use super::cases;
use super::steps::{keys, task_type};
use crate::bed::{Bed, seconds, task};

async fn one_runs_at_a_time_and_the_next_after_its_end(bed: Bed) {
    for expected in bed.enqueue_all(vec![keyed(); 4]).await {
        let leased = bed.lease(10).await;
        assert_eq!(keys(&leased), [expected]);
        assert!(bed.lease_by("v", 10).await.is_empty());
        bed.succeed(&leased[0]).await;
    }
    assert!(bed.lease(10).await.is_empty());
}

async fn one_call_gets_one_of_each_key(bed: Bed) {
    let names = ["x", "y", "x", "y", "z", "x"];
    let enqueued = bed.enqueue_all(names.map(|name| task().serial_key(name)).to_vec()).await;
    let expected: Vec<_> = [0, 1, 4].map(|index| enqueued[index].clone()).to_vec();
    assert_eq!(bed.lease_keys(10).await, expected);
}

async fn tasks_without_a_key_go_past_those_that_wait_for_one(bed: Bed) {
    let head = bed.enqueue_all(vec![keyed(); 150]).await.remove(0);
    let free = bed.enqueue(task()).await;
    assert_eq!(bed.lease_keys(10).await, [head, free]);
}

async fn the_lowest_id_goes_first_whatever_its_urgency(bed: Bed) {
    let first = bed.enqueue(keyed().priority(9)).await;
    let second = bed.enqueue(keyed().priority(0)).await;
    let free = bed.enqueue(task()).await;
    // The head has its own place among the others: behind a task that is more urgent than itself.
    let leased = bed.lease(10).await;
    assert_eq!(keys(&leased), [free, first]);
    bed.succeed(&leased[1]).await;
    assert_eq!(bed.lease_keys(10).await, [second]);
}

async fn a_lower_id_that_is_not_due_stops_nobody(bed: Bed) {
    bed.enqueue(keyed().delay(seconds(60))).await;
    let due = bed.enqueue(keyed()).await;
    assert_eq!(bed.lease_keys(10).await, [due]);
}

async fn a_lower_id_that_becomes_due_goes_next(bed: Bed) {
    let delayed = bed.enqueue(keyed().delay(seconds(5))).await;
    let enqueued = bed.enqueue_all(vec![keyed(); 2]).await;
    let leased = bed.lease_one().await;
    assert_eq!(leased.lease.key, enqueued[0]);
    bed.advance(seconds(10)).await;
    assert!(bed.lease(10).await.is_empty());
    bed.succeed(&leased).await;
    let leased = bed.lease_one().await;
    assert_eq!(leased.lease.key, delayed);
    bed.succeed(&leased).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[1..]);
}

async fn a_lower_id_that_becomes_due_before_anybody_started_goes_first(bed: Bed) {
    let delayed = bed.enqueue(keyed().delay(seconds(5))).await;
    bed.enqueue(keyed()).await;
    bed.advance(seconds(5)).await;
    assert_eq!(bed.lease_keys(10).await, [delayed]);
}

async fn a_lower_id_that_is_made_due_goes_first(bed: Bed) {
    let delayed = bed.enqueue(keyed().delay(seconds(3600))).await;
    bed.enqueue(keyed()).await;
    bed.apply(&delayed, Command::RunNow).await;
    assert_eq!(bed.lease_keys(10).await, [delayed]);
}

async fn a_task_keeps_its_key_while_it_waits_for_a_retry(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![keyed(); 2]).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(10)) }).await;
    assert!(bed.lease(10).await.is_empty());
    bed.advance(seconds(10)).await;
    let leased = bed.lease(10).await;
    assert_eq!(keys(&leased), enqueued[..1]);
    bed.succeed(&leased[0]).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[1..]);
}

async fn a_task_with_a_higher_id_keeps_its_key_while_it_waits_for_a_retry(bed: Bed) {
    let lower = bed.enqueue(keyed().delay(seconds(5))).await;
    let holder = bed.enqueue(keyed()).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Snoozed { delay: seconds(20) }).await;
    bed.advance(seconds(10)).await;
    assert!(bed.lease(10).await.is_empty(), "{lower} is due, but {holder} has begun");
    bed.advance(seconds(10)).await;
    assert_eq!(bed.lease_keys(10).await, [holder]);
}

async fn a_released_or_lost_task_keeps_its_key(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![keyed(); 2]).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Released).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[..1]);
    bed.lose().await;
    assert_eq!(bed.lease_keys(10).await, enqueued[..1]);
}

async fn every_end_frees_the_key(bed: Bed) {
    let mut enqueued = bed.enqueue_all(vec![keyed(); 5]).await.into_iter();
    let cancelled = Outcome::Cancelled { message: "no".into() };
    for outcome in [Outcome::DONE, Outcome::fatal("no"), cancelled] {
        let leased = bed.lease_one().await;
        assert_eq!(Some(leased.lease.key.clone()), enqueued.next());
        bed.end(&leased, outcome).await;
    }
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Snoozed { delay: seconds(60) }).await;
    bed.cancel(&leased.lease.key).await;
    assert_eq!(bed.lease_one().await.lease.key, enqueued.next_back().expect("five were enqueued"));
}

async fn a_death_by_loss_frees_the_key(bed: Bed) {
    let dying = bed.enqueue(keyed().max_losses(0)).await;
    let next = bed.enqueue(keyed()).await;
    assert_eq!(bed.lease_keys(10).await, [dying]);
    bed.lose().await;
    assert_eq!(bed.lease_keys(10).await, [next]);
}

async fn cancelling_the_waiting_head_lets_the_next_go(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![keyed(); 3]).await;
    bed.cancel(&enqueued[0]).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[1..2]);
}

async fn cancelling_one_in_the_middle_leaves_the_order(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![keyed(); 3]).await;
    let leased = bed.lease_one().await;
    bed.cancel(&enqueued[1]).await;
    assert!(bed.lease(10).await.is_empty());
    bed.succeed(&leased).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[2..]);
}

async fn a_cancelled_running_task_keeps_its_key_until_its_handler_has_stopped(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![keyed(); 2]).await;
    let leased = bed.lease_one().await;
    bed.cancel(&enqueued[0]).await;
    assert!(bed.lease(10).await.is_empty());
    bed.confirm(&leased.lease).await;
    assert_eq!(bed.lease_keys(10).await, enqueued[1..]);
}

async fn a_cancelled_running_task_keeps_its_key_no_longer_than_its_lease(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![keyed(); 2]).await;
    bed.lease_one().await;
    bed.cancel(&enqueued[0]).await;
    bed.advance(seconds(31)).await;
    assert_eq!(bed.maintain().await, 1);
    assert_eq!(bed.lease_keys(10).await, enqueued[1..]);
}

async fn a_key_holds_across_the_queues_of_its_namespace(bed: Bed) {
    let first = bed.enqueue(keyed().queue("a")).await;
    let second = bed.enqueue(keyed().queue("b")).await;
    // The head is served from another queue: nobody here may go before it.
    assert!(bed.lease_in("default", &["b"], 10).await.is_empty());
    let leased = bed.lease_in("default", &["a"], 10).await;
    assert_eq!(keys(&leased), [first]);
    assert!(bed.lease_in("default", &["b"], 10).await.is_empty());
    bed.succeed(&leased[0]).await;
    assert_eq!(keys(&bed.lease_in("default", &["a", "b"], 10).await), [second]);
}

async fn a_head_of_another_type_lets_nobody_past(bed: Bed) {
    let head = bed.enqueue(NewTask::new("x").serial_key("k")).await;
    bed.enqueue(NewTask::new("y").serial_key("k")).await;
    let of_type = |name| LeaseRequest { types: Some(vec![task_type(name)]), ..bed.request(10) };
    assert!(bed.lease_as(of_type("y")).await.is_empty());
    assert_eq!(keys(&bed.lease_as(of_type("x")).await), [head]);
}

async fn a_head_in_a_paused_queue_lets_nobody_past(bed: Bed) {
    let head = bed.enqueue(keyed().queue("a")).await;
    bed.enqueue(keyed().queue("b")).await;
    bed.pause("a").await;
    assert!(bed.lease_in("default", &["a", "b"], 10).await.is_empty());
    bed.reset_queue("a").await;
    assert_eq!(keys(&bed.lease_in("default", &["a", "b"], 10).await), [head]);
}

async fn a_key_in_another_namespace_is_another_key(bed: Bed) {
    let here = bed.enqueue(keyed()).await;
    let there = bed.enqueue(keyed().namespace("b")).await;
    assert_eq!(bed.lease_keys(10).await, [here]);
    assert_eq!(keys(&bed.lease_in("b", &["default"], 10).await), [there]);
}

async fn concurrent_leasers_never_run_two_of_one_key_and_keep_its_order(bed: Bed) {
    const TASKS: usize = 40;
    let tasks = (0..TASKS).map(|number| task().serial_key(format!("key {}", number % 2))).collect();
    let enqueued = bed.enqueue_all(tasks).await;
    let leasers: Vec<_> = (0..4)
        .map(|_| {
            let (other, enqueued) = (bed.clone(), enqueued.clone());
            bed.spawn(async move { run_all(&other, &enqueued).await })
        })
        .collect();
    for leaser in leasers {
        leaser.await.expect("no panic");
    }
    for key in &enqueued {
        assert_eq!(bed.record(key).await.executions, 1);
    }
}

/// Leases and ends until everything has ended. Whoever holds a key looks at all others: nobody else may, and nobody
/// with a lower id may be left.
async fn run_all(bed: &Bed, all: &[TaskKey]) {
    loop {
        let records = bed.store.get_tasks(all).await.expect("the store answers");
        let mut states = records.into_iter().map(|record| record.expect("nothing is purged").state);
        if states.all(TaskState::is_terminal) {
            return;
        }
        for leased in bed.lease(3).await {
            let records = bed.store.get_tasks(all).await.expect("the store answers");
            for record in records.into_iter().flatten() {
                if record.spec.serial_key == leased.record.spec.serial_key && record.key != leased.lease.key {
                    assert!(!record.holds_key(), "{} runs beside {}", record.key, leased.lease.key);
                    let ended = record.state.is_terminal();
                    assert_eq!(ended, record.key < leased.lease.key, "{} is out of order", record.key);
                }
            }
            bed.succeed(&leased).await;
        }
        tokio::task::yield_now().await;
    }
}

fn keyed() -> NewTask {
    task().serial_key("k")
}

cases![
    one_runs_at_a_time_and_the_next_after_its_end,
    one_call_gets_one_of_each_key,
    tasks_without_a_key_go_past_those_that_wait_for_one,
    the_lowest_id_goes_first_whatever_its_urgency,
    a_lower_id_that_is_not_due_stops_nobody,
    a_lower_id_that_becomes_due_goes_next,
    a_lower_id_that_becomes_due_before_anybody_started_goes_first,
    a_lower_id_that_is_made_due_goes_first,
    a_task_keeps_its_key_while_it_waits_for_a_retry,
    a_task_with_a_higher_id_keeps_its_key_while_it_waits_for_a_retry,
    a_released_or_lost_task_keeps_its_key,
    every_end_frees_the_key,
    a_death_by_loss_frees_the_key,
    cancelling_the_waiting_head_lets_the_next_go,
    cancelling_one_in_the_middle_leaves_the_order,
    a_cancelled_running_task_keeps_its_key_until_its_handler_has_stopped,
    a_cancelled_running_task_keeps_its_key_no_longer_than_its_lease,
    a_key_holds_across_the_queues_of_its_namespace,
    a_head_of_another_type_lets_nobody_past,
    a_head_in_a_paused_queue_lets_nobody_past,
    a_key_in_another_namespace_is_another_key,
    concurrent_leasers_never_run_two_of_one_key_and_keep_its_order,
];
