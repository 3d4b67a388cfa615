//! Reporting outcomes and leasing the next tasks: in one call where the store says that it is cheaper.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use weaver_core::error::Result;
use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_core::task::Cause;
use weaver_runtime::{Ctx, Registry, TaskError};
use weaver_testkit::faults::{Fault, FaultyStore, Script};
use weaver_testkit::harness::seconds;
use weaver_testkit::intercept::{Answer, Call, Intercept, Intercepted};

use crate::harness::{Notes, WorkerHarness, harness, settle, until};

/// Notes each call that leases or commits; `at_once` is what the store says about one call.
struct Calls {
    made: Arc<Mutex<Vec<&'static str>>>,
    at_once: bool,
}

#[async_trait]
impl Intercept for Calls {
    async fn around(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        if matches!(call, Call::Lease { .. } | Call::Commit { .. } | Call::CommitAndLease { .. }) {
            self.made.lock().push(call.method());
        }
        call.send(store.as_ref()).await
    }

    fn commits_and_leases_at_once(&self, _: &Arc<dyn Store>) -> bool {
        self.at_once
    }
}

fn registry(notes: &Notes) -> Registry {
    let registry = Registry::new().share(notes.clone()).handle("t", |_: (), ctx: Ctx| async move {
        ctx.shared::<Notes>()?.add(ctx.key().id.to_string());
        Ok::<_, TaskError>(())
    });
    registry.unwrap()
}

/// A worker runs three tasks, one at a time; returns its calls.
async fn calls_of_three_tasks(at_once: bool) -> Vec<&'static str> {
    let (harness, notes) = (harness(), Notes::default());
    let made = Arc::new(Mutex::new(Vec::new()));
    let store = Intercepted::of(harness.store.clone(), Calls { made: made.clone(), at_once });
    let keys = harness.enqueue_all(vec![NewTask::new("t"); 3]).await;
    let builder = harness.builder_on(Arc::new(store), registry(&notes)).concurrency(1).no_prefetch();
    let running = harness.start(builder);
    harness.until(&keys[2], TaskState::Succeeded).await;
    settle().await;
    running.shutdown.request();
    running.worker.await.unwrap();
    assert_eq!(notes.all().len(), 3, "each ran once");
    Arc::into_inner(made).map_or_else(Vec::new, Mutex::into_inner)
}

#[tokio::test]
async fn a_worker_reports_and_leases_in_one_call_where_the_store_can() {
    let calls = calls_of_three_tasks(true).await;
    assert_eq!(calls, ["lease", "commit_and_lease", "commit_and_lease", "commit_and_lease"]);
}

#[tokio::test]
async fn elsewhere_it_makes_two_calls() {
    let calls = calls_of_three_tasks(false).await;
    assert!(!calls.contains(&"commit_and_lease"), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| **call == "commit").count(), 3, "{calls:?}");
}

/// A worker with one slot, on a store whose first call for both fails as described.
fn start_on(harness: &WorkerHarness, notes: &Notes, fault: Fault) -> weaver_testkit::harness::Running {
    let plan = Script::new().on("commit_and_lease", 1, fault);
    let store = FaultyStore::new(harness.store.clone(), Arc::new(harness.clock.clone()), plan);
    harness.start(harness.builder_on(Arc::new(store), registry(notes)).concurrency(1).no_prefetch())
}

#[tokio::test]
async fn a_lost_answer_neither_loses_nor_repeats_a_task() {
    for fault in [Fault::FailBefore, Fault::FailAfter, Fault::Duplicate] {
        let (harness, notes) = (harness(), Notes::default());
        let keys = harness.enqueue_all(vec![NewTask::new("t"); 3]).await;
        let running = start_on(&harness, &notes, fault);
        for key in &keys {
            harness.until(key, TaskState::Succeeded).await;
        }
        running.shutdown.request();
        assert_eq!(running.worker.await.unwrap().succeeded, 3, "{fault:?}");
        assert_eq!(notes.all().len(), 3, "{fault:?}: each ran once");
        for key in &keys {
            assert_eq!(harness.record(key).await.attempt, 1, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_task_that_is_leased_while_the_worker_drains_is_released() {
    let (harness, notes) = (harness(), Notes::default());
    let keys = harness.enqueue_all(vec![NewTask::new("t"); 2]).await;
    let running = start_on(&harness, &notes, Fault::Delay(seconds(2)));
    until("the first has run", || !notes.all().is_empty()).await;
    settle().await;
    running.shutdown.request();
    settle().await;
    harness.pass(3).await;
    let summary = running.worker.await.unwrap();
    assert_eq!((summary.succeeded, summary.released), (1, 1));
    assert_eq!(notes.all().len(), 1, "the second did not start");
    let second = harness.record(&keys[1]).await;
    assert_eq!((second.state, second.cause), (TaskState::RetryScheduled, Some(Cause::Released)));
}

#[tokio::test]
async fn a_worker_that_leased_nothing_with_its_report_is_woken_by_the_next_task() {
    let (harness, notes) = (harness(), Notes::default());
    let running = harness.work(registry(&notes));
    for _ in 0..3 {
        let key = harness.enqueue(NewTask::new("t")).await;
        harness.until(&key, TaskState::Succeeded).await;
        settle().await;
    }
    running.shutdown.request();
    assert_eq!(running.worker.await.unwrap().succeeded, 3);
}
