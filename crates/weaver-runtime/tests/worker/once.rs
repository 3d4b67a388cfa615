//! Tasks that may run only once, and workers without prefetch: the building blocks of the prompt runner.

use std::sync::Arc;

use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_core::task::Cause;
use weaver_runtime::{Ctx, Registry, TaskError};
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::harness::{Notes, WorkerHarness, harness, settle, until};

/// Succeeds when a permit is available; ignores its stop signal.
async fn deaf(_: (), ctx: Ctx) -> Result<(), TaskError> {
    ctx.shared::<Notes>()?.add("begun");
    ctx.shared::<tokio::sync::Semaphore>()?.acquire().await?.forget();
    Ok(())
}

/// Fails on its stop signal.
async fn obedient(_: (), ctx: Ctx) -> Result<(), TaskError> {
    ctx.shared::<Notes>()?.add("begun");
    ctx.cancelled().await;
    Err(TaskError::retry("stopped in the middle"))
}

fn registry(notes: &Notes) -> Registry {
    let registry = Registry::new().share(notes.clone()).share(tokio::sync::Semaphore::new(0));
    registry.handle("deaf", deaf).unwrap().handle("obedient", obedient).unwrap()
}

fn once(task_type: &'static str) -> NewTask {
    NewTask::new(task_type).max_attempts(1).max_losses(0)
}

fn without_renewals(harness: &WorkerHarness) -> Arc<dyn Store> {
    let plan = |call: &CallSite| if call.method == "renew" { Fault::FailBefore } else { Fault::None };
    Arc::new(FaultyStore::new(Arc::clone(&harness.store), Arc::new(harness.clock.clone()), plan))
}

#[tokio::test]
async fn a_task_that_may_run_once_is_dead_when_a_shutdown_interrupts_it() {
    for (task_type, said) in [("deaf", "shut down"), ("obedient", "stopped in the middle")] {
        let (harness, notes) = (harness(), Notes::default());
        let running = harness.work(registry(&notes));
        let key = harness.enqueue(once(task_type)).await;
        until("it runs", || notes.has("begun")).await;
        running.shutdown.request();
        harness.pass(40).await;
        assert_eq!(running.worker.await.unwrap().released, 0);
        let record = harness.record(&key).await;
        assert_eq!((record.state, record.executions), (TaskState::Dead, 1));
        assert!(record.last_error.as_ref().unwrap().contains(said), "{record:?}");
    }
}

#[tokio::test]
async fn a_task_that_may_run_once_is_dead_when_its_lease_cannot_be_renewed() {
    for task_type in ["deaf", "obedient"] {
        let (harness, notes) = (harness(), Notes::default());
        let _running = harness.start(harness.builder_on(without_renewals(&harness), registry(&notes)));
        let key = harness.enqueue(once(task_type)).await;
        harness.pass(29).await;
        let record = harness.record(&key).await;
        assert_eq!((record.state, record.executions), (TaskState::Dead, 1), "{task_type}: {record:?}");
        assert_eq!(record.cause, Some(Cause::Failed));
    }
}

#[tokio::test]
async fn the_outcome_of_a_task_that_may_run_once_is_refused_after_lease_expiry() {
    let (harness, notes) = (harness(), Notes::default());
    let permits = Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = Arc::clone(&permits);
    let registry = Registry::new().share(notes.clone()).handle("wait", move |_: (), ctx: Ctx| {
        let permits = Arc::clone(&waiting);
        async move {
            ctx.shared::<Notes>()?.add("begun");
            permits.acquire().await?.forget();
            Ok(())
        }
    });
    let _running = harness.start(harness.builder(registry.unwrap()));
    let key = harness.enqueue(once("wait")).await;
    until("it runs", || notes.has("begun")).await;
    // The process is suspended past its lease, and its handler is done at the moment it resumes.
    harness.clock.advance(std::time::Duration::from_secs(31));
    permits.add_permits(1);
    harness.pass(3).await;
    let record = harness.until(&key, TaskState::Dead).await;
    assert_eq!(record.executions, 1);
}

#[tokio::test]
async fn a_worker_without_prefetch_leases_only_what_it_can_start() {
    let (harness, notes) = (harness(), Notes::default());
    let quick = registry(&notes).handle("quick", |_: (), _: Ctx| async move { Ok(()) }).unwrap();
    let _running = harness.start(harness.builder(quick).concurrency(1).no_prefetch());
    for _ in 0..5 {
        harness.enqueue(NewTask::new("quick")).await;
    }
    let first = harness.enqueue(NewTask::new("deaf")).await;
    let second = harness.enqueue(NewTask::new("deaf")).await;
    harness.until(&first, TaskState::Running).await;
    until("it has begun", || notes.has("begun")).await;
    settle().await;
    assert_eq!(harness.record(&second).await.state, TaskState::Queued);
}

#[tokio::test]
async fn heartbeats_keep_their_interval_while_a_task_runs_and_while_the_worker_waits() {
    let second = std::time::Duration::from_secs(1);
    for busy in [true, false] {
        let (harness, notes) = (harness(), Notes::default());
        let builder = harness.builder(registry(&notes)).concurrency(1).heartbeat_every(second);
        let _running = harness.start(builder.poll_every(std::time::Duration::from_secs(30)));
        if busy {
            harness.enqueue(NewTask::new("deaf")).await;
            until("it runs", || notes.has("begun")).await;
        }
        let mut last = None;
        for _ in 0..5 {
            harness.pass(1).await;
            let runner =
                harness.store.list_runners(&Namespace::default(), None, 10).await.unwrap().items.remove(0);
            let before = last.replace(runner.last_heartbeat);
            assert!(before.is_none_or(|before| runner.last_heartbeat.since(before) == second));
        }
    }
}
