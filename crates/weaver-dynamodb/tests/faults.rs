//! A bad line to DynamoDB, and items that do not fit: what is answered is true, and nothing is done twice.

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

/// A store behind a line with a plan.
struct ProxyHarness {
    store: DynamoStore,
    clock: ManualClock,
    seed: SeedClient,
    _line: Proxy,
}

async fn harness(plan: impl Fn(&Request<'_>) -> Fault + Send + Sync + 'static) -> ProxyHarness {
    patient_harness(Duration::from_secs(30), plan).await
}

async fn patient_harness(
    answer_within: Duration,
    plan: impl Fn(&Request<'_>) -> Fault + Send + Sync + 'static,
) -> ProxyHarness {
    let (database, clock) = (support::database(), ManualClock::default());
    drop(support::connect(&database).await);
    let line = Proxy::before(&database, plan).await;
    let mut connection = line.connection(&database);
    connection.answer_within = answer_within;
    let db = Arc::new(connection.open().expect("the proxy is local"));
    let store = DynamoStore::new(db, Arc::new(clock.clone()), DynamoOptions::default());
    ProxyHarness { store, clock, seed: SeedClient::new(&database), _line: line }
}

/// The first `count` requests of a kind have this fault. The kind is an operation and a word of its body.
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
async fn a_throttled_request_is_sent_again_and_counted() {
    let harness = harness(first(3, "PutItem", "pm-runner-queue", THROTTLED)).await;
    let key = harness.store.enqueue(NewTask::new("t")).await.expect("it is stored in the end").key;
    assert_eq!(harness.all().await, [(key, TaskState::Queued)]);
    let usage = harness.store.usage();
    assert_eq!((usage.throttled, usage.repeated), (3, 3));
}

#[tokio::test]
async fn who_is_throttled_for_good_is_told_so() {
    let harness = harness(first(u64::MAX, "PutItem", "pm-runner-queue", THROTTLED)).await;
    let refused = harness.store.enqueue(NewTask::new("t")).await.expect_err("it is never stored");
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused:?}");
    assert!(refused.to_string().contains("ProvisionedThroughputExceededException"), "{refused}");
    assert_eq!(harness.store.usage().throttled, 8);
    assert!(harness.all().await.is_empty());
}

#[tokio::test]
async fn a_task_whose_answer_got_lost_is_stored_once() {
    let harness = harness(first(2, "PutItem", "pm-runner-queue", Fault::AnswerLost)).await;
    let answer = harness.store.enqueue(NewTask::new("t")).await.expect("as set up");
    assert!(!answer.existing);
    assert_eq!(harness.all().await, [(answer.key, TaskState::Queued)]);
    assert_eq!(harness.store.usage().refused, 0, "it was no race");
}

#[tokio::test]
async fn a_task_with_keys_whose_answer_got_lost_is_stored_once_and_is_the_first() {
    let harness = harness(first(1, "TransactWriteItems", "", Fault::AnswerLost)).await;
    let task = NewTask::new("t").idempotency_key("order-1").serial_key("customer-1");
    let first = harness.store.enqueue(task.clone()).await.expect("as set up");
    assert!(!first.existing, "the caller's own task is not somebody else's");
    let again = harness.store.enqueue(task).await.expect("as set up");
    assert_eq!((again.key, again.existing), (first.key, true));
    assert_eq!(harness.all().await.len(), 1);
}

#[tokio::test]
async fn a_claim_whose_answer_got_lost_is_the_callers() {
    for (operation, task) in
        [("UpdateItem", NewTask::new("t")), ("TransactWriteItems", NewTask::new("t").serial_key("k"))]
    {
        let harness = harness(first(1, operation, "lease_token", Fault::AnswerLost)).await;
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
async fn an_end_whose_answer_got_lost_is_applied_and_published_once() {
    for (operation, task) in
        [("PutItem", NewTask::new("t")), ("TransactWriteItems", NewTask::new("t").serial_key("k"))]
    {
        let harness = harness(first(1, operation, "COMPLETE", Fault::AnswerLost)).await;
        let Changes::Next { next, .. } = harness.store.changes(None, 10).await.expect("as set up") else {
            panic!("nothing was forgotten yet")
        };
        harness.store.enqueue(task).await.expect("as set up");
        let leased = harness.store.lease(request(1)).await.expect("as set up");
        let ended = harness.store.commit(vec![end_of(&leased[0])], None).await.expect("as set up");
        assert_eq!(ended, [Committed::Applied { version: Version(3) }], "{operation}");
        let Changes::Next { items, .. } = harness.store.changes(Some(next), 10).await.expect("as set up")
        else {
            panic!("{operation}: a process that is alone forgets nothing")
        };
        let states: Vec<_> = items.iter().map(|change| change.state).collect();
        assert_eq!(states, [TaskState::Queued, TaskState::Running, TaskState::Succeeded], "{operation}");
        let repeated = harness.store.commit(vec![end_of(&leased[0])], None).await.expect("as set up");
        assert_eq!(repeated, [Committed::AlreadyApplied], "{operation}");
    }
}

#[tokio::test]
async fn settings_and_documents_whose_answers_got_lost_are_no_conflicts() {
    let harness = harness(first(1, "UpdateItem", "settings_version", Fault::AnswerLost)).await;
    let (namespace, queue) = (Namespace::default(), QueueName::default());
    let settings = QueueSettings { paused: true, max_running: None };
    let version = harness.store.put_queue(&namespace, &queue, settings, Expect::Absent).await;
    assert_eq!(version.expect("nobody else set it"), Version(1));

    let harness = self::harness(first(1, "UpdateItem", "body", Fault::AnswerLost)).await;
    let key = DocumentKey { namespace, kind: "k".to_owned(), id: "d".to_owned() };
    let version = harness.store.put_document(&key, "{}".into(), Expect::Absent, None).await;
    assert_eq!(version.expect("nobody else put it"), Version(1));
    let version = harness.store.put_document(&key, "{}".into(), Expect::Version(Version(1)), None).await;
    assert_eq!(version.expect("it is the first"), Version(2));
}

#[tokio::test]
async fn counts_whose_answer_got_lost_count_once() {
    let harness = harness(first(1, "UpdateItem", "n_queued", Fault::AnswerLost)).await;
    harness.store.enqueue(NewTask::new("t")).await.expect("as set up");
    let counts = harness.store.counts(Scope::Namespace(Namespace::default())).await.expect("as set up");
    assert_eq!(counts.values.total(), 1);
}

#[tokio::test]
async fn a_call_that_was_carried_out_says_so_even_if_its_counts_cannot_be_added_up() {
    let harness =
        harness(first(u64::MAX, "UpdateItem", "n_queued", Fault::Refused("AccessDeniedException"))).await;
    harness.store.enqueue(NewTask::new("t")).await.expect("the task is stored");
    let refused = harness.store.counts(Scope::Namespace(Namespace::default())).await;
    assert!(refused.is_err(), "who asks for counts is told");
}

#[tokio::test]
async fn what_a_process_that_died_had_not_counted_is_counted_anew() {
    let (database, clock) = (support::database(), Arc::new(ManualClock::default()));
    let dying = support::open(&database, clock.clone()).await;
    dying.enqueue(NewTask::new("t")).await.expect("as set up");
    // Within the second after its last sum.
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
async fn an_answer_that_never_comes_is_asked_for_again() {
    let harness =
        patient_harness(Duration::from_millis(300), first(1, "PutItem", "pm-runner-queue", Fault::Silence))
            .await;
    harness.store.enqueue(NewTask::new("t")).await.expect("as set up");
    assert_eq!(harness.all().await.len(), 1);
    assert_eq!(harness.store.usage().repeated, 1);
}

#[tokio::test]
async fn who_never_gets_an_answer_is_told_where_and_why() {
    let harness = patient_harness(Duration::from_millis(20), |_| Fault::Silence).await;
    let refused = harness.store.enqueue(NewTask::new("t")).await.expect_err("nobody answers");
    assert!(refused.to_string().contains("no answer in time"), "{refused}");
    assert!(refused.to_string().contains("http://127.0.0.1:"), "{refused}");
}

#[tokio::test]
async fn what_a_batch_left_undone_is_asked_for_again() {
    let harness = harness(first(3, "BatchGetItem", "pm-runner-queue", Fault::HalfDone)).await;
    let stored = harness.store.enqueue_batch(vec![NewTask::new("t"); 10]).await.expect("as set up");
    let keys: Vec<TaskKey> = stored.into_iter().map(|stored| stored.expect("as set up").key).collect();
    let found = harness.store.get_tasks(&keys).await.expect("as set up");
    assert!(found.iter().all(Option::is_some), "{found:?}");
    assert_eq!(harness.store.usage().of("BatchGetItem"), 4);
    assert_eq!(harness.store.usage().throttled, 3, "as good as throttled");
}

#[tokio::test]
async fn what_a_purge_left_undone_is_asked_for_again() {
    let harness = harness(first(2, "BatchWriteItem", "", Fault::HalfDone)).await;
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
async fn an_item_of_others_that_would_not_fit_with_ours_is_left_alone_and_in_nobodys_way() {
    let harness = harness(|_| Fault::None).await;
    // With the other attributes of the seed a little less than the 409,600 bytes there are.
    let huge = "x".repeat(409_200);
    harness.seed.put_task("default", "task-huge", "QUEUED", &[("prompt", &huge)]).await;
    harness.seed.put_task("default", "task-001", "QUEUED", &[]).await;
    harness.clock.advance(Duration::from_secs(2));
    let leased = harness.store.lease(request(1)).await.expect("the others are found");
    assert_eq!(leased.len(), 1);
    assert_eq!(harness.seed.task("default", "task-huge").await["status"], "QUEUED");
}
