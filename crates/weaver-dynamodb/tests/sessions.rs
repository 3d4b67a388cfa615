//! Tasks of clients that know only seed 000: one at a time within a session, in the order in which they were
//! created, and only in the namespaces that this process serves.

mod support;

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::{Clock, ManualClock};
use weaver_core::explain::{Reason, explain};
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::{Command, OverdueReason, decide};
use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::Tasks;
use weaver_core::queue::{Interest, Queue, QueueExt, Wake};
use weaver_core::task::{NewTask, TaskState};
use weaver_dynamodb::DynamoStore;
use weaver_testkit::harness::end_of;

use support::seed::SeedClient;

struct Sessions {
    store: DynamoStore,
    seed: SeedClient,
    clock: ManualClock,
    calls: u128,
}

impl Sessions {
    async fn new() -> Self {
        let (database, clock) = (support::database(), ManualClock::default());
        let store = support::open(&database, Arc::new(clock.clone())).await;
        Self { store, seed: SeedClient::new(&database), clock, calls: 0 }
    }

    /// An item that was created so many milliseconds after the clock's start.
    async fn put(&self, task_id: &str, session: &str, created_ms: u64) {
        let created = ManualClock::default().now().saturating_add(Duration::from_millis(created_ms));
        let created = support::seed_instant(created);
        let attributes = [("session_id", session), ("created_at", &created), ("updated_at", &created)];
        self.seed.put_task("default", task_id, "QUEUED", &attributes).await;
    }

    async fn lease(&mut self, max: u32) -> Vec<Leased> {
        // Other clients' tasks are polled once a second.
        self.clock.advance(Duration::from_secs(1));
        self.calls += 1;
        let (worker, token) = (WorkerId::new("runner-1").expect("as set up"), LeaseToken(self.calls));
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        self.store.lease(LeaseRequest { max, slots: max, ..request }).await.expect("as set up")
    }

    async fn finish(&self, leased: &Leased) {
        let _ = self.store.commit(vec![end_of(leased, Outcome::DONE)], None).await.expect("as set up");
    }

    /// The number of attributes of an item, strings only.
    async fn attributes(&self, namespace: &str, task_id: &str) -> usize {
        self.seed.task(namespace, task_id).await.len()
    }
}

fn name(leased: &Leased) -> String {
    let origin = leased.record.spec.origin();
    origin.external_id.as_ref().map_or_else(|| leased.lease.key.id.to_string(), ToString::to_string)
}

#[tokio::test]
async fn tasks_of_a_session_start_in_order_of_creation_and_one_at_a_time() {
    let mut sessions = Sessions::new().await;
    // Written in another order than created, with ids that say nothing; more than one page.
    for number in 0..119_u64 {
        let created = (number * 37) % 119;
        sessions.put(&format!("t-{}", (created * 53) % 119), "s", created).await;
    }
    let mut started = Vec::new();
    for _ in 0..119 {
        let leased = sessions.lease(10).await;
        assert_eq!(leased.len(), 1, "one at a time, after {started:?}");
        started.push(name(&leased[0]));
        assert!(sessions.lease(10).await.is_empty(), "the session is taken");
        sessions.finish(&leased[0]).await;
    }
    let wanted: Vec<String> = (0..119_u64).map(|created| format!("t-{}", (created * 53) % 119)).collect();
    assert_eq!(started, wanted);
}

#[tokio::test]
async fn sessions_are_independent_and_a_prompt_of_weavers_waits_for_its_turn_among_them() {
    let mut sessions = Sessions::new().await;
    sessions.put("42", "one", 0).await;
    sessions.put("b", "two", 1).await;
    let ours = NewTask::new("prompt").session_id("one").json(&"ours").expect("as set up");
    sessions.clock.advance(Duration::from_secs(1));
    let ours = sessions.store.enqueue(ours).await.expect("as set up").key;
    sessions.put("7", "one", 5_000).await;
    let leased = sessions.lease(10).await;
    assert_eq!(leased.iter().map(name).collect::<Vec<_>>(), ["42", "b"]);
    sessions.finish(&leased[0]).await;
    let leased = sessions.lease(10).await;
    assert_eq!(leased.iter().map(|leased| leased.lease.key.clone()).collect::<Vec<_>>(), [ours]);
    sessions.finish(&leased[0]).await;
    assert_eq!(sessions.lease(10).await.iter().map(name).collect::<Vec<_>>(), ["7"]);
}

