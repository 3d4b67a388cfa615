//! G7, serial keys: of the tasks with one serial key in a namespace one runs at a time, the lowest id among
//! those due. It holds the key from its first start until it is terminal, retries included.

use weaver_core::id::TaskKey;
use weaver_core::lease::LeaseRequest;
use weaver_core::lifecycle::Command;
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::task::{NewTask, TaskState};

use super::cases;
use super::steps::{keys, task_type};
use weaver_testkit::harness::{Harness, seconds, task};

async fn one_runs_at_a_time_and_the_next_after_its_end(harness: Harness) {
    for expected in harness.enqueue_all(vec![keyed(); 4]).await {
        let leased = harness.lease(10).await;
        assert_eq!(keys(&leased), [expected]);
        assert!(harness.lease_by("v", 10).await.is_empty());
        harness.succeed(&leased[0]).await;
    }
    assert!(harness.lease(10).await.is_empty());
}

async fn one_call_gets_one_of_each_key(harness: Harness) {
    let names = ["x", "y", "x", "y", "z", "x"];
    let enqueued = harness.enqueue_all(names.map(|name| task().serial_key(name)).to_vec()).await;
    let expected: Vec<_> = [0, 1, 4].map(|index| enqueued[index].clone()).to_vec();
    assert_eq!(harness.lease_keys(10).await, expected);
}

async fn tasks_without_a_key_go_past_those_that_wait_for_one(harness: Harness) {
    let head = harness.enqueue_all(vec![keyed(); 150]).await.remove(0);
    let free = harness.enqueue(task()).await;
    assert_eq!(harness.lease_keys(10).await, [head, free]);
}

async fn the_lowest_id_goes_first_whatever_its_urgency(harness: Harness) {
    let first = harness.enqueue(keyed().priority(9)).await;
    let second = harness.enqueue(keyed().priority(0)).await;
    let free = harness.enqueue(task()).await;
    // The head keeps its own place: behind a more urgent task.
    let leased = harness.lease(10).await;
    assert_eq!(keys(&leased), [free, first]);
    harness.succeed(&leased[1]).await;
    assert_eq!(harness.lease_keys(10).await, [second]);
}

async fn a_lower_id_that_is_not_due_blocks_no_task(harness: Harness) {
    harness.enqueue(keyed().delay(seconds(60))).await;
    let due = harness.enqueue(keyed()).await;
    assert_eq!(harness.lease_keys(10).await, [due]);
}

async fn a_lower_id_that_becomes_due_goes_next(harness: Harness) {
    let delayed = harness.enqueue(keyed().delay(seconds(5))).await;
    let enqueued = harness.enqueue_all(vec![keyed(); 2]).await;
    let leased = harness.lease_one().await;
    assert_eq!(leased.lease.key, enqueued[0]);
    harness.advance(seconds(10)).await;
    assert!(harness.lease(10).await.is_empty());
    harness.succeed(&leased).await;
    let leased = harness.lease_one().await;
    assert_eq!(leased.lease.key, delayed);
    harness.succeed(&leased).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[1..]);
}

async fn a_lower_id_that_becomes_due_before_any_start_goes_first(harness: Harness) {
    let delayed = harness.enqueue(keyed().delay(seconds(5))).await;
    harness.enqueue(keyed()).await;
    harness.advance(seconds(5)).await;
    assert_eq!(harness.lease_keys(10).await, [delayed]);
}

async fn a_lower_id_that_is_made_due_goes_first(harness: Harness) {
    let delayed = harness.enqueue(keyed().delay(seconds(3600))).await;
    harness.enqueue(keyed()).await;
    harness.apply(&delayed, Command::RunNow).await;
    assert_eq!(harness.lease_keys(10).await, [delayed]);
}

async fn a_task_keeps_its_key_while_it_waits_for_a_retry(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![keyed(); 2]).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(10)) }).await;
    assert!(harness.lease(10).await.is_empty());
    harness.advance(seconds(10)).await;
    let leased = harness.lease(10).await;
    assert_eq!(keys(&leased), enqueued[..1]);
    harness.succeed(&leased[0]).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[1..]);
}

