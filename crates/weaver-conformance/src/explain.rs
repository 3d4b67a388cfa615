//! Explanations: every reason why a task waits, with its evidence.

use weaver_core::explain::Reason;
use weaver_core::id::{Epoch, TaskKey};
use weaver_core::lifecycle::Command;
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Beat, Directive, QueueSettings, RunnerKey};
use weaver_core::queue::QueueExt;
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{CancelReason, Cause, NewTask, TaskState};
use weaver_core::time::Timestamp;

use super::cases;
use super::steps::task_type;
use weaver_testkit::harness::{Harness, namespace, queue, seconds, task, worker};

cases![
    a_task_that_is_not_due_says_when,
    a_task_waiting_for_a_retry_says_when_and_why,
    a_held_serial_key_names_its_holder_and_the_lease_expiry,
    a_serial_key_held_between_two_attempts_names_its_holder,
    a_key_held_by_an_assigned_task_names_its_worker,
    a_key_is_held_until_a_cancelled_handler_has_stopped,
    the_holder_of_a_serial_key_is_found_behind_any_number_of_delayed_tasks,
    a_lower_id_of_the_key_goes_first,
    a_lower_id_that_is_not_due_or_has_expired_does_not_block,
    a_task_does_not_block_itself,
    those_ahead_are_counted,
    those_ahead_are_counted_up_to_a_thousand,
    a_paused_queue_is_a_reason,
    a_full_queue_is_explained_with_its_numbers,
    no_live_worker_is_a_reason,
    a_worker_that_does_not_serve_the_queue_or_type_does_not_count,
    a_silent_or_deregistered_worker_is_not_alive,
    one_worker_that_serves_the_queue_and_type_is_enough,
    a_task_without_blockers_is_explained_as_next,
    an_expired_task_is_explained_as_expired_until_it_is_cancelled,
    an_explanation_lists_every_blocker_at_once,
];

pub(super) async fn reasons(harness: &Harness, key: &TaskKey) -> Vec<Reason> {
    let explanation = harness.store.explain(key).await.expect("the task is there");
    assert_eq!(&explanation.key, key);
    assert_eq!(explanation.state, harness.record(key).await.state);
    assert_eq!(explanation.as_of, harness.now().await);
    explanation.reasons
}

pub(super) async fn text(harness: &Harness, key: &TaskKey) -> String {
    harness.store.explain(key).await.expect("the task is there").to_string()
}

/// A worker that serves queue `default`, all types.
pub(super) fn beat(name: &str) -> Beat {
    Beat {
        key: RunnerKey { namespace: Namespace::default(), runner_id: worker(name) },
        project_root: None,
        started_at: Timestamp::MIN,
        queues: vec![queue("default")],
        types: None,
        capacity: 4,
        running: 0,
        draining: false,

        every: None,
    }
}

pub(super) async fn send(harness: &Harness, beat: Beat) {
    harness.store.beat(vec![beat]).await.expect("the store answers");
}

/// A task without blockers, with a live worker for it.
async fn served(harness: &Harness, task: NewTask) -> TaskKey {
    send(harness, beat("w")).await;
    harness.enqueue(task).await
}

/// Two tasks of one serial key, the first of which worker `w` has leased.
async fn held(harness: &Harness) -> (TaskKey, TaskKey) {
    let held = served(harness, task().serial_key("k")).await;
    let waits = harness.enqueue(task().serial_key("k")).await;
    assert_eq!(harness.lease_one().await.lease.key, held);
    (held, waits)
}

fn no_worker(alive: u32) -> Reason {
    Reason::NoWorker { queue: queue("default"), task_type: task_type("t"), alive }
}

pub(super) async fn after(harness: &Harness, count: u64) -> Timestamp {
    harness.now().await.saturating_add(seconds(count))
}

pub(super) fn assign(name: &str) -> Command {
    Command::Assign { worker: worker(name), epoch: Epoch(1) }
}

#[track_caller]
fn expect_among(reasons: &[Reason], reason: &Reason) {
    assert!(reasons.contains(reason), "{reason:?} is not among {reasons:?}");
}

async fn a_task_that_is_not_due_says_when(harness: Harness) {
    let key = served(&harness, task().delay(seconds(10))).await;
    let at = after(&harness, 10).await;
    harness.advance(seconds(9)).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::DueAt { at, because: None }]);
    harness.advance(seconds(1)).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
}

async fn a_task_waiting_for_a_retry_says_when_and_why(harness: Harness) {
    let outcomes = [
        (Outcome::failed("no"), Cause::Failed),
        (Outcome::TimedOut, Cause::TimedOut),
        (Outcome::Snoozed { delay: seconds(10) }, Cause::Snoozed),
    ];
    for (outcome, cause) in outcomes {
        let key = served(&harness, task().retry(RetryPolicy::Fixed { delay: seconds(10) })).await;
        let leased = harness.lease_one().await;
        harness.end(&leased, outcome).await;
        let at = after(&harness, 10).await;
        assert_eq!(reasons(&harness, &key).await, [Reason::DueAt { at, because: Some(cause) }]);
        harness.cancel(&key).await;
    }
}

