//! Cancelled calls: a call's future is dropped at each of its requests in turn, which is applied and not
//! answered. Every task can still be finished afterwards, and every serial key and slot is released.

mod support;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use weaver_core::clock::ManualClock;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Admin, Expect, QueueSettings, TaskQuery, Tasks};
use weaver_core::queue::Queue;
use weaver_core::task::NewTask;
use weaver_dynamodb::{DynamoOptions, DynamoStore};

use support::proxy::{Fault, Proxy, Request};

/// A store behind a proxy that does not answer the request with a given number.
struct ProxyHarness {
    store: DynamoStore,
    clock: ManualClock,
    left: Arc<AtomicI64>,
    proxy: Proxy,
}

async fn harness() -> ProxyHarness {
    let (database, clock) = (support::database(), ManualClock::default());
    drop(support::connect(&database).await);
    let left = Arc::new(AtomicI64::new(-1));
    let counter = Arc::clone(&left);
    let plan = move |_: &Request<'_>| {
        if counter.fetch_sub(1, Ordering::SeqCst) == 0 { Fault::NoResponse } else { Fault::None }
    };
    let proxy = Proxy::before(&database, plan).await;
    let db = Arc::new(proxy.connection(&database).open().expect("the proxy is local"));
    let store = DynamoStore::new(db, Arc::new(clock.clone()), DynamoOptions::default());
    let settings = QueueSettings { paused: false, max_running: Some(5), ..QueueSettings::default() };
    store
        .put_queue(&Namespace::default(), &QueueName::default(), settings, Expect::Anything)
        .await
        .expect("as set up");
    ProxyHarness { store, clock, left, proxy }
}

/// One task without a key, two with one, and one that is unique.
fn tasks() -> Vec<NewTask> {
    let serial = || NewTask::new("t").serial_key("k");
    vec![
        NewTask::new("t"),
        serial(),
        serial(),
        NewTask::new("t").idempotency_key("once").label("colour", "red"),
    ]
}

fn end_of(leased: &Leased) -> Transition {
    weaver_testkit::harness::end_of(leased, Outcome::DONE)
}

impl ProxyHarness {
    /// Makes a call and drops it at its request with this number; `Some` if it has fewer requests.
    async fn dropped_at<T>(&self, number: i64, call: impl Future<Output = T>) -> Option<T> {
        self.left.store(number, Ordering::SeqCst);
        let answer = tokio::select! {
            biased;
            () = self.proxy.held.notified() => None,
            answer = call => Some(answer),
        };
        self.left.store(-1, Ordering::SeqCst);
        answer
    }

    async fn lease(&self, token: u128) -> Vec<Leased> {
        let worker = WorkerId::new("w").expect("as set up");
        let request =
            LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
        self.store.lease(LeaseRequest { max: 10, slots: 10, ..request }).await.expect("as set up")
    }

    /// Acts as a worker: expires overdue leases, leases tasks and finishes them.
    async fn work_until_all_have_ended(&self, what: &str) {
        for round in 0..12 {
            self.clock.advance(Duration::from_secs(31));
            for overdue in self.store.overdue(10).await.expect("as set up") {
                let command = Command::Expire(overdue.reason);
                if let Ok(transition) = decide(&overdue.record, command, overdue.record.updated_at) {
                    let _ = self.store.commit(vec![transition], None).await.expect("as set up");
                }
            }
            let leased = self.lease(1000 + round).await;
            let _ = self.store.commit(leased.iter().map(end_of).collect(), None).await.expect("as set up");
            let query = TaskQuery::new(Namespace::default());
            let records = self.store.list_tasks(query).await.expect("as set up").items;
            if records.len() >= tasks().len() && records.iter().all(|record| record.state.is_terminal()) {
                let queues = self.store.list_queues(&Namespace::default()).await.expect("as set up");
                assert_eq!(queues[0].occupied, 0, "{what}: a slot is still taken");
                return;
            }
        }
        panic!("{what}: a task never ends");
    }
}

/// Drops a call at its first request, then at its second, and so on to its end, each on a fresh store.
async fn drop_everywhere<F, Fut>(name: &str, call: F)
where
    F: Fn(Arc<ProxyHarness>, i64) -> Fut,
    Fut: Future<Output = bool>,
{
    for number in 0.. {
        let harness = Arc::new(harness().await);
        let was_dropped = call(Arc::clone(&harness), number).await;
        harness.work_until_all_have_ended(&format!("{name} dropped at request {number}")).await;
        if !was_dropped {
            assert!(number > 2, "{name} has {number} requests only: nothing was dropped");
            return;
        }
    }
}

async fn enqueue(harness: Arc<ProxyHarness>, number: i64) -> bool {
    let was_dropped = harness.dropped_at(number, harness.store.enqueue_batch(tasks())).await.is_none();
    // A caller without an answer repeats its call.
    harness.store.enqueue_batch(tasks()).await.expect("as set up");
    was_dropped
}

async fn lease(harness: Arc<ProxyHarness>, number: i64) -> bool {
    harness.store.enqueue_batch(tasks()).await.expect("as set up");
    harness.dropped_at(number, harness.lease(1)).await.is_none()
}

async fn commit(harness: Arc<ProxyHarness>, number: i64) -> bool {
    harness.store.enqueue_batch(tasks()).await.expect("as set up");
    let ends = harness.lease(1).await.iter().map(end_of).collect();
    harness.dropped_at(number, harness.store.commit(ends, None)).await.is_none()
}

#[tokio::test]
async fn an_enqueue_that_is_dropped_half_way_breaks_nothing() {
    drop_everywhere("enqueue", enqueue).await;
}

#[tokio::test]
async fn a_lease_call_that_is_dropped_half_way_breaks_nothing() {
    drop_everywhere("lease", lease).await;
}

#[tokio::test]
async fn a_commit_that_is_dropped_half_way_breaks_nothing() {
    drop_everywhere("commit", commit).await;
}
