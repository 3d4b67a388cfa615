//! Compatibility with seed 000's items in both directions: other clients' items are tasks, and Weaver's items
//! are valid for other clients.

mod support;

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::{LeaseToken, TaskId};
use weaver_core::lease::{LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{Command, OverdueReason, decide};
use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Beat, RunnerKey, Runners, TaskQuery, Tasks};
use weaver_core::queue::{Committed, Queue, QueueExt};
use weaver_core::task::{NewTask, TaskState};
use weaver_dynamodb::DynamoStore;
use weaver_testkit::harness::end_of;

use support::seed::{SeedClient, is_seed_instant};

/// A store, and a client of the same tables that knows only the seed.
struct SeedHarness {
    store: DynamoStore,
    seed: SeedClient,
    clock: ManualClock,
}

async fn harness() -> SeedHarness {
    let (database, clock) = (support::database(), ManualClock::default());
    let store = support::open(&database, Arc::new(clock.clone())).await;
    SeedHarness { store, seed: SeedClient::new(&database), clock }
}

fn space(name: &str) -> Namespace {
    Namespace::try_from(name).expect("as set up")
}

impl SeedHarness {
    async fn lease(&self, namespace: &str, token: u128) -> Vec<Leased> {
        // Other clients' tasks are polled once a second.
        self.clock.advance(Duration::from_secs(1));
        let worker = WorkerId::new("runner-1").expect("as set up");
        let request = LeaseRequest {
            types: Some(vec![TaskType::new("prompt").expect("as set up")]),
            max: 10,
            slots: 10,
            ..LeaseRequest::new(space(namespace), QueueName::default(), worker, LeaseToken(token))
        };
        self.store.lease(request).await.expect("as set up")
    }

    async fn finish(&self, leased: &Leased, outcome: Outcome) -> Committed {
        self.store.commit(vec![end_of(leased, outcome)], None).await.expect("as set up").remove(0)
    }
}

/// The ids of leased tasks, as their client wrote them.
fn names(leased: &[Leased]) -> Vec<&str> {
    leased
        .iter()
        .map(|leased| leased.record.spec.origin().external_id.as_ref().expect("its id").as_str())
        .collect()
}

#[tokio::test]
async fn an_item_with_only_the_seeds_attributes_is_a_task_under_its_own_id() {
    let harness = harness().await;
    harness.seed.put_task("project-a", "task-001", "QUEUED", &[("colour", "theirs")]).await;
    let leased = harness.lease("project-a", 1).await;
    assert_eq!(leased.len(), 1);
    let record = &leased[0].record;
    assert_eq!(record.spec.envelope.payload, "write a test");
    assert_eq!((record.spec.max_attempts, record.spec.max_losses), (1, 0));
    assert_eq!(record.spec.origin().external_id.as_ref().expect("as set up").as_str(), "task-001");
    assert_eq!(record.spec.origin().task_group_id.as_ref().expect("as set up").as_str(), "group-1");
    assert!(record.key.id.is_foreign());
    let found =
        harness.store.resolve(&space("project-a"), &["task-001".to_owned()]).await.expect("as set up");
    assert_eq!(found, [Some(record.key.clone())]);
    assert_eq!(harness.store.get_task(&record.key).await.expect("as set up").state, TaskState::Running);
    let item = harness.seed.task("project-a", "task-001").await;
    assert_eq!((item["status"].as_str(), item["claimed_by"].as_str()), ("RUNNING", "runner-1"));
    let answer = harness.finish(&leased[0], Outcome::DONE).await;
    assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");
    let item = harness.seed.task("project-a", "task-001").await;
    assert_eq!((item["status"].as_str(), item["prompt"].as_str()), ("COMPLETE", "write a test"));
    assert_eq!(item["colour"], "theirs", "other clients' attributes stay");
}

#[tokio::test]
async fn the_same_id_in_three_namespaces_is_three_tasks() {
    let harness = harness().await;
    for namespace in ["project-a", "project-b", "stable"] {
        harness.seed.put_task(namespace, "task-001", "QUEUED", &[]).await;
    }
    let leased = harness.lease("project-a", 1).await;
    assert_eq!(leased.len(), 1);
    let _ = harness.finish(&leased[0], Outcome::DONE).await;
    for (namespace, status) in [("project-a", "COMPLETE"), ("project-b", "QUEUED"), ("stable", "QUEUED")] {
        assert_eq!(harness.seed.task(namespace, "task-001").await["status"], status, "{namespace}");
        let listed =
            harness.store.list_tasks(TaskQuery::new(space(namespace))).await.expect("as set up").items;
        assert_eq!(listed.len(), 1, "{namespace}");
        let found =
            harness.store.resolve(&space(namespace), &["task-001".to_owned()]).await.expect("as set up");
        assert_eq!(found, [Some(listed[0].key.clone())], "{namespace}");
    }
    assert_eq!(harness.lease("project-b", 2).await.len(), 1);
}