#[tokio::test]
async fn a_session_goes_on_after_a_task_that_a_seed_only_runner_took_and_finished() {
    let mut sessions = Sessions::new().await;
    for (place, id) in ["a", "b", "c"].iter().enumerate() {
        sessions.put(id, "s", place as u64).await;
    }
    let first = sessions.lease(1).await.remove(0);
    // Adopted by now, and at the gate: their runner ignores that.
    sessions.seed.set_status("default", "b", "RUNNING").await;
    sessions.finish(&first).await;
    let third = sessions.lease(1).await;
    assert_eq!(third.iter().map(name).collect::<Vec<_>>(), ["c"], "not the one that runs elsewhere");
    sessions.seed.set_status("default", "b", "COMPLETE").await;
    sessions.finish(&third[0]).await;
    sessions.put("d", "s", 9).await;
    assert_eq!(sessions.lease(1).await.iter().map(name).collect::<Vec<_>>(), ["d"]);
    let found = sessions.store.resolve(&Namespace::default(), &["b".to_owned()]).await.expect("as set up");
    let record = sessions.store.get_task(&found[0].clone().expect("it is there")).await.expect("as set up");
    assert_eq!(record.state, TaskState::Succeeded);
}

#[tokio::test]
async fn a_keyed_task_that_a_seed_only_runner_lost_is_retried_in_its_sessions_turn() {
    let mut sessions = Sessions::new().await;
    let task = || NewTask::new("prompt").session_id("s").max_attempts(3).max_losses(2);
    let first = sessions.store.enqueue(task()).await.expect("as set up").key;
    let second = sessions.store.enqueue(task()).await.expect("as set up").key;
    sessions.seed.set_status("default", &first.id.to_string(), "RUNNING").await;
    // While it runs there, the session is free for ours.
    let leased = sessions.lease(1).await.remove(0);
    assert_eq!(leased.lease.key, second);
    sessions.clock.advance(Duration::from_secs(121));
    let overdue = sessions.store.overdue(10).await.expect("as set up");
    let lost = overdue.iter().find(|overdue| overdue.record.key == first).expect("its runner is dead");
    let lost =
        decide(&lost.record, Command::Expire(OverdueReason::Lease), sessions.clock.now()).expect("as set up");
    let _ = sessions.store.commit(vec![lost], None).await.expect("as set up");
    sessions.clock.advance(Duration::from_secs(48 * 3600));
    assert!(sessions.lease(1).await.is_empty(), "the session is taken");
    sessions.finish(&leased).await;
    let again = sessions.lease(1).await.remove(0);
    assert_eq!(again.lease.key, first);
    sessions.finish(&again).await;
    let third = sessions.store.enqueue(task()).await.expect("as set up").key;
    assert_eq!(sessions.lease(1).await.remove(0).lease.key, third, "the key is free again");
}

#[tokio::test]
async fn a_task_that_waits_again_after_a_seed_only_runner_can_be_cancelled() {
    let mut sessions = Sessions::new().await;
    let task = || NewTask::new("prompt").session_id("s").max_attempts(3).max_losses(2);
    let first = sessions.store.enqueue(task()).await.expect("as set up").key;
    sessions.seed.set_status("default", &first.id.to_string(), "RUNNING").await;
    assert!(sessions.lease(1).await.is_empty());
    sessions.clock.advance(Duration::from_secs(121));
    let lost = sessions.store.overdue(10).await.expect("as set up").remove(0);
    let lost =
        decide(&lost.record, Command::Expire(OverdueReason::Lease), sessions.clock.now()).expect("as set up");
    let _ = sessions.store.commit(vec![lost], None).await.expect("as set up");
    sessions.store.cancel(&first).await.expect("it can be cancelled");
    let next = sessions.store.enqueue(task()).await.expect("as set up").key;
    assert_eq!(sessions.lease(1).await.remove(0).lease.key, next, "the key is free");
}

#[tokio::test]
async fn items_of_namespaces_that_are_not_served_are_not_touched_and_delay_nothing() {
    let mut sessions = Sessions::new().await;
    for number in 0..1500_u32 {
        let id = format!("theirs-{number}");
        sessions.seed.put_task("project-b", &id, "QUEUED", &[]).await;
    }
    sessions.seed.put_task("project-b", "taken", "RUNNING", &[("claimed_by", "gone")]).await;
    sessions.put("mine", "s", 60_000).await;
    let before = sessions.attributes("project-b", "theirs-0").await;
    assert_eq!(sessions.lease(1).await.iter().map(name).collect::<Vec<_>>(), ["mine"], "at the first poll");
    // The next one is found at the first poll after it was written, too.
    sessions.clock.advance(Duration::from_secs(3600));
    sessions.put("next", "t", 3_600_000).await;
    assert_eq!(sessions.lease(1).await.iter().map(name).collect::<Vec<_>>(), ["next"]);
    sessions.put("third", "u", 3_600_001).await;
    let queries = sessions.store.usage().of("Query");
    assert_eq!(sessions.lease(1).await.iter().map(name).collect::<Vec<_>>(), ["third"]);
    let queries = sessions.store.usage().of("Query") - queries;
    assert!(queries <= 5, "the others are not read again: {queries} queries");
    let overdue = sessions.store.overdue(100).await.expect("as set up");
    assert!(
        overdue.iter().all(|overdue| overdue.record.key.namespace == Namespace::default()),
        "{overdue:?}"
    );
    for id in ["theirs-0", "theirs-1499", "taken"] {
        let status = sessions.seed.task("project-b", id).await;
        assert!(!status.contains_key("state") && !status.contains_key("spec"), "{status:?}");
    }
    assert_eq!(sessions.attributes("project-b", "theirs-0").await, before);
}

