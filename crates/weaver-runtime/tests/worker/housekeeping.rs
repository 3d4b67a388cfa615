//! Heartbeats, directives, statistics, maintenance and namespaces.

use weaver_core::ports::{Directive, ReadFrom, RunnerKey, StreamKey};
use weaver_core::prelude::*;
use weaver_core::task::{CancelReason, Cause};
use weaver_runtime::{Ctx, Registry, TaskError};

use crate::harness::{harness, settle};

async fn noop(_: (), _ctx: Ctx) -> Result<(), TaskError> {
    Ok(())
}

fn registry() -> Registry {
    Registry::new().handle("noop", noop).unwrap()
}

fn w1() -> RunnerKey {
    RunnerKey { namespace: Namespace::default(), runner_id: WorkerId::new("w1").unwrap() }
}

#[tokio::test]
async fn a_worker_sends_a_heartbeat_every_ten_seconds_with_what_it_serves_and_runs() {
    let harness = harness();
    let registry = registry().handle("pending", |_: (), _: Ctx| async move {
        std::future::pending::<()>().await;
        Ok(())
    });
    let _running = harness.start(harness.builder(registry.unwrap()).concurrency(3));
    let key = harness.enqueue(NewTask::new("pending")).await;
    harness.until(&key, TaskState::Running).await;
    let first = harness.store.list_runners(&Namespace::default(), None, 10).await.unwrap().items.remove(0);
    harness.pass(11).await;
    let second = harness.store.list_runners(&Namespace::default(), None, 10).await.unwrap().items.remove(0);
    assert_eq!(second.last_heartbeat.since(first.last_heartbeat).as_secs(), 10);
    assert_eq!((second.beat.capacity, second.beat.running), (3, 1));
    assert_eq!(second.beat.queues, [QueueName::default()]);
}

#[tokio::test]
async fn a_drained_worker_leases_nothing_until_its_directive_is_run() {
    let harness = harness();
    let _running = harness.work(registry());
    harness.store.direct(&w1(), Directive::Drain).await.unwrap();
    harness.pass(11).await;
    let key = harness.enqueue(NewTask::new("noop")).await;
    harness.pass(5).await;
    assert_eq!(harness.record(&key).await.state, TaskState::Queued);
    harness.store.direct(&w1(), Directive::Run).await.unwrap();
    harness.pass(11).await;
    harness.until(&key, TaskState::Succeeded).await;
}

#[tokio::test]
async fn a_worker_with_a_stop_directive_stops() {
    let harness = harness();
    let running = harness.work(registry());
    harness.store.direct(&w1(), Directive::Stop).await.unwrap();
    harness.pass(11).await;
    running.worker.await.unwrap();
}

#[tokio::test]
async fn a_minute_of_statistics_is_appended_for_charts() {
    let harness = harness();
    let _running = harness.work(registry());
    let key = harness.enqueue(NewTask::new("noop")).await;
    harness.until(&key, TaskState::Succeeded).await;
    harness.pass(61).await;
    let stream = StreamKey::new(Namespace::default(), "stats");
    let entries = harness.store.read_entries(&stream, ReadFrom::Last(10), 10).await.unwrap().entries;
    let minute: serde_json::Value = serde_json::from_slice(&entries[0].body).unwrap();
    assert_eq!(minute["queues"]["default"]["succeeded"], 1, "{minute}");
    assert_eq!(minute["queues"]["default"]["run_ms_log2"][0], 1, "{minute}");
}

#[tokio::test]
async fn an_expired_task_is_cancelled_by_any_worker() {
    let harness = harness();
    let _running = harness.start(harness.builder(registry()).queues(["another"]));
    let expires_at =
        weaver_core::clock::Clock::now(&harness.clock).saturating_add(std::time::Duration::from_secs(5));
    let key = harness.enqueue(NewTask::new("noop").expires_at(expires_at)).await;
    harness.pass(7).await;
    let record = harness.until(&key, TaskState::Cancelled).await;
    assert_eq!(record.cause, Some(Cause::Cancelled(CancelReason::Expired)));
}

#[tokio::test]
async fn a_worker_of_all_namespaces_follows_new_ones() {
    let harness = harness();
    let _running = harness.start(harness.builder(registry()).namespaces(["*"]));
    settle().await;
    let key = harness.enqueue(NewTask::new("noop").namespace("born later")).await;
    harness.pass(11).await;
    harness.until(&key, TaskState::Succeeded).await;
}

#[tokio::test]
async fn a_worker_of_listed_namespaces_serves_those_and_no_other() {
    let harness = harness();
    let _running = harness.start(harness.builder(registry()).namespaces(["a", "b"]));
    let served = [
        harness.enqueue(NewTask::new("noop").namespace("a")).await,
        harness.enqueue(NewTask::new("noop").namespace("b")).await,
    ];
    let other = harness.enqueue(NewTask::new("noop").namespace("c")).await;
    for key in &served {
        harness.until(key, TaskState::Succeeded).await;
    }
    assert_eq!(harness.record(&other).await.state, TaskState::Queued);
}