async fn a_held_serial_key_names_its_holder_and_the_lease_expiry(harness: Harness) {
    let (held, waits) = held(&harness).await;
    let until = Some(after(&harness, 30).await);
    let reason = Reason::KeyHeld { by: held.id.to_string(), worker: Some(worker("w")), until };
    expect_among(&reasons(&harness, &waits).await, &reason);
}

async fn a_serial_key_held_between_two_attempts_names_its_holder(harness: Harness) {
    let first = served(&harness, task().serial_key("k")).await;
    let waits = harness.enqueue(task().serial_key("k")).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Snoozed { delay: seconds(10) }).await;
    let reason = Reason::KeyHeld { by: first.id.to_string(), worker: None, until: None };
    expect_among(&reasons(&harness, &waits).await, &reason);
    assert!(
        text(&harness, &waits).await.contains(&format!("held by task {}, between two attempts", first.id))
    );
}

async fn a_key_held_by_an_assigned_task_names_its_worker(harness: Harness) {
    let first = served(&harness, task().serial_key("k")).await;
    let waits = harness.enqueue(task().serial_key("k")).await;
    harness.apply(&first, assign("v")).await;
    let reason = Reason::KeyHeld { by: first.id.to_string(), worker: Some(worker("v")), until: None };
    expect_among(&reasons(&harness, &waits).await, &reason);
    assert!(text(&harness, &waits).await.contains(&format!("held by task {}, assigned to v", first.id)));
}

async fn a_key_is_held_until_a_cancelled_handler_has_stopped(harness: Harness) {
    let (held, waits) = held(&harness).await;
    let lease = harness.record(&held).await.current_lease().expect("it runs");
    let until = Some(after(&harness, 30).await);
    harness.cancel(&held).await;
    let reason = Reason::KeyHeld { by: held.id.to_string(), worker: Some(worker("w")), until };
    expect_among(&reasons(&harness, &waits).await, &reason);
    harness.confirm(&lease).await;
    assert_eq!(reasons(&harness, &waits).await, [Reason::NextInLine]);
}

async fn the_holder_of_a_serial_key_is_found_behind_any_number_of_delayed_tasks(harness: Harness) {
    harness.enqueue_all(vec![task().serial_key("k").delay(seconds(3600)); 1100]).await;
    let (held, waits) = held(&harness).await;
    let until = Some(after(&harness, 30).await);
    let reason = Reason::KeyHeld { by: held.id.to_string(), worker: Some(worker("w")), until };
    expect_among(&reasons(&harness, &waits).await, &reason);
}

async fn a_lower_id_of_the_key_goes_first(harness: Harness) {
    let first = served(&harness, task().serial_key("k").priority(9)).await;
    let urgent = harness.enqueue(task().serial_key("k").priority(0)).await;
    expect_among(&reasons(&harness, &urgent).await, &Reason::KeyWaitsFor { task: first.id.to_string() });
    assert_eq!(reasons(&harness, &first).await, [Reason::NextInLine]);
}

async fn a_lower_id_that_is_not_due_or_has_expired_does_not_block(harness: Harness) {
    harness.enqueue(task().serial_key("k").delay(seconds(60))).await;
    harness.enqueue(task().serial_key("k").expires_at(after(&harness, 10).await)).await;
    let key = served(&harness, task().serial_key("k")).await;
    harness.advance(seconds(10)).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
}

async fn a_task_does_not_block_itself(harness: Harness) {
    let key = served(&harness, task().serial_key("k")).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Released).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
}

async fn those_ahead_are_counted(harness: Harness) {
    let keys = harness.enqueue_all(vec![task(); 3]).await;
    let key = served(&harness, task()).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::Ahead { at_least: 3 }]);
    assert_eq!(reasons(&harness, &keys[1]).await, [Reason::Ahead { at_least: 1 }]);
    harness.enqueue(task().priority(0)).await;
    assert_eq!(reasons(&harness, &keys[0]).await, [Reason::Ahead { at_least: 1 }]);
    harness.enqueue(task().queue("side").priority(0)).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::Ahead { at_least: 4 }]);
}

async fn those_ahead_are_counted_up_to_a_thousand(harness: Harness) {
    harness.enqueue_all(vec![task(); 1001]).await;
    let key = served(&harness, task()).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::Ahead { at_least: 1000 }]);
}

async fn a_paused_queue_is_a_reason(harness: Harness) {
    let key = served(&harness, task()).await;
    harness.pause("default").await;
    assert_eq!(reasons(&harness, &key).await, [Reason::Paused { queue: queue("default") }]);
    harness.reset_queue("default").await;
    harness.pause("side").await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
}

