//! Explanations of tasks that do not wait: running, assigned and finished ones; and the text of an
//! explanation.

use weaver_core::error::Error;
use weaver_core::explain::Reason;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::lifecycle::{Command, OrphanCause};
use weaver_core::name::Namespace;
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::ports::{Beat, QueueSettings};
use weaver_core::queue::QueueExt;
use weaver_core::task::{CancelReason, Cause, TaskState};

use super::cases;
use super::explain::{after, assign, beat, reasons, send, text};
use weaver_testkit::harness::{Harness, namespace, seconds, task, worker};

cases![
    an_assigned_task_names_its_worker,
    an_orphan_reports_how_often_it_was_lost,
    a_running_task_names_its_worker_and_its_lease,
    a_finished_task_is_explained_with_state_cause_time_and_error,
    a_handler_that_has_not_stopped_yet_is_named,
    an_unknown_task_cannot_be_explained,
    the_explanation_text_names_the_evidence,
    the_text_of_a_finished_task_names_cause_and_error,
];

async fn an_assigned_task_names_its_worker(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.apply(&key, assign("v")).await;
    let since = harness.now().await;
    harness.advance(seconds(5)).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::Assigned { worker: worker("v"), since }]);
}

async fn an_orphan_reports_how_often_it_was_lost(harness: Harness) {
    let key = harness.enqueue(task()).await;
    for losses in 1..=2 {
        harness.apply(&key, assign("v")).await;
        harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
        assert_eq!(reasons(&harness, &key).await, [Reason::Orphaned { losses }]);
    }
}

async fn a_running_task_names_its_worker_and_its_lease(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let since = harness.now().await;
    let running = |lease_until| Reason::Running { worker: worker("w"), since, lease_until };
    assert_eq!(reasons(&harness, &key).await, [running(after(&harness, 30).await)]);
    harness.advance(seconds(10)).await;
    let _extended = harness.renew(&leased.lease).await;
    assert_eq!(reasons(&harness, &key).await, [running(after(&harness, 30).await)]);
}

async fn a_finished_task_is_explained_with_state_cause_time_and_error(harness: Harness) {
    let by_handler = Some(Cause::Cancelled(CancelReason::Handler));
    let ends = [
        (Outcome::DONE, TaskState::Succeeded, None, None),
        (Outcome::fatal("no"), TaskState::Dead, Some(Cause::Failed), Some("no")),
        (Outcome::Cancelled { message: "moot".into() }, TaskState::Cancelled, by_handler, Some("moot")),
    ];
    for (outcome, state, because, error) in ends {
        let key = harness.enqueue(task()).await;
        let first = harness.lease_one().await;
        harness
            .end(&first, Outcome::Failed { error: "not yet".into(), retry: Retry::After(seconds(0)) })
            .await;
        let leased = harness.lease_one().await;
        harness.end(&leased, outcome).await;
        let at = harness.now().await;
        harness.advance(seconds(5)).await;
        let error = error.map(str::to_owned);
        assert_eq!(reasons(&harness, &key).await, [Reason::Ended { state, because, at, error }]);
    }
}

async fn a_handler_that_has_not_stopped_yet_is_named(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let until = after(&harness, 30).await;
    harness.advance(seconds(5)).await;
    harness.cancel(&key).await;
    let because = Some(Cause::Cancelled(CancelReason::User));
    let at = harness.now().await;
    let ended = Reason::Ended { state: TaskState::Cancelled, because, at, error: None };
    let stopping = Reason::HandlerStopping { worker: worker("w"), until };
    assert_eq!(reasons(&harness, &key).await, [ended.clone(), stopping]);
    harness.confirm(&leased.lease).await;
    assert_eq!(reasons(&harness, &key).await, [ended]);
}

async fn an_unknown_task_cannot_be_explained(harness: Harness) {
    let known = harness.enqueue(task()).await;
    let unknown = TaskKey::new(Namespace::default(), TaskId(known.id.0 + 1000));
    let foreign = TaskKey::new(namespace("there"), known.id);
    for key in [unknown, foreign] {
        assert_eq!(harness.store.explain(&key).await, Err(Error::NotFound { key }));
    }
}

async fn the_explanation_text_names_the_evidence(harness: Harness) {
    let first = harness.enqueue(task().serial_key("k")).await;
    let key = harness.enqueue(task().serial_key("k").delay(seconds(10))).await;
    harness.lease_one().await;
    harness
        .set_queue(
            "default",
            QueueSettings { paused: true, max_running: Some(1), ..QueueSettings::default() },
        )
        .await;
    send(&harness, Beat { draining: true, ..beat("w") }).await;
    let (due, until) = (after(&harness, 10).await, after(&harness, 30).await);
    let expected = [
        format!("task {key} is scheduled"),
        format!("due at {due}"),
        format!("its serial key is held by task {} on w, until {until} unless renewed", first.id),
        "queue default is paused: resume it with `weaver queues resume default`".to_owned(),
        "queue default is at its concurrency limit: 1 of 1 slots taken".to_owned(),
        "no live worker takes t tasks from queue default (live workers: 1)".to_owned(),
    ];
    assert_eq!(text(&harness, &key).await, expected.join("\n  "));
    let running =
        format!("running on w since {}, lease expires at {until} unless renewed", harness.now().await);
    assert_eq!(text(&harness, &first).await, format!("task {first} is running\n  {running}"));
}

async fn the_text_of_a_finished_task_names_cause_and_error(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::fatal("the disk is full")).await;
    let expected =
        format!("task {key} is dead\n  failed permanently at {}: the disk is full", harness.now().await);
    assert_eq!(text(&harness, &key).await, expected);
}