#[tokio::test]
async fn a_decimal_id_of_another_client_is_its_own_number() {
    let harness = harness().await;
    harness.seed.put_task("project-a", "42", "QUEUED", &[]).await;
    let leased = harness.lease("project-a", 1).await;
    assert_eq!(leased[0].lease.key.id, TaskId(42));
}

#[tokio::test]
async fn a_cancelled_written_by_another_client_wins_over_a_waiting_task() {
    let harness = harness().await;
    for id in ["task-001", "task-002", "task-003"] {
        harness.seed.put_task("project-a", id, "QUEUED", &[]).await;
    }
    // All are adopted by the lease call: from then on they are in our own index.
    let leased = harness.lease("project-a", 1).await;
    assert_eq!(names(&leased), ["task-001"], "one at a time in a session");
    harness.seed.set_status("project-a", "task-002", "CANCELLED").await;
    harness.seed.set_status("project-a", "task-003", "CANCELLED").await;
    let _ = harness.finish(&leased[0], Outcome::DONE).await;
    assert!(harness.lease("project-a", 2).await.is_empty());
    assert_eq!(harness.seed.task("project-a", "task-003").await["status"], "CANCELLED");
    let key = harness
        .store
        .resolve(&space("project-a"), &["task-003".to_owned()])
        .await
        .expect("as set up")
        .remove(0)
        .expect("as set up");
    assert_eq!(harness.store.get_task(&key).await.expect("as set up").state, TaskState::Cancelled);
}

#[tokio::test]
async fn a_cancelled_written_by_another_client_wins_over_a_running_task() {
    let harness = harness().await;
    harness.seed.put_task("project-a", "task-001", "QUEUED", &[]).await;
    let leased = harness.lease("project-a", 1).await.remove(0);
    harness.seed.set_status("project-a", "task-001", "CANCELLED").await;
    let renewed = harness.store.renew(vec![Renewal::of(leased.lease.clone())]).await.expect("as set up");
    assert_eq!(renewed, [Renewed::Cancelled]);
    assert_eq!(harness.finish(&leased, Outcome::DONE).await, Committed::Stale);
    assert_eq!(harness.seed.task("project-a", "task-001").await["status"], "CANCELLED");
    harness.store.confirm_stopped(vec![leased.lease.clone()]).await.expect("as set up");
    let record = harness.store.get_task(&leased.lease.key).await.expect("as set up");
    assert_eq!((record.state, record.has_hold()), (TaskState::Cancelled, false));
}

#[tokio::test]
async fn a_finish_after_anothers_cancel_is_stale_without_a_renewal_in_between() {
    let harness = harness().await;
    harness.seed.put_task("project-a", "task-001", "QUEUED", &[]).await;
    let leased = harness.lease("project-a", 1).await.remove(0);
    harness.seed.set_status("project-a", "task-001", "CANCELLED").await;
    assert_eq!(harness.finish(&leased, Outcome::DONE).await, Committed::Stale);
    assert_eq!(harness.seed.task("project-a", "task-001").await["status"], "CANCELLED");
}

#[tokio::test]
async fn a_task_that_a_seed_only_runner_took_ends_with_that_runners_two_minutes() {
    let harness = harness().await;
    let now = || support::seed_instant(harness.clock.now());
    let taken = [("claimed_by", "theirs"), ("updated_at", &now())];
    harness.seed.put_task("project-a", "task-001", "RUNNING", &taken).await;
    let beat = async |at: &str| {
        let runner = [
            ("namespace", "project-a"),
            ("runner_id", "theirs"),
            ("status", "running"),
            ("last_heartbeat", at),
            ("started_at", at),
            ("project_root", "/srv/a"),
        ];
        harness.seed.put("pm-runner-runners", &runner).await;
    };
    beat(&now()).await;
    assert!(harness.lease("project-a", 1).await.is_empty(), "it belongs to its runner");
    harness.clock.advance(Duration::from_secs(100));
    beat(&now()).await;
    harness.clock.advance(Duration::from_secs(100));
    assert!(
        harness.store.overdue(10).await.expect("as set up").is_empty(),
        "its runner sent a heartbeat 100 s ago"
    );
    harness.clock.advance(Duration::from_secs(21));
    let overdue = harness.store.overdue(10).await.expect("as set up");
    assert_eq!(overdue.len(), 1);
    assert_eq!(overdue[0].reason, OverdueReason::Lease);
    let lost = decide(&overdue[0].record, Command::Expire(OverdueReason::Lease), harness.clock.now())
        .expect("as set up");
    let _ = harness.store.commit(vec![lost], None).await.expect("as set up");
    let item = harness.seed.task("project-a", "task-001").await;
    assert_eq!(item["status"], "ERROR");
    assert!(item["error_message"].contains("lease expired: worker theirs"), "{item:?}");
    assert!(harness.store.foreign_runners(&space("project-a")).await.expect("as set up").is_empty());
    beat(&now()).await;
    assert_eq!(harness.store.foreign_runners(&space("project-a")).await.expect("as set up").len(), 1);
}