async fn a_full_queue_is_explained_with_its_numbers(harness: Harness) {
    harness.enqueue_all(vec![task(); 3]).await;
    let leased = harness.lease(3).await;
    let key = served(&harness, task()).await;
    harness.limit("default", 2).await;
    let full = |occupied| Reason::LimitReached { queue: queue("default"), occupied, max_running: 2 };
    assert_eq!(reasons(&harness, &key).await, [full(3)]);
    harness.succeed(&leased[0]).await;
    // A handler that has not stopped counts as running too.
    harness.cancel(&leased[1].lease.key).await;
    assert_eq!(reasons(&harness, &key).await, [full(2)]);
    harness.confirm(&leased[1].lease).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
}

async fn no_live_worker_is_a_reason(harness: Harness) {
    let key = harness.enqueue(task()).await;
    assert_eq!(reasons(&harness, &key).await, [no_worker(0)]);
    let there = RunnerKey { namespace: namespace("there"), runner_id: worker("w") };
    send(&harness, Beat { key: there, ..beat("w") }).await;
    assert_eq!(
        reasons(&harness, &key).await,
        [no_worker(0)],
        "another namespace's worker takes nothing here"
    );
}

async fn a_worker_that_does_not_serve_the_queue_or_type_does_not_count(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let unfit = [
        Beat { queues: vec![queue("side")], ..beat("w") },
        Beat { types: Some(vec![task_type("other")]), ..beat("w") },
        Beat { types: Some(vec![]), ..beat("w") },
        Beat { draining: true, ..beat("w") },
    ];
    for beat in unfit {
        send(&harness, beat.clone()).await;
        assert_eq!(reasons(&harness, &key).await, [no_worker(1)], "{beat:?}");
    }
    send(&harness, beat("w")).await;
    for directive in [Directive::Drain, Directive::Stop] {
        harness.store.direct(&beat("w").key, directive).await.expect("the store answers");
        assert_eq!(reasons(&harness, &key).await, [no_worker(1)], "{directive:?}");
    }
}

async fn a_silent_or_deregistered_worker_is_not_alive(harness: Harness) {
    let key = served(&harness, task()).await;
    harness.advance(seconds(119)).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
    harness.advance(seconds(1)).await;
    assert_eq!(reasons(&harness, &key).await, [no_worker(0)]);
    send(&harness, beat("w")).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
    harness.store.stop_runner(&beat("w").key).await.expect("the store answers");
    assert_eq!(reasons(&harness, &key).await, [no_worker(0)]);
}

async fn one_worker_that_serves_the_queue_and_type_is_enough(harness: Harness) {
    let key = harness.enqueue(task()).await;
    send(&harness, Beat { queues: vec![queue("side")], ..beat("u") }).await;
    send(&harness, Beat { draining: true, ..beat("v") }).await;
    assert_eq!(reasons(&harness, &key).await, [no_worker(2)]);
    let types = Some(vec![task_type("other"), task_type("t")]);
    send(&harness, Beat { queues: vec![queue("side"), queue("default")], types, ..beat("w") }).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
}

async fn a_task_without_blockers_is_explained_as_next(harness: Harness) {
    let key = served(&harness, task()).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
    assert!(text(&harness, &key).await.contains("the next free worker takes it"));
}

async fn an_expired_task_is_explained_as_expired_until_it_is_cancelled(harness: Harness) {
    let at = after(&harness, 10).await;
    let key = served(&harness, task().expires_at(at)).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::NextInLine]);
    harness.advance(seconds(10)).await;
    assert_eq!(reasons(&harness, &key).await, [Reason::Expired { at }]);
    assert_eq!(harness.maintain().await, 1);
    let because = Some(Cause::Cancelled(CancelReason::Expired));
    let ended = Reason::Ended { state: TaskState::Cancelled, because, at, error: None };
    assert_eq!(reasons(&harness, &key).await, [ended]);
}

async fn an_explanation_lists_every_blocker_at_once(harness: Harness) {
    let first = harness.enqueue(task().serial_key("k")).await;
    let key = harness.enqueue(task().serial_key("k").delay(seconds(10))).await;
    harness.lease_one().await;
    harness
        .set_queue(
            "default",
            QueueSettings { paused: true, max_running: Some(1), ..QueueSettings::default() },
        )
        .await;
    let expected = [
        Reason::DueAt { at: after(&harness, 10).await, because: None },
        Reason::KeyHeld {
            by: first.id.to_string(),
            worker: Some(worker("w")),
            until: Some(after(&harness, 30).await),
        },
        Reason::Paused { queue: queue("default") },
        Reason::LimitReached { queue: queue("default"), occupied: 1, max_running: 1 },
        no_worker(0),
    ];
    assert_eq!(reasons(&harness, &key).await, expected);
}
