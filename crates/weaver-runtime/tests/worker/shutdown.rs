//! Graceful and immediate shutdown; either way no task stays leased.

use weaver_core::prelude::*;
use weaver_core::task::Cause;
use weaver_runtime::{Ctx, Registry, TaskError};

use crate::harness::{Notes, harness, settle, until};

/// Succeeds when a permit is available; notes the reason of a stop signal.
async fn wait_for_permit(_: (), ctx: Ctx) -> Result<(), TaskError> {
    let notes = ctx.shared::<Notes>()?;
    let permits = ctx.shared::<tokio::sync::Semaphore>()?;
    notes.add("begun");
    tokio::select! {
        biased;
        () = ctx.cancelled() => {
            notes.add(format!("{:?}", ctx.stop_reason()));
            Err(TaskError::retry("stopped"))
        }
        permit = permits.acquire() => {
            permit?.forget();
            Ok(())
        }
    }
}

async fn stubborn(_: (), ctx: Ctx) -> Result<(), TaskError> {
    ctx.shared::<Notes>()?.add("begun");
    std::future::pending().await
}

fn registry(notes: &Notes) -> Registry {
    let registry = Registry::new().share(notes.clone()).share(tokio::sync::Semaphore::new(0));
    registry.handle("wait", wait_for_permit).unwrap().handle("stubborn", stubborn).unwrap()
}

#[tokio::test]
async fn a_graceful_shutdown_leases_nothing_new_and_lets_handlers_finish() {
    let (harness, notes) = (harness(), Notes::default());
    let permits = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = permits.clone();
    let registry = Registry::new().share(notes.clone()).handle("wait", move |_: (), _: Ctx| {
        let permits = waiting.clone();
        async move {
            permits.acquire().await?.forget();
            Ok(())
        }
    });
    let running = harness.work(registry.unwrap());
    let first = harness.enqueue(NewTask::new("wait")).await;
    harness.until(&first, TaskState::Running).await;
    running.shutdown.request();
    settle().await;
    let second = harness.enqueue(NewTask::new("wait")).await;
    harness.pass(5).await;
    assert!(!running.worker.is_finished());
    permits.add_permits(1);
    let summary = running.worker.await.unwrap();
    assert_eq!(summary.succeeded, 1);
    assert_eq!(harness.record(&first).await.state, TaskState::Succeeded);
    assert_eq!(harness.record(&second).await.state, TaskState::Queued);
}

#[tokio::test]
async fn after_the_grace_handlers_are_signalled_to_stop_and_their_tasks_released_uncounted() {
    let (harness, notes) = (harness(), Notes::default());
    let running = harness.work(registry(&notes));
    let key = harness.enqueue(NewTask::new("wait")).await;
    harness.until(&key, TaskState::Running).await;
    running.shutdown.request();
    harness.pass(29).await;
    assert!(!notes.has("Some(Shutdown)"));
    harness.pass(2).await;
    let summary = running.worker.await.unwrap();
    assert!(notes.has("Some(Shutdown)"));
    assert_eq!((summary.released, summary.failed), (1, 0));
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Released)));
    assert_eq!((record.failures, record.losses), (0, 0));
}

#[tokio::test]
async fn a_second_shutdown_request_stops_at_once_and_still_releases() {
    let (harness, notes) = (harness(), Notes::default());
    let running = harness.work(registry(&notes));
    let key = harness.enqueue(NewTask::new("stubborn")).await;
    harness.until(&key, TaskState::Running).await;
    running.shutdown.request();
    settle().await;
    assert!(!running.worker.is_finished());
    running.shutdown.request();
    // No time passes.
    let summary = running.worker.await.unwrap();
    assert_eq!(summary.released, 1);
    assert_eq!(harness.record(&key).await.cause, Some(Cause::Released));
}

#[tokio::test]
async fn buffered_tasks_are_released_at_once() {
    let (harness, notes) = (harness(), Notes::default());
    let registry = registry(&notes).handle("quick", |_: (), _: Ctx| async move { Ok(()) }).unwrap();
    let running = harness.start(harness.builder(registry).concurrency(2));
    for _ in 0..20 {
        harness.enqueue(NewTask::new("quick")).await;
    }
    let last: Vec<_> =
        [harness.enqueue(NewTask::new("stubborn")).await, harness.enqueue(NewTask::new("stubborn")).await]
            .into();
    let waiting = harness.enqueue(NewTask::new("stubborn")).await;
    for key in &last {
        harness.until(key, TaskState::Running).await;
    }
    until("both run", || notes.all().len() == 2).await;
    running.shutdown.request();
    settle().await;
    let record = harness.record(&waiting).await;
    assert!(
        record.state != TaskState::Running,
        "buffered or not, it is not held while others finish: {record:?}"
    );
    assert_eq!((record.failures, record.losses), (0, 0));
    running.shutdown.request();
    running.worker.await.unwrap();
}

#[tokio::test]
async fn a_worker_that_stopped_is_deregistered() {
    let (harness, notes) = (harness(), Notes::default());
    let running = harness.work(registry(&notes));
    settle().await;
    running.shutdown.request();
    running.worker.await.unwrap();
    let runners = harness.store.list_runners(&Namespace::default(), None, 10).await.unwrap().items;
    assert_eq!(runners.len(), 1);
    assert!(!runners[0].is_alive(harness.now().await));
}