#[tokio::test]
async fn a_task_of_a_seed_only_runner_without_heartbeats_is_kept_for_two_minutes() {
    let harness = harness().await;
    let taken_at = support::seed_instant(harness.clock.now());
    let taken = [("claimed_by", "theirs"), ("updated_at", taken_at.as_str())];
    harness.seed.put_task("project-a", "task-001", "RUNNING", &taken).await;
    assert!(harness.lease("project-a", 1).await.is_empty());
    harness.clock.advance(Duration::from_secs(118));
    assert!(harness.store.overdue(10).await.expect("as set up").is_empty());
    harness.clock.advance(Duration::from_secs(2));
    assert_eq!(harness.store.overdue(10).await.expect("as set up").len(), 1);
}

#[tokio::test]
async fn what_weaver_writes_reads_correctly_to_a_client_that_knows_only_the_seed() {
    let harness = harness().await;
    let task =
        NewTask::new("prompt").namespace("project-a").task_group_id("g").session_id("s").max_attempts(1);
    let task = task.json(&serde_json::json!({ "prompt": "say hello" })).expect("as set up");
    let key = harness.store.enqueue(task).await.expect("as set up").key;
    let id = key.id.to_string();
    let item = harness.seed.task("project-a", &id).await;
    for (name, value) in [
        ("status", "QUEUED"),
        ("prompt", "say hello"),
        ("task_group_id", "g"),
        ("session_id", "s"),
        ("task_id", &id),
    ] {
        assert_eq!(item[name], value, "{name}");
    }
    assert!(is_seed_instant(&item["created_at"]) && is_seed_instant(&item["updated_at"]), "{item:?}");
    assert!(!item.contains_key("claimed_by") && !item.contains_key("error_message"), "{item:?}");
    let leased = harness.lease("project-a", 1).await.remove(0);
    let item = harness.seed.task("project-a", &id).await;
    assert_eq!((item["status"].as_str(), item["claimed_by"].as_str()), ("RUNNING", "runner-1"));
    let _ = harness.finish(&leased, Outcome::failed("the disk is full")).await;
    let item = harness.seed.task("project-a", &id).await;
    assert_eq!((item["status"].as_str(), item["error_message"].as_str()), ("ERROR", "the disk is full"));
    assert_eq!(item["created_at"].as_str(), "2026-01-01T00:00:00.000Z");
    assert!(item["updated_at"] > item["created_at"]);
    assert_eq!(harness.seed.tasks("project-a").await.len(), 1);
    assert!(harness.seed.tasks("project-b").await.is_empty());
}

#[tokio::test]
async fn a_retry_wait_is_running_to_a_client_that_knows_only_the_seed() {
    let harness = harness().await;
    let prompt = NewTask::new("prompt").namespace("project-a").max_attempts(2);
    let key = harness.store.enqueue(prompt).await.expect("as set up").key;
    let leased = harness.lease("project-a", 1).await.remove(0);
    let _ = harness.finish(&leased, Outcome::failed("again")).await;
    let item = harness.seed.task("project-a", &key.id.to_string()).await;
    assert_eq!((item["status"].as_str(), item["state"].as_str()), ("RUNNING", "retry_scheduled"));
    harness.store.cancel(&key).await.expect("as set up");
    assert_eq!(harness.seed.task("project-a", &key.id.to_string()).await["status"], "CANCELLED");
}

#[tokio::test]
async fn a_runner_reads_correctly_to_a_client_that_knows_only_the_seed_and_back() {
    let harness = harness().await;
    let key =
        RunnerKey { namespace: space("project-a"), runner_id: WorkerId::new("ours").expect("as set up") };
    let beat = Beat {
        key: key.clone(),
        project_root: Some("/srv/a".to_owned()),
        started_at: harness.clock.now(),
        queues: vec![QueueName::default()],
        types: None,
        capacity: 1,
        running: 0,
        draining: false,

        every: None,
    };
    harness.store.beat(vec![beat]).await.expect("as set up");
    let item = harness.seed.runner("project-a", "ours").await;
    assert_eq!((item["status"].as_str(), item["project_root"].as_str()), ("running", "/srv/a"));
    assert!(is_seed_instant(&item["last_heartbeat"]) && is_seed_instant(&item["started_at"]), "{item:?}");
    harness.store.stop_runner(&key).await.expect("as set up");
    assert_eq!(harness.seed.runner("project-a", "ours").await["status"], "stopped");
    let theirs = [
        ("namespace", "project-a"),
        ("runner_id", "theirs"),
        ("status", "running"),
        ("last_heartbeat", "2026-01-01T00:00:00.000Z"),
        ("started_at", "2026-01-01T00:00:00.000Z"),
        ("project_root", "/srv/b"),
    ];
    harness.seed.put("pm-runner-runners", &theirs).await;
    let listed = harness.store.list_runners(&space("project-a"), None, 10).await.expect("as set up").items;
    let names: Vec<_> = listed.iter().map(|runner| runner.beat.key.runner_id.as_str()).collect();
    assert_eq!(names, ["ours", "theirs"]);
    assert!(listed[1].is_alive(harness.clock.now()));
    harness.clock.advance(Duration::from_secs(120));
    assert!(!listed[1].is_alive(harness.clock.now()), "120 s without a heartbeat");
}
