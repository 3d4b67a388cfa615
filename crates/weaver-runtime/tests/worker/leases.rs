//! Leases are renewed while handlers run, and given up before they expire (G2, G3, G11).

use std::sync::Arc;
use std::time::Duration;

use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_core::task::Cause;
use weaver_runtime::{Ctx, Registry, TaskError};
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::harness::{Notes, WorkerHarness, harness, settle, until};

/// Runs until its stop signal, and notes the reason.
async fn obedient(_: (), ctx: Ctx) -> Result<(), TaskError> {
    let notes = ctx.shared::<Notes>()?;
    notes.add("begun");
    ctx.cancelled().await;
    notes.add(format!("{:?}", ctx.stop_reason()));
    Err(TaskError::retry("stopped"))
}

/// Ignores its stop signal; notes when it is dropped.
async fn stubborn(_: (), ctx: Ctx) -> Result<(), TaskError> {
    struct Dropped(Arc<Notes>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let notes = ctx.shared::<Notes>()?;
    notes.add("begun");
    let _dropped = Dropped(notes);
    std::future::pending().await
}

fn registry(notes: &Notes) -> Registry {
    let registry = Registry::new().share(notes.clone()).handle("obedient", obedient).unwrap();
    registry.handle("stubborn", stubborn).unwrap()
}

fn faulty(
    harness: &WorkerHarness,
    plan: impl Fn(&CallSite) -> Fault + Send + Sync + 'static,
) -> Arc<dyn Store> {
    Arc::new(FaultyStore::new(Arc::clone(&harness.store), Arc::new(harness.clock.clone()), plan))
}

/// The store of a worker whose renewals fail.
fn without_renewals(harness: &WorkerHarness) -> Arc<dyn Store> {
    let plan = |call: &CallSite| if call.method == "renew" { Fault::FailBefore } else { Fault::None };
    faulty(harness, plan)
}

#[tokio::test]
async fn a_lease_is_renewed_as_long_as_its_handler_runs() {
    let (harness, notes) = (harness(), Notes::default());
    let _running = harness.work(registry(&notes));
    let key = harness.enqueue(NewTask::new("obedient")).await;
    harness.until(&key, TaskState::Running).await;
    harness.pass(300).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.attempt), (TaskState::Running, 1));
    assert!(record.renewals >= 29, "once every ten seconds: {}", record.renewals);
}

#[tokio::test]
async fn progress_is_sent_with_lease_renewals() {
    let harness = harness();
    let registry = Registry::new().handle("walk", |_: (), ctx: Ctx| async move {
        ctx.progress(0.5, "half way");
        std::future::pending::<()>().await;
        Ok(())
    });
    let _running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("walk")).await;
    harness.until(&key, TaskState::Running).await;
    harness.pass(11).await;
    let progress = harness.record(&key).await.progress.expect("it reported progress");
    assert_eq!((progress.fraction, progress.message.as_str()), (0.5, "half way"));
}

#[tokio::test]
async fn a_worker_that_cannot_renew_stops_its_handlers_before_their_leases_end() {
    let (harness, notes) = (harness(), Notes::default());
    let cut_off = without_renewals(&harness);
    let _running = harness.start(harness.builder_on(cut_off, registry(&notes)));
    let obedient = harness.enqueue(NewTask::new("obedient")).await;
    let stubborn = harness.enqueue(NewTask::new("stubborn")).await;
    harness.until(&obedient, TaskState::Running).await;
    harness.until(&stubborn, TaskState::Running).await;
    harness.pass(23).await;
    assert!(!notes.has("Some(LeaseLost)"), "{:?}", notes.all());
    harness.pass(2).await;
    assert!(notes.has("Some(LeaseLost)"), "signalled at eight tenths: {:?}", notes.all());
    harness.pass(3).await;
    assert!(notes.has("dropped"), "dropped at nine tenths: {:?}", notes.all());
    // The leases expire at thirty seconds, and not before: no other worker can have started them.
    assert_eq!(harness.record(&stubborn).await.state, TaskState::Running);
}

#[tokio::test]
async fn a_cancelled_handler_is_signalled_by_the_next_renewal_and_its_hold_ends_when_it_stops() {
    let (harness, notes) = (harness(), Notes::default());
    let _running = harness.work(registry(&notes));
    let key = harness.enqueue(NewTask::new("obedient")).await;
    harness.until(&key, TaskState::Running).await;
    harness.store.cancel(&key).await.unwrap();
    assert!(harness.record(&key).await.hold().is_some());
    harness.pass(11).await;
    assert!(notes.has("Some(Cancelled)"), "{:?}", notes.all());
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.hold()), (TaskState::Cancelled, None));
}

