//! Adoption of other clients' items when things go wrong: bad items, strange times of creation, collisions,
//! failures, cancelled calls and several processes at once. No item stops the others, and the tasks of a
//! session keep their order.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::error::{Error, Result};
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{TaskQuery, Tasks, UnreadableRecords};
use weaver_core::queue::Queue;
use weaver_dynamodb::db::Transacted;
use weaver_dynamodb::{Connection, DynamoOptions, DynamoStore};
use weaver_testkit::harness::end_of;

use support::scripted::Scripted;
use support::seed::SeedClient;

/// A process, and a client that knows only the seed.
struct Adopter {
    database: Connection,
    store: DynamoStore,
    seed: SeedClient,
    clock: ManualClock,
    calls: AtomicU32,
}

impl Adopter {
    async fn new() -> Self {
        let (database, clock) = (support::database(), ManualClock::default());
        let store = support::open(&database, Arc::new(clock.clone())).await;
        Self { seed: SeedClient::new(&database), database, store, clock, calls: AtomicU32::default() }
    }

    /// The same, with a script for its transactions.
    async fn scripted(
        script: impl FnMut(&str) -> Option<Result<Transacted>> + Send + 'static,
    ) -> (Self, Arc<Scripted>) {
        let (database, clock) = (support::database(), ManualClock::default());
        let db = Arc::new(Scripted::new(support::connect(&database).await, script));
        let store = DynamoStore::new(db.clone(), Arc::new(clock.clone()), DynamoOptions::default());
        let seed = SeedClient::new(&database);
        (Self { seed, database, store, clock, calls: AtomicU32::default() }, db)
    }

    /// Another process on the same tables.
    async fn second(&self) -> DynamoStore {
        support::open(&self.database, Arc::new(self.clock.clone())).await
    }

    async fn put(&self, task_id: &str, session: &str, created_ms: u64) {
        self.put_at(task_id, session, &instant(created_ms)).await;
    }

    async fn put_at(&self, task_id: &str, session: &str, created_at: &str) {
        let attributes = [("session_id", session), ("created_at", created_at)];
        self.seed.put_task("default", task_id, "QUEUED", &attributes).await;
    }

    /// An item with an attribute that is not a string.
    async fn put_with(&self, task_id: &str, created_ms: u64, name: &str, value: AttributeValue) {
        let mut request = self.seed.0.put_item().table_name("pm-runner-queue");
        let created_at = instant(created_ms);
        for (name, value) in [
            ("namespace", "default"),
            ("task_id", task_id),
            ("session_id", "s"),
            ("status", "QUEUED"),
            ("prompt", "write a test"),
            ("created_at", &created_at),
        ] {
            request = request.item(name, AttributeValue::S(value.to_owned()));
        }
        request.item(name, value).send().await.expect("the item is valid");
    }

    fn request(&self, max: u32) -> LeaseRequest {
        let token = LeaseToken(u128::from(self.calls.fetch_add(1, Ordering::Relaxed)) + 1);
        let worker = WorkerId::new("runner-1").expect("as set up");
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        LeaseRequest { max, slots: max, ..request }
    }

    /// Polls, as other clients' items are once a second, and leases.
    async fn lease(&self, max: u32) -> Vec<Leased> {
        self.clock.advance(Duration::from_secs(1));
        self.store.lease(self.request(max)).await.expect("as set up")
    }

    async fn finish(&self, leased: &Leased) {
        finish(&self.store, leased).await;
    }

    /// Runs one task after another until so many have run; their ids in order.
    async fn run(&self, count: usize) -> Vec<String> {
        let mut ran = Vec::new();
        for _ in 0..50 {
            for leased in self.lease(10).await {
                ran.push(name(&leased));
                self.finish(&leased).await;
            }
            if ran.len() >= count {
                break;
            }
        }
        ran
    }
}

async fn finish(store: &DynamoStore, leased: &Leased) {
    let _ = store.commit(vec![end_of(leased, Outcome::DONE)], None).await.expect("as set up");
}

/// So many milliseconds after the clock's start, as the seed writes it.
fn instant(ms: u64) -> String {
    support::seed_instant(ManualClock::default().now().saturating_add(Duration::from_millis(ms)))
}

fn name(leased: &Leased) -> String {
    leased.record.shown_id()
}