async fn a_task_with_a_higher_id_keeps_its_key_while_it_waits_for_a_retry(harness: Harness) {
    let lower = harness.enqueue(keyed().delay(seconds(5))).await;
    let holder = harness.enqueue(keyed()).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Snoozed { delay: seconds(20) }).await;
    harness.advance(seconds(10)).await;
    assert!(harness.lease(10).await.is_empty(), "{lower} is due, but {holder} has begun");
    harness.advance(seconds(10)).await;
    assert_eq!(harness.lease_keys(10).await, [holder]);
}

async fn a_released_or_lost_task_keeps_its_key(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![keyed(); 2]).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Released).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[..1]);
    harness.lose().await;
    assert_eq!(harness.lease_keys(10).await, enqueued[..1]);
}

async fn every_final_outcome_frees_the_serial_key(harness: Harness) {
    let mut enqueued = harness.enqueue_all(vec![keyed(); 5]).await.into_iter();
    let cancelled = Outcome::Cancelled { message: "no".into() };
    for outcome in [Outcome::DONE, Outcome::fatal("no"), cancelled] {
        let leased = harness.lease_one().await;
        assert_eq!(Some(leased.lease.key.clone()), enqueued.next());
        harness.end(&leased, outcome).await;
    }
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Snoozed { delay: seconds(60) }).await;
    harness.cancel(&leased.lease.key).await;
    assert_eq!(harness.lease_one().await.lease.key, enqueued.next_back().expect("five were enqueued"));
}

async fn a_task_dead_by_lost_leases_frees_its_serial_key(harness: Harness) {
    let dying = harness.enqueue(keyed().max_losses(0)).await;
    let next = harness.enqueue(keyed()).await;
    assert_eq!(harness.lease_keys(10).await, [dying]);
    harness.lose().await;
    assert_eq!(harness.lease_keys(10).await, [next]);
}

async fn cancelling_the_waiting_head_lets_the_next_go(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![keyed(); 3]).await;
    harness.cancel(&enqueued[0]).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[1..2]);
}

async fn cancelling_one_in_the_middle_leaves_the_order(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![keyed(); 3]).await;
    let leased = harness.lease_one().await;
    harness.cancel(&enqueued[1]).await;
    assert!(harness.lease(10).await.is_empty());
    harness.succeed(&leased).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[2..]);
}

async fn a_cancelled_running_task_keeps_its_key_until_its_handler_has_stopped(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![keyed(); 2]).await;
    let leased = harness.lease_one().await;
    harness.cancel(&enqueued[0]).await;
    assert!(harness.lease(10).await.is_empty());
    harness.confirm(&leased.lease).await;
    assert_eq!(harness.lease_keys(10).await, enqueued[1..]);
}

async fn a_cancelled_running_task_keeps_its_key_no_longer_than_its_lease(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![keyed(); 2]).await;
    harness.lease_one().await;
    harness.cancel(&enqueued[0]).await;
    harness.advance(seconds(31)).await;
    assert_eq!(harness.maintain().await, 1);
    assert_eq!(harness.lease_keys(10).await, enqueued[1..]);
}

async fn a_key_holds_across_the_queues_of_its_namespace(harness: Harness) {
    let first = harness.enqueue(keyed().queue("a")).await;
    let second = harness.enqueue(keyed().queue("b")).await;
    // The head is in another queue: no task of this one may overtake it.
    assert!(harness.lease_in("default", &["b"], 10).await.is_empty());
    let leased = harness.lease_in("default", &["a"], 10).await;
    assert_eq!(keys(&leased), [first]);
    assert!(harness.lease_in("default", &["b"], 10).await.is_empty());
    harness.succeed(&leased[0]).await;
    assert_eq!(keys(&harness.lease_in("default", &["a", "b"], 10).await), [second]);
}

