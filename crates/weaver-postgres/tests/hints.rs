//! A waiting worker is woken for a task that it can lease, whatever other hints are sent at the same time.
//! The clocks of waiters stand still, so that they never poll.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Schema;
use weaver_core::clock::ManualClock;
use weaver_core::ports::{Admin, Expect, QueueSettings};
use weaver_core::prelude::*;
use weaver_core::queue::{Interest, Wake};
use weaver_postgres::PostgresStore;
use weaver_runtime::SystemClock;

fn mine() -> QueueName {
    QueueName::new("mine").expect("a name")
}

fn interest() -> Interest {
    Interest::Work { namespace: Namespace::default(), queues: vec![mine()], types: None, fragile: true }
}

async fn enqueue(store: &PostgresStore, queue: &'static str) {
    let stored = store.enqueue_batch(vec![NewTask::new("t").queue(queue)]).await.expect("it answers");
    assert!(stored[0].is_ok());
}

async fn take(store: &PostgresStore, number: u128) -> usize {
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), mine(), worker, LeaseToken(number));
    store.lease(LeaseRequest { max: 10, ..request }).await.expect("it answers").len()
}

/// A node that enqueues, and one that waits and never polls.
async fn nodes(schema: &Schema) -> (PostgresStore, PostgresStore) {
    let enqueuing = PostgresStore::open(schema.options(), Arc::new(SystemClock::new())).await;
    let waiting = PostgresStore::open(schema.options(), Arc::new(ManualClock::default())).await;
    (enqueuing.expect("it opens"), waiting.expect("it opens"))
}

#[tokio::test]
async fn a_task_among_many_of_other_queues_wakes_the_worker_that_waits_for_it() {
    let schema = Schema::new();
    let (enqueuing, waiting) = nodes(&schema).await;
    for (round, store) in [&enqueuing, &waiting].into_iter().cycle().take(20).enumerate() {
        let wait = waiting.wait(interest(), Duration::from_secs(3600));
        let burst = async {
            // A hint replaces the previous one: the waiter may see only the last.
            tokio::join!(enqueue(store, "other"), enqueue(store, "mine"), enqueue(store, "other"));
            enqueue(store, "other").await;
        };
        let (woken, ()) = tokio::join!(wait, burst);
        assert_eq!(woken.expect("it answers"), Wake::Ready);
        assert_eq!(take(&waiting, round as u128 + 1).await, 1, "round {round}");
    }
    schema.drop(enqueuing.pool()).await;
}

#[tokio::test]
async fn fragile_tasks_wake_no_waiter_without_a_slot_and_the_next_task_does() {
    let schema = Schema::new();
    let (_, waiting) = nodes(&schema).await;
    // Moved between enqueues, so that each sends a NOTIFY that names its task.
    let clock = ManualClock::default();
    let enqueuing = PostgresStore::open(schema.options(), Arc::new(clock.clone())).await.expect("it opens");
    let interest =
        Interest::Work { namespace: Namespace::default(), queues: vec![mine()], types: None, fragile: false };
    // Concurrently: a worker that is woken too early finds nothing.
    let wait = async {
        let woken = waiting.wait(interest, Duration::from_secs(3600)).await;
        let worker = WorkerId::new("w").expect("a name");
        let request = LeaseRequest::new(Namespace::default(), mine(), worker, LeaseToken(1));
        let leased = waiting.lease(LeaseRequest { max: 10, slots: 0, ..request }).await;
        (woken, leased.expect("it answers").len())
    };
    let arrivals = async {
        for max_losses in [0; 30].into_iter().chain([1]) {
            clock.advance(Duration::from_secs(1));
            let task = NewTask::new("t").queue("mine").max_losses(max_losses);
            enqueuing.enqueue_batch(vec![task]).await.expect("it answers").remove(0).expect("it is stored");
        }
    };
    let ((woken, leased), ()) = tokio::join!(wait, arrivals);
    assert_eq!(woken.expect("it answers"), Wake::Ready);
    assert_eq!(leased, 1, "it was woken by the sturdy task, and by none before it");
    schema.drop(enqueuing.pool()).await;
}

#[tokio::test]
async fn a_paused_queue_wakes_no_waiter_and_resuming_it_does() {
    let schema = Schema::new();
    let (enqueuing, waiting) = nodes(&schema).await;
    let set = |paused| {
        let settings = QueueSettings { paused, ..QueueSettings::default() };
        let (enqueuing, namespace) = (&enqueuing, Namespace::default());
        async move {
            enqueuing.put_queue(&namespace, &mine(), settings, Expect::Anything).await.expect("it answers")
        }
    };
    set(true).await;
    // Concurrently: a worker that is woken too early finds nothing.
    let wait = async {
        let woken = waiting.wait(interest(), Duration::from_secs(3600)).await;
        (woken, take(&waiting, 1).await)
    };
    let release = async {
        for _ in 0..10 {
            enqueue(&enqueuing, "mine").await;
        }
        set(false).await;
    };
    let ((woken, taken), ()) = tokio::join!(wait, release);
    assert_eq!(woken.expect("it answers"), Wake::Ready);
    assert_eq!(taken, 10, "it was woken by the resume, and by nothing before it");
    schema.drop(enqueuing.pool()).await;
}