fn names(leased: &[Leased]) -> Vec<String> {
    leased.iter().map(name).collect()
}

#[tokio::test]
async fn bad_items_stop_neither_their_session_nor_another_one() {
    let adopter = Adopter::new().await;
    adopter.put("first", "s", 0).await;
    let number = |text: &str| AttributeValue::N(text.to_owned());
    adopter.put_with("newer", 1, "format", number("99")).await;
    adopter.put_with("odd-prompt", 2, "prompt", number("7")).await;
    adopter.put_with("odd-format", 3, "format", AttributeValue::Bool(true)).await;
    adopter.put("control\u{7}", "s", 4).await;
    // Valid for its client, and too large with the attributes of a task.
    let large = AttributeValue::S("x".repeat(400 * 1024 - 300));
    adopter.put_with("large", 5, "prompt", large).await;
    adopter.put("second", "s", 6).await;
    adopter.put("elsewhere", "t", 7).await;
    let leased = adopter.lease(10).await;
    assert_eq!(names(&leased), ["first", "elsewhere"]);
    adopter.finish(&leased[0]).await;
    assert_eq!(names(&adopter.lease(10).await), ["second"]);
    let page = adopter.store.list_quarantined(Some(&Namespace::default()), None, 10).await;
    let mut listed: Vec<String> = page.expect("as set up").items.into_iter().map(|each| each.id).collect();
    listed.sort();
    assert_eq!(listed, ["control\u{7}", "newer", "odd-format", "odd-prompt"]);
    for id in ["newer", "odd-prompt", "large"] {
        let item = adopter.seed.task("default", id).await;
        assert_eq!((item["status"].as_str(), item.contains_key("state")), ("QUEUED", false), "{id}");
    }
}

#[tokio::test]
async fn what_is_no_valid_name_is_ignored_and_stays_in_the_item() {
    let adopter = Adopter::new().await;
    let long = "s".repeat(300);
    adopter.put("a", &long, 0).await;
    assert_eq!(names(&adopter.lease(1).await), ["a"]);
    assert_eq!(adopter.seed.task("default", "a").await["session_id"], long);
}

#[tokio::test]
async fn items_with_strange_times_of_creation_run_once_each_and_one_at_a_time() {
    let adopter = Adopter::new().await;
    // A poll has been there: what is dated back is found by the rotation.
    assert!(adopter.lease(1).await.is_empty());
    for (id, created_at) in [
        ("words", "yesterday"),
        ("zero", "0000-00-00T00:00:00.000Z"),
        ("before-1970", "1969-12-31T23:59:59.999Z"),
        ("negative", "-000044-03-15T00:00:00.000Z"),
        ("huge", "99999999999999999999999"),
        ("far", "9999-12-31T23:59:59.999Z"),
        ("farther", "+292277026596-12-04T15:30:07Z"),
        ("future", "2090-01-01T00:00:00.000Z"),
        ("number", "1767225600"),
    ] {
        adopter.put_at(id, "s", created_at).await;
    }
    adopter.put("plain", "s", 500).await;
    let mut ran = adopter.run(10).await;
    let at = |id: &str| ran.iter().position(|ran| ran == id).expect("it has run");
    assert!(at("plain") < at("future"), "{ran:?}");
    ran.sort();
    let mut all =
        ["words", "zero", "before-1970", "negative", "huge", "far", "farther", "future", "number", "plain"];
    all.sort_unstable();
    assert_eq!(ran, all);
}

#[tokio::test]
async fn an_item_without_a_time_of_creation_is_listed_and_stops_nothing() {
    let adopter = Adopter::new().await;
    // It is in no index, also for the seed's own runners.
    let attributes = [
        ("namespace", "default"),
        ("task_id", "undated"),
        ("session_id", "s"),
        ("status", "QUEUED"),
        ("prompt", "x"),
    ];
    adopter.seed.put("pm-runner-queue", &attributes).await;
    adopter.put("dated", "s", 0).await;
    assert_eq!(names(&adopter.lease(10).await), ["dated"]);
    let listed = adopter.store.list_tasks(TaskQuery::new(Namespace::default())).await.expect("as set up");
    let mut listed: Vec<String> = listed.items.iter().map(|record| record.shown_id()).collect();
    listed.sort();
    assert_eq!(listed, ["dated", "undated"]);
}

