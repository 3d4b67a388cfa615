//! Workers: heartbeats, directives and deregistration (the port `Runners` of seed 000).

use weaver_core::name::{Namespace, TaskType};
use weaver_core::ports::{Beat, Directive, RunnerKey, RunnerRecord, RunnerStatus};
use weaver_core::time::Timestamp;

use super::answers::{items, pages};
use super::cases;
use weaver_testkit::harness::{Harness, namespace, queue, seconds, worker};

cases![
    a_heartbeat_is_stored_and_stamped_with_the_stores_clock,
    a_worker_is_alive_for_120_seconds_after_a_heartbeat,
    a_worker_without_heartbeats_reads_as_stopped,
    a_later_heartbeat_replaces_the_earlier_one,
    heartbeats_of_several_workers_are_answered_in_order,
    a_directive_stays_until_it_is_replaced,
    a_directive_is_kept_for_a_worker_that_is_not_registered_yet,
    a_deregistered_worker_is_stopped_and_stays_listed,
    deregistering_is_idempotent_even_for_an_unknown_worker,
    a_worker_that_sends_a_heartbeat_again_is_running_again,
    runners_are_listed_by_id_in_pages,
    a_runner_belongs_to_one_namespace,
];

fn key(space: &Namespace, name: &str) -> RunnerKey {
    RunnerKey { namespace: space.clone(), runner_id: worker(name) }
}

fn beat(key: RunnerKey) -> Beat {
    Beat {
        key,
        project_root: None,
        started_at: Timestamp::MIN,
        queues: vec![queue("default")],
        types: None,
        capacity: 4,
        running: 1,
        draining: false,

        every: None,
    }
}

async fn send(harness: &Harness, key: &RunnerKey) -> Directive {
    let answers = harness.store.beat(vec![beat(key.clone())]).await.expect("the store answers");
    assert_eq!(answers.len(), 1);
    answers[0]
}

async fn list(harness: &Harness, space: &Namespace) -> Vec<RunnerRecord> {
    harness.store.list_runners(space, None, 100).await.expect("the store answers").items
}

async fn a_heartbeat_is_stored_and_stamped_with_the_stores_clock(harness: Harness) {
    let space = Namespace::default();
    let sent = Beat {
        project_root: Some("project".into()),
        // A worker's clock may be skewed: its time is not used.
        started_at: Timestamp::MAX,
        types: Some(vec![TaskType::new("prompt").expect("a valid name")]),
        draining: true,
        ..beat(key(&space, "r"))
    };
    let answers = harness.store.beat(vec![sent.clone()]).await.expect("the store answers");
    assert_eq!(answers, [Directive::Run]);
    let expected = RunnerRecord {
        beat: sent,
        last_heartbeat: harness.now().await,
        status: RunnerStatus::Running,
        directive: Directive::Run,
    };
    assert_eq!(list(&harness, &space).await, [expected]);
}

async fn a_worker_is_alive_for_120_seconds_after_a_heartbeat(harness: Harness) {
    let space = Namespace::default();
    send(&harness, &key(&space, "r")).await;
    harness.advance(seconds(119)).await;
    assert!(list(&harness, &space).await[0].is_alive(harness.now().await));
    harness.advance(seconds(1)).await;
    assert!(!list(&harness, &space).await[0].is_alive(harness.now().await));
    send(&harness, &key(&space, "r")).await;
    assert!(list(&harness, &space).await[0].is_alive(harness.now().await));
}

async fn a_worker_without_heartbeats_reads_as_stopped(harness: Harness) {
    let space = Namespace::default();
    send(&harness, &key(&space, "r")).await;
    assert_eq!(list(&harness, &space).await[0].status_at(harness.now().await), RunnerStatus::Running);
    harness.advance(seconds(120)).await;
    let silent = list(&harness, &space).await.remove(0);
    assert_eq!(silent.status_at(harness.now().await), RunnerStatus::Stopped, "it was never deregistered");
}

async fn a_later_heartbeat_replaces_the_earlier_one(harness: Harness) {
    let space = Namespace::default();
    let key = key(&space, "r");
    send(&harness, &key).await;
    harness.advance(seconds(10)).await;
    let later = Beat { running: 3, queues: vec![queue("side")], ..beat(key) };
    harness.store.beat(vec![later.clone()]).await.expect("the store answers");
    let runners = list(&harness, &space).await;
    assert_eq!(runners.len(), 1);
    assert_eq!((&runners[0].beat, runners[0].last_heartbeat), (&later, harness.now().await));
}

