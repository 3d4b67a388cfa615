//! Enqueuing tasks and awaiting their results.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weaver_core::clock::ManualClock;
use weaver_core::prelude::*;
use weaver_core::queue::memory::MemoryOptions;
use weaver_core::task::{CancelReason, Cause};
use weaver_runtime::testing::TestQueue;
use weaver_runtime::{Client, NoResult, TaskHandle};
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

const HOUR: Duration = Duration::from_secs(3600);

/// Leases the next due task of the default queue.
async fn lease(queue: &TestQueue, token: u128) -> Leased {
    let worker = WorkerId::new("w").expect("it is a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
    queue.store().dequeue_ready(request).await.expect("memory answers").expect("a task is due")
}

async fn succeed(queue: &TestQueue, result: &'static str) {
    let leased = lease(queue, 1).await;
    queue.store().mark_succeeded(&leased, Some(result.into())).await.expect("the lease is valid");
}

/// A wait that the test polls itself, so that it is deterministic.
fn waiting(handle: &TaskHandle) -> BoxFuture<'static, TaskRecord> {
    let handle = handle.clone();
    async move { handle.wait().await.expect("the store answers") }.boxed()
}

fn client_of_faulty(
    queue: &TestQueue,
    lag: &ManualClock,
    plan: impl Fn(&CallSite) -> Fault + Send + Sync + 'static,
) -> Client {
    let store = FaultyStore::new(queue.store(), Arc::new(lag.clone()), plan);
    Client::new(Arc::new(store), Arc::new(queue.clock().clone()))
}

#[tokio::test]
async fn a_wait_ends_with_the_task_and_without_time_passing() {
    let queue = TestQueue::new();
    let handle = queue.client().enqueue(NewTask::new("greet")).await.unwrap();
    assert_eq!(handle.status().await.unwrap().state, TaskState::Queued);
    let (record, ()) = tokio::join!(waiting(&handle), succeed(&queue, "1"));
    assert_eq!((record.key, record.state), (handle.key().clone(), TaskState::Succeeded));
}

#[tokio::test]
async fn a_wait_does_not_end_with_another_task() {
    let queue = TestQueue::new();
    let handle = queue.client().enqueue(NewTask::new("greet").priority(9)).await.unwrap();
    let mut wait = waiting(&handle);
    assert!((&mut wait).now_or_never().is_none());
    queue.client().enqueue(NewTask::new("other").priority(0)).await.unwrap();
    succeed(&queue, "1").await;
    assert!((&mut wait).now_or_never().is_none());
}

/// The read of the change log is delayed while the task ends: first the one that fixes the cursor, then the
/// one after the record was read. Only if the cursor is taken before the record is read does the end lie
/// ahead in both cases.
#[tokio::test]
async fn an_end_between_reading_the_record_and_waiting_is_not_missed() {
    for held_up in [1, 2] {
        let (queue, lag) = (TestQueue::new(), ManualClock::default());
        let client = client_of_faulty(&queue, &lag, move |site| match site {
            CallSite { method: "changes", number } if *number == held_up => Fault::Delay(HOUR),
            _ => Fault::None,
        });
        let handle = client.enqueue(NewTask::new("greet")).await.unwrap();
        let mut wait = waiting(&handle);
        assert!((&mut wait).now_or_never().is_none());
        succeed(&queue, "1").await;
        assert!((&mut wait).now_or_never().is_none(), "call {held_up} was not held up");
        lag.advance(HOUR);
        assert!((&mut wait).now_or_never().is_some(), "missed while call {held_up} was held up");
    }
}

#[tokio::test]
async fn without_events_the_record_is_read_again_every_five_seconds() {
    let (queue, lag) = (TestQueue::new(), ManualClock::default());
    let client = client_of_faulty(&queue, &lag, |site| match site.method {
        "wait" => Fault::Delay(HOUR),
        _ => Fault::None,
    });
    let handle = client.enqueue(NewTask::new("greet")).await.unwrap();
    let mut wait = waiting(&handle);
    assert!((&mut wait).now_or_never().is_none());
    queue.clock().advance(Duration::from_secs(5));
    assert!((&mut wait).now_or_never().is_none(), "it has not ended");
    succeed(&queue, "1").await;
    queue.clock().advance(Duration::from_millis(4_999));
    assert!((&mut wait).now_or_never().is_none(), "no event arrived");
    queue.clock().advance(Duration::from_millis(1));
    assert!((&mut wait).now_or_never().is_some());
}

#[tokio::test]
async fn a_wait_that_missed_events_reads_the_record_again() {
    let queue = TestQueue::with_options(MemoryOptions { change_log_capacity: 1, ..MemoryOptions::default() });
    let handle = queue.client().enqueue(NewTask::new("greet")).await.unwrap();
    let mut wait = waiting(&handle);
    assert!((&mut wait).now_or_never().is_none());
    succeed(&queue, "1").await;
    // Pushes the end out of the change log.
    queue.client().enqueue(NewTask::new("other")).await.unwrap();
    assert!((&mut wait).now_or_never().is_some());
}

