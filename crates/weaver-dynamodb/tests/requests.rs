//! Counts the requests of each call, as documented in `docs/ports-on-dynamodb.md`.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weaver_core::clock::ManualClock;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased, Renewal};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{
    Admin, DocumentKey, Documents, Expect, Journal, PurgeRule, QueueSettings, ReadFrom, Scope, Seq,
    StreamKey, TaskQuery, Tasks,
};
use weaver_core::queue::{Queue, QueueExt};
use weaver_core::task::NewTask;
use weaver_dynamodb::DynamoStore;

struct Count {
    store: DynamoStore,
    clock: ManualClock,
    seen: BTreeMap<&'static str, u64>,
    calls: u128,
}

impl Count {
    /// A store after a first lifecycle, so that requests made once per process or per second are not counted.
    async fn warmed_up() -> Self {
        let clock = ManualClock::default();
        let store = support::open(&support::database(), Arc::new(clock.clone())).await;
        let mut count = Self { store, clock, seen: BTreeMap::new(), calls: 0 };
        count.store.enqueue(NewTask::new("t")).await.expect("as set up");
        let leased = count.lease(1).await;
        let _ = count.store.commit(vec![end(&leased[0])], None).await.expect("as set up");
        count.store.counts(Scope::Namespace(Namespace::default())).await.expect("as set up");
        count.asked();
        count
    }

    async fn lease(&mut self, max: u32) -> Vec<Leased> {
        self.calls += 1;
        let (worker, token) = (WorkerId::new("w").expect("as set up"), LeaseToken(self.calls));
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        self.store.lease(LeaseRequest { max, slots: max, ..request }).await.expect("as set up")
    }

    /// The requests since the last call, by operation.
    fn asked(&mut self) -> Vec<(&'static str, u64)> {
        let now = self.store.usage().requests;
        let before = std::mem::replace(&mut self.seen, now.clone());
        let since = now
            .into_iter()
            .map(|(name, count)| (name, count - before.get(name).copied().unwrap_or_default()));
        since.filter(|(_, count)| *count > 0).collect()
    }
}

fn end(leased: &Leased) -> Transition {
    let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
    decide(&leased.record, command, leased.record.updated_at).expect("as set up")
}

#[tokio::test]
async fn an_unkeyed_lifecycle_makes_the_documented_requests() {
    let mut count = Count::warmed_up().await;
    count.store.enqueue_batch(vec![NewTask::new("t"); 10]).await.expect("as set up");
    assert_eq!(count.asked(), [("PutItem", 10)]);
    let leased = count.lease(10).await;
    // Settings, the index, the plan, and one claim each.
    assert_eq!(count.asked(), [("GetItem", 1), ("PutItem", 1), ("Query", 1), ("UpdateItem", 10)]);
    let _ = count
        .store
        .renew(leased.iter().map(|leased| Renewal::of(leased.lease.clone())).collect())
        .await
        .expect("as set up");
    assert_eq!(count.asked(), [("UpdateItem", 10)]);
    let _ = count.store.commit(leased.iter().map(end).collect(), None).await.expect("as set up");
    // The last task of a lease item removes it.
    assert_eq!(count.asked(), [("DeleteItem", 1), ("PutItem", 10)]);
}

#[tokio::test]
async fn an_end_in_a_process_that_did_not_lease_the_task_reads_it_first() {
    let database = support::database();
    let clock = Arc::new(ManualClock::default());
    let (one, other) = (support::open(&database, clock.clone()).await, support::open(&database, clock).await);
    one.enqueue(NewTask::new("t")).await.expect("as set up");
    let (worker, token) = (WorkerId::new("w").expect("as set up"), LeaseToken(1));
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
    let leased = one.lease(request).await.expect("as set up").remove(0);
    let before = other.usage();
    let _ = other.commit(vec![end(&leased)], None).await.expect("as set up");
    assert_eq!(other.usage().of("GetItem") - before.of("GetItem"), 1);
    assert_eq!(other.usage().of("PutItem") - before.of("PutItem"), 1);
}

