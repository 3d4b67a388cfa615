//! A faulty connection to DynamoDB, and items that are too large: results are correct, and nothing is applied
//! twice.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weaver_core::clock::ManualClock;
use weaver_core::error::Error;
use weaver_core::event::Changes;
use weaver_core::id::{LeaseToken, TaskKey, Version};
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::Transition;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{
    Admin, DocumentKey, Documents, Expect, PurgeRule, QueueSettings, Scope, TaskQuery, Tasks,
};
use weaver_core::queue::{Committed, Queue, QueueExt};
use weaver_core::task::{NewTask, TaskState};
use weaver_dynamodb::{DynamoOptions, DynamoStore};

use support::proxy::{Fault, Proxy, Request};
use support::seed::SeedClient;

const THROTTLED: Fault = Fault::Refused("ProvisionedThroughputExceededException");

/// A store behind a proxy that injects faults by a plan.
struct ProxyHarness {
    store: DynamoStore,
    clock: ManualClock,
    seed: SeedClient,
    _proxy: Proxy,
}

async fn harness(plan: impl Fn(&Request<'_>) -> Fault + Send + Sync + 'static) -> ProxyHarness {
    harness_with_timeout(Duration::from_secs(30), plan).await
}

async fn harness_with_timeout(
    request_timeout: Duration,
    plan: impl Fn(&Request<'_>) -> Fault + Send + Sync + 'static,
) -> ProxyHarness {
    let (database, clock) = (support::database(), ManualClock::default());
    drop(support::connect(&database).await);
    let proxy = Proxy::before(&database, plan).await;
    let mut connection = proxy.connection(&database);
    connection.request_timeout = request_timeout;
    let db = Arc::new(connection.open().expect("the proxy is local"));
    let store = DynamoStore::new(db, Arc::new(clock.clone()), DynamoOptions::default());
    ProxyHarness { store, clock, seed: SeedClient::new(&database), _proxy: proxy }
}

/// The first `count` requests with this operation and with `word` in their body get this fault.
fn first(
    count: u64,
    operation: &'static str,
    word: &'static str,
    fault: Fault,
) -> impl Fn(&Request<'_>) -> Fault + Send + Sync + 'static {
    let sent = AtomicU64::new(0);
    move |request| {
        let is_meant = request.operation == operation && request.body.contains(word);
        let is_early = is_meant && sent.fetch_add(1, Ordering::Relaxed) < count;
        if is_early { fault } else { Fault::None }
    }
}

fn request(token: u128) -> LeaseRequest {
    let worker = WorkerId::new("w").expect("as set up");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
    LeaseRequest { max: 10, slots: 10, ..request }
}

fn end_of(leased: &Leased) -> Transition {
    weaver_testkit::harness::end_of(leased, Outcome::DONE)
}

impl ProxyHarness {
    async fn all(&self) -> Vec<(TaskKey, TaskState)> {
        let page = self.store.list_tasks(TaskQuery::new(Namespace::default())).await.expect("as set up");
        page.items.into_iter().map(|record| (record.key, record.state)).collect()
    }
}

#[tokio::test]
async fn a_throttled_request_is_retried_and_counted() {
    let harness = harness(first(3, "PutItem", "pm-runner-queue", THROTTLED)).await;
    let key = harness.store.enqueue(NewTask::new("t")).await.expect("it is stored after the retries").key;
    assert_eq!(harness.all().await, [(key, TaskState::Queued)]);
    let usage = harness.store.usage();
    assert_eq!((usage.throttled, usage.retried), (3, 3));
}

#[tokio::test]
async fn a_request_throttled_for_good_fails_as_unavailable() {
    let harness = harness(first(u64::MAX, "PutItem", "pm-runner-queue", THROTTLED)).await;
    let refused = harness.store.enqueue(NewTask::new("t")).await.expect_err("it is never stored");
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused:?}");
    assert!(refused.to_string().contains("ProvisionedThroughputExceededException"), "{refused}");
    assert_eq!(harness.store.usage().throttled, 8);
    assert!(harness.all().await.is_empty());
}

#[tokio::test]
async fn a_task_whose_response_was_lost_is_stored_once() {
    let harness = harness(first(2, "PutItem", "pm-runner-queue", Fault::ResponseLost)).await;
    let answer = harness.store.enqueue(NewTask::new("t")).await.expect("as set up");
    assert!(!answer.existing);
    assert_eq!(harness.all().await, [(answer.key, TaskState::Queued)]);
    assert_eq!(harness.store.usage().condition_failures, 0, "no condition failed");
}

#[tokio::test]
async fn a_task_with_keys_whose_response_was_lost_is_stored_once_and_is_the_first() {
    let harness = harness(first(1, "TransactWriteItems", "", Fault::ResponseLost)).await;
    let task = NewTask::new("t").idempotency_key("order-1").serial_key("customer-1");
    let first = harness.store.enqueue(task.clone()).await.expect("as set up");
    assert!(!first.existing, "the caller's own task counts as new");
    let again = harness.store.enqueue(task).await.expect("as set up");
    assert_eq!((again.key, again.existing), (first.key, true));
    assert_eq!(harness.all().await.len(), 1);
}

#[tokio::test]
async fn a_claim_whose_response_was_lost_is_the_callers() {
    for (operation, task) in
        [("UpdateItem", NewTask::new("t")), ("TransactWriteItems", NewTask::new("t").serial_key("k"))]
    {
        let harness = harness(first(1, operation, "lease_token", Fault::ResponseLost)).await;
        let key = harness.store.enqueue(task).await.expect("as set up").key;
        let leased = harness.store.lease(request(1)).await.expect("as set up");
        assert_eq!(leased.len(), 1, "{operation}");
        assert_eq!((&leased[0].lease.key, leased[0].lease.version), (&key, Version(2)), "{operation}");
        assert_eq!(leased[0].record.executions, 1, "{operation}");
        let ended = harness.store.commit(vec![end_of(&leased[0])], None).await.expect("as set up");
        assert_eq!(ended, [Committed::Applied { version: Version(3) }], "{operation}");
    }
}

#[tokio::test]
async fn an_end_whose_response_was_lost_is_applied_and_published_once() {
    for (operation, task) in
        [("PutItem", NewTask::new("t")), ("TransactWriteItems", NewTask::new("t").serial_key("k"))]
    {
        let harness = harness(first(1, operation, "COMPLETE", Fault::ResponseLost)).await;
        let Changes::Next { next, .. } = harness.store.changes(None, 10).await.expect("as set up") else {
            panic!("nothing was dropped from the log")
        };
        harness.store.enqueue(task).await.expect("as set up");
        let leased = harness.store.lease(request(1)).await.expect("as set up");
        let ended = harness.store.commit(vec![end_of(&leased[0])], None).await.expect("as set up");
        assert_eq!(ended, [Committed::Applied { version: Version(3) }], "{operation}");
        let Changes::Next { items, .. } = harness.store.changes(Some(next), 10).await.expect("as set up")
        else {
            panic!("{operation}: no other process has written")
        };
        let states: Vec<_> = items.iter().map(|change| change.state).collect();
        assert_eq!(states, [TaskState::Queued, TaskState::Running, TaskState::Succeeded], "{operation}");
        let repeated = harness.store.commit(vec![end_of(&leased[0])], None).await.expect("as set up");
        assert_eq!(repeated, [Committed::AlreadyApplied], "{operation}");
    }
}

#[tokio::test]
async fn settings_and_documents_whose_responses_were_lost_are_no_conflicts() {
    let harness = harness(first(1, "UpdateItem", "settings_version", Fault::ResponseLost)).await;
    let (namespace, queue) = (Namespace::default(), QueueName::default());
    let settings = QueueSettings { paused: true, max_running: None, ..QueueSettings::default() };
    let version = harness.store.put_queue(&namespace, &queue, settings, Expect::Absent).await;
    assert_eq!(version.expect("no other write"), Version(1));

    let harness = self::harness(first(1, "UpdateItem", "body", Fault::ResponseLost)).await;
    let key = DocumentKey { namespace, kind: "k".to_owned(), id: "d".to_owned() };
    let version = harness.store.put_document(&key, "{}".into(), Expect::Absent, None).await;
    assert_eq!(version.expect("no other write"), Version(1));
    let version = harness.store.put_document(&key, "{}".into(), Expect::Version(Version(1)), None).await;
    assert_eq!(version.expect("it is the first"), Version(2));
}

#[tokio::test]
async fn counts_whose_response_was_lost_count_once() {
    let harness = harness(first(1, "UpdateItem", "n_queued", Fault::ResponseLost)).await;
    harness.store.enqueue(NewTask::new("t")).await.expect("as set up");
    let counts = harness.store.counts(Scope::Namespace(Namespace::default())).await.expect("as set up");
    assert_eq!(counts.values.total(), 1);
}

#[tokio::test]
async fn a_call_succeeds_even_if_its_counts_cannot_be_flushed() {
    let harness =
        harness(first(u64::MAX, "UpdateItem", "n_queued", Fault::Refused("AccessDeniedException"))).await;
    harness.store.enqueue(NewTask::new("t")).await.expect("the task is stored");
    let refused = harness.store.counts(Scope::Namespace(Namespace::default())).await;
    assert!(refused.is_err(), "a call for counts fails");
}

#[tokio::test]
async fn a_recount_restores_counts_that_a_dead_process_had_not_flushed() {
    let (database, clock) = (support::database(), Arc::new(ManualClock::default()));
    let dying = support::open(&database, clock.clone()).await;
    dying.enqueue(NewTask::new("t")).await.expect("as set up");
    // Within a second of its last flush.
    dying.enqueue_batch(vec![NewTask::new("t"); 3]).await.expect("as set up");
    drop(dying);
    let store = support::open(&database, clock).await;
    let scope = Scope::Namespace(Namespace::default());
    assert_eq!(store.counts(scope.clone()).await.expect("as set up").values.total(), 1);
    let wrong = store.recount(&Namespace::default()).await.expect("as set up");
    assert_eq!(wrong, [QueueName::default()]);
    assert_eq!(store.counts(scope).await.expect("as set up").values.total(), 4);
    assert!(store.recount(&Namespace::default()).await.expect("as set up").is_empty(), "now it is right");
}

#[tokio::test]
async fn a_request_without_a_response_is_retried() {
    let harness = harness_with_timeout(
        Duration::from_millis(300),
        first(1, "PutItem", "pm-runner-queue", Fault::NoResponse),
    )
    .await;
    harness.store.enqueue(NewTask::new("t")).await.expect("as set up");
    assert_eq!(harness.all().await.len(), 1);
    assert_eq!(harness.store.usage().retried, 1);
}

#[tokio::test]
async fn a_timeout_error_names_the_endpoint_and_the_reason() {
    let harness = harness_with_timeout(Duration::from_millis(20), |_| Fault::NoResponse).await;
    let refused = harness.store.enqueue(NewTask::new("t")).await.expect_err("no response");
    assert!(refused.to_string().contains("request timed out"), "{refused}");
    assert!(refused.to_string().contains("http://127.0.0.1:"), "{refused}");
}

#[tokio::test]
async fn unprocessed_keys_of_a_batch_are_retried() {
    let harness = harness(first(3, "BatchGetItem", "pm-runner-queue", Fault::PartlyProcessed)).await;
    let stored = harness.store.enqueue_batch(vec![NewTask::new("t"); 10]).await.expect("as set up");
    let keys: Vec<TaskKey> = stored.into_iter().map(|stored| stored.expect("as set up").key).collect();
    let found = harness.store.get_tasks(&keys).await.expect("as set up");
    assert!(found.iter().all(Option::is_some), "{found:?}");
    assert_eq!(harness.store.usage().of("BatchGetItem"), 4);
    assert_eq!(harness.store.usage().throttled, 3, "counted as throttled");
}

#[tokio::test]
async fn unprocessed_deletes_of_a_purge_are_retried() {
    let harness = harness(first(2, "BatchWriteItem", "", Fault::PartlyProcessed)).await;
    let task = NewTask::new("t").label("colour", "red").label("size", "small").label("shape", "round");
    let key = harness.store.enqueue(task).await.expect("as set up").key;
    let leased = harness.store.lease(request(1)).await.expect("as set up");
    let _ = harness.store.commit(vec![end_of(&leased[0])], None).await.expect("as set up");
    harness.clock.advance(Duration::from_secs(60));
    let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
    assert_eq!(harness.store.purge_tasks(rule, 10).await.expect("as set up").count, 1);
    assert_eq!(harness.store.usage().of("BatchWriteItem"), 3);
    assert_eq!(harness.store.get_tasks(&[key]).await.expect("as set up"), [None]);
}

#[tokio::test]
async fn a_foreign_item_too_large_to_adopt_is_skipped_and_blocks_no_other_task() {
    let harness = harness(|_| Fault::None).await;
    // With the seed's other attributes, slightly less than the limit of 409,600 bytes.
    let huge = "x".repeat(409_200);
    harness.seed.put_task("default", "task-huge", "QUEUED", &[("prompt", &huge)]).await;
    harness.seed.put_task("default", "task-001", "QUEUED", &[]).await;
    harness.clock.advance(Duration::from_secs(2));
    let leased = harness.store.lease(request(1)).await.expect("the others are found");
    assert_eq!(leased.len(), 1);
    assert_eq!(harness.seed.task("default", "task-huge").await["status"], "QUEUED");
}