#[tokio::test]
async fn a_wait_with_a_timeout_ends_by_the_clients_clock() {
    let queue = TestQueue::new();
    let handle = queue.client().enqueue(NewTask::new("greet")).await.unwrap();
    let mut wait = handle.wait_timeout(Duration::from_secs(7)).boxed();
    assert!((&mut wait).now_or_never().is_none());
    queue.clock().advance(Duration::from_secs(5));
    assert!((&mut wait).now_or_never().is_none(), "a poll does not restart the timeout");
    queue.clock().advance(Duration::from_secs(2));
    assert_eq!((&mut wait).now_or_never().expect("the time is over").unwrap(), None);
    succeed(&queue, "1").await;
    let ended = handle.wait_timeout(Duration::ZERO).await.unwrap().expect("it has ended");
    assert_eq!(ended.state, TaskState::Succeeded);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_an_error_and_the_wait_can_be_repeated() {
    let (queue, lag) = (TestQueue::new(), ManualClock::default());
    let client = client_of_faulty(&queue, &lag, |site| match site {
        CallSite { method: "get_tasks", number: 1 } => Fault::FailBefore,
        _ => Fault::None,
    });
    let handle = client.enqueue(NewTask::new("greet")).await.unwrap();
    succeed(&queue, "1").await;
    assert!(matches!(handle.wait().await, Err(Error::Unavailable { .. })));
    assert_eq!(handle.wait().await.unwrap().state, TaskState::Succeeded);
}

#[tokio::test]
async fn a_result_is_what_the_handler_returned() {
    let queue = TestQueue::new();
    let handle = queue.client().enqueue(NewTask::new("greet")).await.unwrap();
    succeed(&queue, "[1,2]").await;
    assert_eq!(handle.result::<Vec<u8>>().await.unwrap(), [1, 2]);
    let error = handle.result::<String>().await.unwrap_err();
    assert!(matches!(error, NoResult::Undecodable { bytes: 5, .. }), "{error}");

    let handle = queue.client().enqueue(NewTask::new("greet")).await.unwrap();
    let leased = lease(&queue, 2).await;
    queue.store().mark_succeeded(&leased, None).await.unwrap();
    handle.result::<()>().await.expect("nothing is `()`");
}

#[tokio::test]
async fn a_dead_task_has_no_result_but_its_last_error() {
    let queue = TestQueue::new();
    let handle = queue.client().enqueue(NewTask::new("greet").max_attempts(1)).await.unwrap();
    let leased = lease(&queue, 1).await;
    queue.store().mark_failed(&leased, "no such host").await.unwrap();
    let error = handle.result::<()>().await.unwrap_err();
    assert!(matches!(error, NoResult::Failed { failures: 1, cause: Some(Cause::Failed), .. }), "{error:?}");
    assert_eq!(error.to_string(), "task default/1 is dead (failed): no such host");
}

#[tokio::test]
async fn a_cancelled_task_has_no_result_and_says_who_cancelled_it() {
    let queue = TestQueue::new();
    let handle = queue.client().enqueue(NewTask::new("greet")).await.unwrap();
    handle.cancel().await.unwrap();
    let error = handle.result::<()>().await.unwrap_err();
    let cause = Some(Cause::Cancelled(CancelReason::User));
    assert_eq!(error, NoResult::Cancelled { key: handle.key().clone(), cause, last_error: None });
    assert_eq!(error.to_string(), "task default/1 was cancelled (cancelled by a user)");
    assert!(matches!(handle.cancel().await, Err(Error::Refused { .. })));
}

#[tokio::test]
async fn a_second_enqueue_with_the_same_key_returns_the_first_task_and_says_so() {
    let client = TestQueue::new().client();
    let task = || NewTask::new("greet").idempotency_key("once");
    let first = client.enqueue(task()).await.unwrap();
    let second = client.enqueue(task()).await.unwrap();
    assert_eq!((first.existing(), second.existing()), (false, true));
    assert_eq!(first.key(), second.key());
}

#[tokio::test]
async fn a_batch_answers_in_order_and_one_invalid_member_stores_nothing() {
    let queue = TestQueue::new();
    let tasks = ["a", "b", "c"].map(NewTask::new);
    let handles = queue.client().enqueue_batch(tasks.to_vec()).await.unwrap();
    for (handle, name) in handles.iter().zip(["a", "b", "c"]) {
        let record = queue.store().get_task(handle.key()).await.unwrap();
        assert_eq!(record.spec.envelope.task_type.as_str(), name);
    }
    let refused = queue.client().enqueue_batch(vec![NewTask::new("d"), NewTask::new("")]).await;
    assert!(matches!(refused, Err(Error::Invalid(invalid)) if invalid.index == Some(1)));
    assert_eq!(queue.enqueued().await.len(), 3);
}

#[tokio::test]
async fn a_task_enqueued_by_another_client_can_be_awaited() {
    let queue = TestQueue::new();
    let key = queue.store().enqueue(NewTask::new("greet")).await.unwrap().key;
    succeed(&queue, "\"hello\"").await;
    assert_eq!(queue.client().handle(key).result::<String>().await.unwrap(), "hello");
}