#[tokio::test]
async fn a_poll_that_finds_nothing_only_reads() {
    let mut count = Count::warmed_up().await;
    assert!(count.lease(10).await.is_empty());
    // Settings, the index, and whether the token was used before.
    assert_eq!(count.asked(), [("GetItem", 2), ("Query", 1)]);
}

#[tokio::test]
async fn keys_cost_a_transaction_on_enqueue_on_start_and_at_the_end() {
    let mut count = Count::warmed_up().await;
    count.store.enqueue(NewTask::new("t").serial_key("k")).await.expect("as set up");
    assert_eq!(count.asked(), [("TransactWriteItems", 1)]);
    let leased = count.lease(1).await;
    // In addition: the gate is read, the claim is a transaction, and the task is read after it.
    let expected = [("GetItem", 2), ("PutItem", 1), ("Query", 2), ("TransactWriteItems", 1)];
    assert_eq!(count.asked(), expected);
    let _ = count.store.commit(vec![end(&leased[0])], None).await.expect("as set up");
    assert_eq!(count.asked(), [("DeleteItem", 1), ("TransactWriteItems", 1)]);
    count.store.enqueue(NewTask::new("t").idempotency_key("once")).await.expect("as set up");
    assert_eq!(count.asked(), [("GetItem", 1), ("TransactWriteItems", 1)]);
    count.store.enqueue(NewTask::new("t").idempotency_key("once")).await.expect("as set up");
    assert_eq!(count.asked(), [("GetItem", 1)]);
}

#[tokio::test]
async fn finding_overdue_tasks_reads_four_shards_and_writes_nothing() {
    let mut count = Count::warmed_up().await;
    count.store.enqueue_batch(vec![NewTask::new("t"); 3]).await.expect("as set up");
    count.lease(3).await;
    count.asked();
    count.store.overdue(100).await.expect("as set up");
    // Four shards, expiring tasks, and running tasks of other clients.
    assert_eq!(count.asked(), [("BatchGetItem", 1), ("Query", 6)]);
}

#[tokio::test]
async fn the_other_ports_make_the_documented_requests() {
    let mut count = Count::warmed_up().await;
    let space = Namespace::default();
    let key = DocumentKey::new(space.clone(), "kind", "id");
    count.store.put_document(&key, Bytes::from_static(b"x"), Expect::Absent, None).await.expect("as set up");
    assert_eq!(count.asked(), [("UpdateItem", 1)]);
    count.store.get_document(&key).await.expect("as set up");
    assert_eq!(count.asked(), [("GetItem", 1)]);
    let stream = StreamKey::new(space.clone(), "stream");
    count.store.append_entries(&stream, &[Bytes::from_static(b"x")]).await.expect("as set up");
    assert_eq!(count.asked(), [("GetItem", 1), ("TransactWriteItems", 1)]);
    count.store.read_entries(&stream, ReadFrom::After(Seq(0)), 10).await.expect("as set up");
    assert_eq!(count.asked(), [("GetItem", 1), ("Query", 1)]);
    let settings = QueueSettings { paused: true, max_running: None, ..QueueSettings::default() };
    count
        .store
        .put_queue(&space, &QueueName::default(), settings, Expect::Anything)
        .await
        .expect("as set up");
    assert_eq!(count.asked(), [("GetItem", 1), ("UpdateItem", 1)]);
    count.store.list_tasks(TaskQuery::new(space.clone())).await.expect("as set up");
    assert_eq!(count.asked(), [("Query", 1)]);
    let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
    assert_eq!(count.store.purge_tasks(rule, 10).await.expect("as set up").count, 1);
    // The task, its large values and streams, the index for three statuses; then the delete.
    assert_eq!(count.asked(), [("DeleteItem", 1), ("GetItem", 1), ("Query", 5)]);
    count.clock.advance(Duration::from_secs(1));
    count.store.changes(None, 1).await.expect("as set up");
    assert_eq!(count.asked(), [("GetItem", 1)]);
}