#[tokio::test]
async fn a_collision_at_the_gate_does_not_let_a_later_task_of_the_session_start_first() {
    let mut left = 3;
    let collide = move |task: &str| {
        let collides = task == "first" && left > 0;
        left -= i32::from(collides);
        collides.then_some(Ok(Transacted::Conflict))
    };
    let (adopter, _) = Adopter::scripted(collide).await;
    adopter.put("first", "s", 0).await;
    adopter.put("second", "s", 1).await;
    assert_eq!(names(&adopter.lease(10).await), ["first"]);
}

#[tokio::test]
async fn an_item_that_could_not_be_adopted_is_adopted_by_the_next_poll_before_later_ones() {
    let fails = Arc::new(AtomicBool::new(true));
    let is_failing = Arc::clone(&fails);
    let fail = move |task: &str| {
        let fails = is_failing.load(Ordering::SeqCst) && task == "first";
        fails.then(|| Err(Error::Unavailable { reason: "throttled".to_owned() }))
    };
    let (adopter, _) = Adopter::scripted(fail).await;
    assert!(adopter.lease(1).await.is_empty());
    // Long ago, behind many others: a poll that went on would find it only by the rotation, after later ones.
    for number in 0..110 {
        let created_at = [("created_at", "2025-06-01T00:00:00.000Z")];
        adopter.seed.put_task("project-b", &format!("old-{number}"), "QUEUED", &created_at).await;
    }
    adopter.put("first", "s", 0).await;
    adopter.clock.advance(Duration::from_secs(3600));
    adopter.put("second", "s", 3_600_000).await;
    adopter.put("elsewhere", "t", 3_600_001).await;
    assert!(adopter.lease(1).await.iter().all(|leased| name(leased) == "elsewhere"), "other sessions go on");
    fails.store(false, Ordering::SeqCst);
    let ran = adopter.run(2).await;
    assert_eq!(ran.iter().filter(|id| *id != "elsewhere").collect::<Vec<_>>(), ["first", "second"]);
}

#[tokio::test]
async fn a_process_polls_a_namespace_once_at_a_time_and_again_after_a_cancelled_poll() {
    let (adopter, db) = Adopter::scripted(|_| None).await;
    adopter.put("theirs", "s", 0).await;
    db.silences_poll.store(true, Ordering::SeqCst);
    let mut first = Box::pin(adopter.lease(1));
    tokio::select! {
        leased = &mut first => panic!("its poll is not answered: {leased:?}"),
        () = db.silenced.notified() => {}
    }
    // Due again, and the first poll is under way: this one neither waits for it nor polls.
    assert!(adopter.lease(1).await.is_empty());
    drop(first);
    assert_eq!(names(&adopter.lease(1).await), ["theirs"], "the cancelled poll has ended");
}

#[tokio::test]
async fn processes_that_adopt_at_once_keep_the_order_of_every_session() {
    const SESSIONS: u64 = 4;
    const TASKS: u64 = 10;
    let adopter = Adopter::new().await;
    let stores = [adopter.second().await, adopter.second().await, adopter.second().await];
    for number in 0..SESSIONS * TASKS {
        // In another order than created, with ids that say nothing.
        let created = (number * 17) % (SESSIONS * TASKS);
        let id = format!("{}-{}", created % SESSIONS, (created * 7) % TASKS);
        adopter.put(&format!("{id}-{created:02}"), &(created % SESSIONS).to_string(), created).await;
    }
    let ran = parking_lot::Mutex::new(HashMap::<String, Vec<String>>::new());
    let count = AtomicU32::default();
    let work = async |store: &DynamoStore| {
        while count.load(Ordering::SeqCst) < (SESSIONS * TASKS) as u32 {
            adopter.clock.advance(Duration::from_millis(400));
            for leased in store.lease(adopter.request(3)).await.expect("as set up") {
                let id = name(&leased);
                let session = id.split('-').next().expect("as set up").to_owned();
                ran.lock().entry(session).or_default().push(id);
                finish(store, &leased).await;
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    tokio::join!(work(&stores[0]), work(&stores[1]), work(&stores[2]));
    for (session, ran) in ran.into_inner() {
        let created: Vec<&str> = ran.iter().map(|id| &id[id.len() - 2..]).collect();
        assert!(created.len() == TASKS as usize && created.is_sorted(), "session {session}: {ran:?}");
    }
}