async fn heartbeats_of_several_workers_are_answered_in_order(harness: Harness) {
    let space = Namespace::default();
    let (one, two) = (key(&space, "one"), key(&space, "two"));
    harness.store.direct(&one, Directive::Drain).await.expect("the store answers");
    harness.store.direct(&two, Directive::Stop).await.expect("the store answers");
    let beats = vec![beat(two), beat(key(&space, "three")), beat(one)];
    let answers = harness.store.beat(beats).await.expect("the store answers");
    assert_eq!(answers, [Directive::Stop, Directive::Run, Directive::Drain]);
}

async fn a_directive_stays_until_it_is_replaced(harness: Harness) {
    let space = Namespace::default();
    let key = key(&space, "r");
    assert_eq!(send(&harness, &key).await, Directive::Run);
    for directive in [Directive::Drain, Directive::Stop, Directive::Run] {
        harness.store.direct(&key, directive).await.expect("the store answers");
        assert_eq!(list(&harness, &space).await[0].directive, directive);
        for _ in 0..3 {
            harness.advance(seconds(10)).await;
            assert_eq!(send(&harness, &key).await, directive);
        }
    }
}

async fn a_directive_is_kept_for_a_worker_that_is_not_registered_yet(harness: Harness) {
    let space = Namespace::default();
    let key = key(&space, "r");
    harness.store.direct(&key, Directive::Drain).await.expect("the store answers");
    assert_eq!(list(&harness, &space).await, [], "no worker is registered");
    assert_eq!(send(&harness, &key).await, Directive::Drain);
    assert_eq!(list(&harness, &space).await[0].directive, Directive::Drain);
}

async fn a_deregistered_worker_is_stopped_and_stays_listed(harness: Harness) {
    let space = Namespace::default();
    let key = key(&space, "r");
    send(&harness, &key).await;
    harness.store.stop_runner(&key).await.expect("the store answers");
    let runners = list(&harness, &space).await;
    assert_eq!(runners.len(), 1);
    assert_eq!(runners[0].status, RunnerStatus::Stopped);
    assert!(!runners[0].is_alive(harness.now().await));
}

async fn deregistering_is_idempotent_even_for_an_unknown_worker(harness: Harness) {
    let space = Namespace::default();
    let known = key(&space, "r");
    send(&harness, &known).await;
    for _ in 0..2 {
        harness.store.stop_runner(&known).await.expect("the store answers");
    }
    harness.store.stop_runner(&key(&space, "unknown")).await.expect("the store answers");
    assert_eq!(list(&harness, &space).await.len(), 1);
}

async fn a_worker_that_sends_a_heartbeat_again_is_running_again(harness: Harness) {
    let space = Namespace::default();
    let key = key(&space, "r");
    send(&harness, &key).await;
    harness.store.stop_runner(&key).await.expect("the store answers");
    send(&harness, &key).await;
    assert_eq!(list(&harness, &space).await[0].status, RunnerStatus::Running);
}

async fn runners_are_listed_by_id_in_pages(harness: Harness) {
    let space = Namespace::default();
    let mut expected: Vec<String> = (0..11).map(|number| format!("runner-{}", (number * 7) % 11)).collect();
    let beats = expected.iter().map(|name| beat(key(&space, name))).collect();
    harness.store.beat(beats).await.expect("the store answers");
    let pages = pages(|cursor| harness.store.list_runners(&space, cursor, 4)).await;
    let seen: Vec<_> =
        items(pages, 4).into_iter().map(|runner| runner.beat.key.runner_id.to_string()).collect();
    expected.sort();
    assert_eq!(seen, expected);
}

async fn a_runner_belongs_to_one_namespace(harness: Harness) {
    let (here, there) = (namespace("here"), namespace("there"));
    send(&harness, &key(&here, "r")).await;
    assert_eq!(list(&harness, &there).await, []);
    harness.store.direct(&key(&there, "r"), Directive::Stop).await.expect("the store answers");
    harness.store.stop_runner(&key(&there, "r")).await.expect("the store answers");
    assert_eq!(send(&harness, &key(&here, "r")).await, Directive::Run);
    assert_eq!(list(&harness, &here).await[0].status, RunnerStatus::Running);
}
