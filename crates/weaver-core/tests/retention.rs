//! Retention of the in-memory store (ADR 0010). Durable stores have their own.

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::ManualClock;
use weaver_core::prelude::*;
use weaver_core::queue::memory::MemoryOptions;
use weaver_core::task::NewTask;

const HOUR: Duration = Duration::from_secs(3600);

fn open(options: MemoryOptions) -> (ManualClock, InMemoryQueue) {
    let clock = ManualClock::default();
    let queue = InMemoryQueue::with_options(Arc::new(clock.clone()), options);
    (clock, queue)
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts").block_on(test);
}

async fn ended(queue: &InMemoryQueue) -> TaskKey {
    let key = queue.enqueue(NewTask::new("t")).await.expect("the task is stored").key;
    queue.cancel(&key).await.expect("it has not ended");
    key
}

async fn is_there(queue: &InMemoryQueue, key: &TaskKey) -> bool {
    queue.get_task(key).await.is_ok()
}

#[test]
fn a_finished_task_is_kept_for_a_day_by_default_and_no_longer() {
    run(async {
        let (clock, queue) = open(MemoryOptions::default());
        let key = ended(&queue).await;
        let live = queue.enqueue(NewTask::new("t")).await.expect("the task is stored").key;
        clock.advance(24 * HOUR - Duration::from_micros(1));
        assert!(is_there(&queue, &key).await);
        clock.advance(Duration::from_micros(1));
        assert!(!is_there(&queue, &key).await);
        assert!(is_there(&queue, &live).await, "what has not ended stays however old it is");
    });
}

#[test]
fn of_too_many_finished_tasks_the_newest_are_kept() {
    run(async {
        let (_, queue) = open(MemoryOptions { retention_count: 3, ..MemoryOptions::default() });
        let mut keys = Vec::new();
        for _ in 0..5 {
            keys.push(ended(&queue).await);
        }
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(is_there(&queue, key).await, index >= 2, "{key}");
        }
    });
}

#[test]
fn a_task_with_a_cancellation_hold_is_kept_until_the_hold_ends() {
    run(async {
        let (clock, queue) = open(MemoryOptions { retention: HOUR, ..MemoryOptions::default() });
        let key = queue.enqueue(NewTask::new("t")).await.expect("the task is stored").key;
        let worker = WorkerId::new("w").expect("a valid name");
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(1));
        let leased = queue.dequeue_ready(request).await.expect("it is valid").expect("a task is due");
        queue.cancel(&key).await.expect("it has not ended");
        clock.advance(2 * HOUR);
        assert!(is_there(&queue, &key).await);
        queue.confirm_stopped(vec![leased.lease]).await.expect("the store answers");
        assert!(!is_there(&queue, &key).await);
    });
}

/// The conformance suite tests that a store reports when there are more; this is core's loop over it.
#[test]
fn a_purge_repeats_batches_until_nothing_is_left() {
    run(async {
        let (_, queue) = open(MemoryOptions::default());
        for _ in 0..1001 {
            ended(&queue).await;
        }
        assert_eq!(queue.purge(&Namespace::default(), Duration::ZERO).await, Ok(1001));
        assert_eq!(queue.counts_by_state(&Namespace::default()).await.expect("it answers").total(), 0);
    });
}