#[tokio::test]
async fn a_worker_of_other_types_or_queues_adopts_nothing_and_reads_no_items_of_others() {
    let sessions = Sessions::new().await;
    sessions.put("theirs", "s", 0).await;
    let worker = WorkerId::new("worker-1").expect("as set up");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(1));
    let before = sessions.store.usage();
    let types = Some(vec![TaskType::new("mail").expect("as set up")]);
    let mail = QueueName::new("mail").expect("as set up");
    for request in [
        LeaseRequest { types, ..request.clone() },
        LeaseRequest { queues: vec![mail], token: LeaseToken(2), ..request },
    ] {
        assert!(sessions.store.lease(request).await.expect("as set up").is_empty());
    }
    // One query of the ready index each.
    assert_eq!(sessions.store.usage().of("Query") - before.of("Query"), 2);
    assert!(!sessions.seed.task("default", "theirs").await.contains_key("state"));
}

#[tokio::test]
async fn a_task_whose_creation_is_in_the_future_is_due_at_once() {
    let mut sessions = Sessions::new().await;
    sessions.put("tomorrow", "s", 24 * 3600 * 1000).await;
    let leased = sessions.lease(1).await;
    assert_eq!(leased.iter().map(name).collect::<Vec<_>>(), ["tomorrow"]);
    let created = sessions.seed.task("default", "tomorrow").await["created_at"].clone();
    assert_eq!(created, "2026-01-02T00:00:00.000Z", "it stays as its client wrote it");
}

#[tokio::test]
async fn a_worker_that_waits_is_woken_by_a_task_of_another_client() {
    let sessions = Sessions::new().await;
    sessions.put("theirs", "s", 0).await;
    let interest = Interest::Work {
        namespace: Namespace::default(),
        queues: vec![QueueName::default()],
        types: Some(vec![TaskType::new("prompt").expect("as set up")]),
        fragile: true,
    };
    assert_eq!(sessions.store.wait(interest, Duration::ZERO).await.expect("as set up"), Wake::Ready);
}

#[tokio::test]
async fn a_waiting_task_of_another_client_is_explained_by_the_one_that_was_created_first() {
    let sessions = Sessions::new().await;
    for (place, id) in ["third", "second", "first"].iter().rev().enumerate() {
        sessions.put(id, "s", place as u64).await;
    }
    let interest = Interest::Work {
        namespace: Namespace::default(),
        queues: vec![QueueName::default()],
        types: None,
        fragile: true,
    };
    // Adopts them and leases none.
    assert_eq!(sessions.store.wait(interest, Duration::ZERO).await.expect("as set up"), Wake::Ready);
    for (id, count) in [("first", 0), ("second", 1), ("third", 2)] {
        let key = sessions.store.resolve(&Namespace::default(), &[id.to_owned()]).await.expect("as set up");
        let key = key[0].clone().expect("it is there");
        let ahead = sessions.store.ahead_of(&key, 10).await.expect("as set up").expect("it waits");
        let reasons = explain(&sessions.store, &key).await.expect("as set up").reasons;
        let first = Reason::KeyWaitsFor { task: "first".to_owned() };
        assert_eq!((ahead.count, reasons.contains(&first)), (count, id != "first"), "{id}: {reasons:?}");
    }
}

#[tokio::test]
async fn instants_without_a_zone_are_utc_and_keep_their_order() {
    let mut sessions = Sessions::new().await;
    for (id, created) in [
        ("third", "2026-01-01T00:00:00.000003"),
        ("first", "2026-01-01T00:00:00.000001+00:00"),
        ("second", "2026-01-01T00:00:00.000002"),
    ] {
        sessions.seed.put_task("default", id, "QUEUED", &[("created_at", created)]).await;
    }
    let mut started = Vec::new();
    for _ in 0..3 {
        let leased = sessions.lease(1).await.remove(0);
        started.push(name(&leased));
        sessions.finish(&leased).await;
    }
    assert_eq!(started, ["first", "second", "third"]);
    let created_at = sessions.seed.task("default", "third").await["created_at"].clone();
    assert_eq!(created_at, "2026-01-01T00:00:00.000003", "it stays as its client wrote it");
}
