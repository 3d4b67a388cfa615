//! Contention: sixteen workers claim five hundred tasks. None is claimed twice, and few writes are wasted on
//! tasks that another worker claimed first.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use weaver_core::clock::ManualClock;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::LeaseRequest;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::queue::Queue;
use weaver_core::task::NewTask;
use weaver_dynamodb::DynamoStore;

const WORKERS: usize = 16;
const TASKS: usize = 500;

/// Claims tasks one by one until none is left; returns them, and the number of failed conditional writes.
async fn claim_all(store: DynamoStore, number: usize) -> (Vec<TaskKey>, u64) {
    let before = store.usage().condition_failures;
    let mut claimed = Vec::new();
    let mut empty = 0;
    for call in 0_u128.. {
        let worker = WorkerId::try_from(format!("runner-{number}").as_str()).expect("as set up");
        let token = LeaseToken(1 + call * WORKERS as u128 + number as u128);
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        let leased = store.lease(request).await.expect("as set up");
        // A worker may lose every race of a call: it stops after two empty calls.
        empty = if leased.is_empty() { empty + 1 } else { 0 };
        if empty == 2 {
            break;
        }
        claimed.extend(leased.into_iter().map(|leased| leased.lease.key));
    }
    (claimed, store.usage().condition_failures - before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_workers_claim_five_hundred_tasks_once_each_and_waste_few_writes() {
    let database = support::database();
    let clock = Arc::new(ManualClock::default());
    let producer = support::open(&database, clock.clone()).await;
    let enqueued = producer.enqueue_batch(vec![NewTask::new("t"); TASKS]).await.expect("as set up");
    let enqueued: BTreeSet<TaskKey> =
        enqueued.into_iter().map(|answer| answer.expect("as set up").key).collect();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..WORKERS {
        // Each with its own caches, like a process.
        let store = support::open(&database, clock.clone()).await;
        workers.spawn(claim_all(store, number));
    }
    let (mut claimed, mut wasted) = (Vec::new(), 0);
    while let Some(done) = workers.join_next().await {
        let (keys, refused) = done.expect("as set up");
        claimed.extend(keys);
        wasted += refused;
    }
    assert_eq!(claimed.len(), TASKS, "a task was claimed twice or not at all");
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), enqueued);
    println!("{wasted} wasted writes for {TASKS} claims");
    assert!(wasted * 4 < TASKS as u64, "{wasted} wasted writes for {TASKS} claims");
}