#[tokio::test]
async fn a_handler_that_ignores_a_cancellation_is_dropped() {
    let (harness, notes) = (harness(), Notes::default());
    let _running = harness.work(registry(&notes));
    let key = harness.enqueue(NewTask::new("stubborn")).await;
    harness.until(&key, TaskState::Running).await;
    harness.store.cancel(&key).await.unwrap();
    harness.pass(16).await;
    assert!(notes.has("dropped"), "{:?}", notes.all());
    assert_eq!(harness.record(&key).await.hold(), None);
}

#[tokio::test]
async fn a_task_whose_worker_crashed_is_found_and_run_by_another() {
    let (harness, notes) = (harness(), Notes::default());
    let crashed = harness.work(registry(&notes));
    let key = harness.enqueue(NewTask::new("stubborn")).await;
    harness.until(&key, TaskState::Running).await;
    // Leased is not started: the response is still on its way to the worker.
    until("its handler has begun", || notes.has("begun")).await;
    crashed.worker.abort();
    until("its handlers end with it", || notes.has("dropped")).await;
    let _other = harness.start(harness.builder(registry(&notes)).name("w2"));
    harness.pass(32).await;
    let record = harness.until(&key, TaskState::Running).await;
    assert_eq!((record.losses, record.failures, record.attempt), (1, 0, 2));
    assert_eq!(record.lease.unwrap().worker.as_str(), "w2");
}

#[tokio::test]
async fn a_worker_that_cannot_renew_but_can_report_releases_its_tasks_uncounted() {
    let (harness, notes) = (harness(), Notes::default());
    let running = harness.start(harness.builder_on(without_renewals(&harness), registry(&notes)));
    let key = harness.enqueue(NewTask::new("obedient")).await;
    harness.until(&key, TaskState::Running).await;
    running.shutdown.request();
    harness.pass(25).await;
    let record = harness.until(&key, TaskState::RetryScheduled).await;
    assert_eq!((record.losses, record.failures), (0, 0));
    running.worker.await.unwrap();
}

#[tokio::test]
async fn a_disconnected_worker_stops_its_handlers_and_their_outcomes_are_refused() {
    let (harness, notes) = (harness(), Notes::default());
    let leased = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let cut = leased.clone();
    let cut_off = faulty(&harness, move |_| {
        if cut.load(std::sync::atomic::Ordering::Relaxed) { Fault::FailBefore } else { Fault::None }
    });
    let running = harness.start(harness.builder_on(cut_off, registry(&notes)));
    let key = harness.enqueue(NewTask::new("obedient")).await;
    harness.until(&key, TaskState::Running).await;
    leased.store(true, std::sync::atomic::Ordering::Relaxed);
    let _other = harness.start(harness.builder(registry(&notes)).name("w2"));
    harness.pass(33).await;
    let record = harness.until(&key, TaskState::Running).await;
    assert_eq!((record.attempt, record.losses, record.failures), (2, 1, 0));
    running.shutdown.request();
    running.shutdown.request();
    harness.pass(40).await;
    let summary = running.worker.await.unwrap();
    assert_eq!((summary.lost, summary.failed), (1, 0), "{summary:?}");
}

#[tokio::test]
async fn an_outcome_whose_report_was_lost_is_reported_again_and_recorded_once() {
    let harness = harness();
    let plan = |call: &CallSite| {
        if call.method == "commit" && call.number == 1 { Fault::FailAfter } else { Fault::None }
    };
    let store = faulty(&harness, plan);
    let registry = Registry::new().handle("once", |_: (), _: Ctx| async move { Ok(1) }).unwrap();
    let running = harness.start(harness.builder_on(store, registry));
    let key = harness.enqueue(NewTask::new("once")).await;
    let record = harness.until(&key, TaskState::Succeeded).await;
    settle().await;
    harness.clock.advance(Duration::from_millis(100));
    settle().await;
    running.shutdown.request();
    let summary = running.worker.await.unwrap();
    assert_eq!((record.executions, summary.succeeded, summary.lost), (1, 1, 0));
}

#[tokio::test]
async fn a_lease_request_whose_response_was_lost_is_retried_and_loses_nothing() {
    let harness = harness();
    let plan = |call: &CallSite| {
        if call.method == "lease" && call.number == 1 { Fault::FailAfter } else { Fault::None }
    };
    let store = faulty(&harness, plan);
    let key = harness.enqueue(NewTask::new("once")).await;
    let registry = Registry::new().handle("once", |_: (), _: Ctx| async move { Ok(()) }).unwrap();
    let _running = harness.start(harness.builder_on(store, registry));
    let record = harness.until(&key, TaskState::Succeeded).await;
    assert_eq!((record.attempt, record.cause), (1, None::<Cause>));
}