async fn a_serial_key_head_of_another_type_lets_no_task_past(harness: Harness) {
    let head = harness.enqueue(NewTask::new("x").serial_key("k")).await;
    harness.enqueue(NewTask::new("y").serial_key("k")).await;
    let of_type = |name| LeaseRequest { types: Some(vec![task_type(name)]), ..harness.request(10) };
    assert!(harness.lease_as(of_type("y")).await.is_empty());
    assert_eq!(keys(&harness.lease_as(of_type("x")).await), [head]);
}

async fn a_serial_key_head_in_a_paused_queue_lets_no_task_past(harness: Harness) {
    let head = harness.enqueue(keyed().queue("a")).await;
    harness.enqueue(keyed().queue("b")).await;
    harness.pause("a").await;
    assert!(harness.lease_in("default", &["a", "b"], 10).await.is_empty());
    harness.reset_queue("a").await;
    assert_eq!(keys(&harness.lease_in("default", &["a", "b"], 10).await), [head]);
}

async fn a_key_in_another_namespace_is_another_key(harness: Harness) {
    let here = harness.enqueue(keyed()).await;
    let there = harness.enqueue(keyed().namespace("b")).await;
    assert_eq!(harness.lease_keys(10).await, [here]);
    assert_eq!(keys(&harness.lease_in("b", &["default"], 10).await), [there]);
}

async fn concurrent_leasers_never_run_two_of_one_key_and_keep_its_order(harness: Harness) {
    const TASKS: usize = 40;
    let tasks = (0..TASKS).map(|number| task().serial_key(format!("key {}", number % 2))).collect();
    let enqueued = harness.enqueue_all(tasks).await;
    let leasers: Vec<_> = (0..4)
        .map(|_| {
            let (other, enqueued) = (harness.clone(), enqueued.clone());
            harness.spawn(async move { run_all(&other, &enqueued).await })
        })
        .collect();
    for leaser in leasers {
        leaser.await.expect("no panic");
    }
    for key in &enqueued {
        assert_eq!(harness.record(key).await.executions, 1);
    }
}

/// Leases and finishes tasks until all are terminal. While one holds a key, no other may run and none with a
/// lower id may be unfinished.
async fn run_all(harness: &Harness, all: &[TaskKey]) {
    loop {
        let records = harness.store.get_tasks(all).await.expect("the store answers");
        let mut states = records.into_iter().map(|record| record.expect("nothing is purged").state);
        if states.all(TaskState::is_terminal) {
            return;
        }
        for leased in harness.lease(3).await {
            let records = harness.store.get_tasks(all).await.expect("the store answers");
            for record in records.into_iter().flatten() {
                if record.spec.serial_key == leased.record.spec.serial_key && record.key != leased.lease.key {
                    assert!(!record.holds_key(), "{} runs beside {}", record.key, leased.lease.key);
                    let ended = record.state.is_terminal();
                    assert_eq!(ended, record.key < leased.lease.key, "{} is out of order", record.key);
                }
            }
            harness.succeed(&leased).await;
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
    a_lower_id_that_is_not_due_blocks_no_task,
    a_lower_id_that_becomes_due_goes_next,
    a_lower_id_that_becomes_due_before_any_start_goes_first,
    a_lower_id_that_is_made_due_goes_first,
    a_task_keeps_its_key_while_it_waits_for_a_retry,
    a_task_with_a_higher_id_keeps_its_key_while_it_waits_for_a_retry,
    a_released_or_lost_task_keeps_its_key,
    every_final_outcome_frees_the_serial_key,
    a_task_dead_by_lost_leases_frees_its_serial_key,
    cancelling_the_waiting_head_lets_the_next_go,
    cancelling_one_in_the_middle_leaves_the_order,
    a_cancelled_running_task_keeps_its_key_until_its_handler_has_stopped,
    a_cancelled_running_task_keeps_its_key_no_longer_than_its_lease,
    a_key_holds_across_the_queues_of_its_namespace,
    a_serial_key_head_of_another_type_lets_no_task_past,
    a_serial_key_head_in_a_paused_queue_lets_no_task_past,
    a_key_in_another_namespace_is_another_key,
    concurrent_leasers_never_run_two_of_one_key_and_keep_its_order,
];
