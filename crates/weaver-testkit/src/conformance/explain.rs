//! Why does it not start? Every reason why a task waits, with its evidence, from what any store can say.

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
use crate::bed::{Bed, namespace, queue, seconds, task, worker};

cases![
    a_task_that_is_not_due_says_when,
    a_task_that_waits_again_says_when_and_why,
    a_held_key_names_who_holds_it_and_until_when,
    a_key_held_between_two_attempts_names_who_holds_it,
    a_key_held_by_an_assigned_task_names_its_worker,
    a_key_is_held_until_a_cancelled_handler_has_stopped,
    whoever_holds_a_key_is_found_behind_any_number_that_wait_for_a_later_time,
    a_lower_id_of_the_key_goes_first,
    a_lower_id_that_is_not_due_or_has_expired_is_no_reason,
    a_task_is_not_in_the_way_of_itself,
    those_ahead_are_counted,
    those_ahead_are_counted_up_to_a_thousand,
    a_paused_queue_is_a_reason,
    a_full_queue_is_a_reason_with_its_numbers,
    nobody_alive_is_a_reason,
    a_worker_that_would_not_take_it_is_no_help,
    a_worker_that_is_gone_is_not_alive,
    a_worker_that_serves_it_is_enough,
    nothing_in_its_way_is_said_so,
    an_expired_task_says_so_until_it_is_cancelled,
    everything_in_its_way_is_said_at_once,
];

pub(super) async fn reasons(bed: &Bed, key: &TaskKey) -> Vec<Reason> {
    let explanation = bed.store.explain(key).await.expect("the task is there");
    assert_eq!(&explanation.key, key);
    assert_eq!(explanation.state, bed.record(key).await.state);
    assert_eq!(explanation.as_of, bed.now().await);
    explanation.reasons
}

pub(super) async fn text(bed: &Bed, key: &TaskKey) -> String {
    bed.store.explain(key).await.expect("the task is there").to_string()
}

/// A worker that would take anything from queue `default`.
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
    }
}

pub(super) async fn send(bed: &Bed, beat: Beat) {
    bed.store.beat(vec![beat]).await.expect("the store answers");
}

/// A task that nothing but the test keeps from running.
async fn served(bed: &Bed, task: NewTask) -> TaskKey {
    send(bed, beat("w")).await;
    bed.enqueue(task).await
}

/// Two tasks of one key, the first of which has just been taken by worker `w`.
async fn held(bed: &Bed) -> (TaskKey, TaskKey) {
    let held = served(bed, task().serial_key("k")).await;
    let waits = bed.enqueue(task().serial_key("k")).await;
    assert_eq!(bed.lease_one().await.lease.key, held);
    (held, waits)
}

fn no_worker(alive: u32) -> Reason {
    Reason::NoWorker { queue: queue("default"), task_type: task_type("t"), alive }
}

pub(super) async fn after(bed: &Bed, count: u64) -> Timestamp {
    bed.now().await.saturating_add(seconds(count))
}

pub(super) fn assign(name: &str) -> Command {
    Command::Assign { worker: worker(name), epoch: Epoch(1) }
}

#[track_caller]
fn expect_among(reasons: &[Reason], reason: &Reason) {
    assert!(reasons.contains(reason), "{reason:?} is not among {reasons:?}");
}

async fn a_task_that_is_not_due_says_when(bed: Bed) {
    let key = served(&bed, task().delay(seconds(10))).await;
    let at = after(&bed, 10).await;
    bed.advance(seconds(9)).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::DueAt { at, because: None }]);
    bed.advance(seconds(1)).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
}

async fn a_task_that_waits_again_says_when_and_why(bed: Bed) {
    let outcomes = [
        (Outcome::failed("no"), Cause::Failed),
        (Outcome::TimedOut, Cause::TimedOut),
        (Outcome::Snoozed { delay: seconds(10) }, Cause::Snoozed),
    ];
    for (outcome, cause) in outcomes {
        let key = served(&bed, task().retry(RetryPolicy::Fixed { delay: seconds(10) })).await;
        let leased = bed.lease_one().await;
        bed.end(&leased, outcome).await;
        let at = after(&bed, 10).await;
        assert_eq!(reasons(&bed, &key).await, [Reason::DueAt { at, because: Some(cause) }]);
        bed.cancel(&key).await;
    }
}

async fn a_held_key_names_who_holds_it_and_until_when(bed: Bed) {
    let (held, waits) = held(&bed).await;
    let until = Some(after(&bed, 30).await);
    let reason = Reason::KeyHeld { by: held.id, worker: Some(worker("w")), until };
    expect_among(&reasons(&bed, &waits).await, &reason);
}

async fn a_key_held_between_two_attempts_names_who_holds_it(bed: Bed) {
    let first = served(&bed, task().serial_key("k")).await;
    let waits = bed.enqueue(task().serial_key("k")).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Snoozed { delay: seconds(10) }).await;
    let reason = Reason::KeyHeld { by: first.id, worker: None, until: None };
    expect_among(&reasons(&bed, &waits).await, &reason);
    assert!(text(&bed, &waits).await.contains(&format!("held by task {}, between two attempts", first.id)));
}

async fn a_key_held_by_an_assigned_task_names_its_worker(bed: Bed) {
    let first = served(&bed, task().serial_key("k")).await;
    let waits = bed.enqueue(task().serial_key("k")).await;
    bed.apply(&first, assign("v")).await;
    let reason = Reason::KeyHeld { by: first.id, worker: Some(worker("v")), until: None };
    expect_among(&reasons(&bed, &waits).await, &reason);
    assert!(text(&bed, &waits).await.contains(&format!("held by task {}, assigned to v", first.id)));
}

async fn a_key_is_held_until_a_cancelled_handler_has_stopped(bed: Bed) {
    let (held, waits) = held(&bed).await;
    let lease = bed.record(&held).await.current_lease().expect("it runs");
    let until = Some(after(&bed, 30).await);
    bed.cancel(&held).await;
    let reason = Reason::KeyHeld { by: held.id, worker: Some(worker("w")), until };
    expect_among(&reasons(&bed, &waits).await, &reason);
    bed.confirm(&lease).await;
    assert_eq!(reasons(&bed, &waits).await, [Reason::NextInLine]);
}

async fn whoever_holds_a_key_is_found_behind_any_number_that_wait_for_a_later_time(bed: Bed) {
    bed.enqueue_all(vec![task().serial_key("k").delay(seconds(3600)); 1100]).await;
    let (held, waits) = held(&bed).await;
    let until = Some(after(&bed, 30).await);
    let reason = Reason::KeyHeld { by: held.id, worker: Some(worker("w")), until };
    expect_among(&reasons(&bed, &waits).await, &reason);
}

async fn a_lower_id_of_the_key_goes_first(bed: Bed) {
    let first = served(&bed, task().serial_key("k").priority(9)).await;
    let urgent = bed.enqueue(task().serial_key("k").priority(0)).await;
    expect_among(&reasons(&bed, &urgent).await, &Reason::KeyWaitsFor { task: first.id });
    assert_eq!(reasons(&bed, &first).await, [Reason::NextInLine]);
}

async fn a_lower_id_that_is_not_due_or_has_expired_is_no_reason(bed: Bed) {
    bed.enqueue(task().serial_key("k").delay(seconds(60))).await;
    bed.enqueue(task().serial_key("k").expires_at(after(&bed, 10).await)).await;
    let key = served(&bed, task().serial_key("k")).await;
    bed.advance(seconds(10)).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
}

async fn a_task_is_not_in_the_way_of_itself(bed: Bed) {
    let key = served(&bed, task().serial_key("k")).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Released).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
}

async fn those_ahead_are_counted(bed: Bed) {
    let keys = bed.enqueue_all(vec![task(); 3]).await;
    let key = served(&bed, task()).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::Ahead { at_least: 3 }]);
    assert_eq!(reasons(&bed, &keys[1]).await, [Reason::Ahead { at_least: 1 }]);
    bed.enqueue(task().priority(0)).await;
    assert_eq!(reasons(&bed, &keys[0]).await, [Reason::Ahead { at_least: 1 }]);
    bed.enqueue(task().queue("side").priority(0)).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::Ahead { at_least: 4 }]);
}

async fn those_ahead_are_counted_up_to_a_thousand(bed: Bed) {
    bed.enqueue_all(vec![task(); 1001]).await;
    let key = served(&bed, task()).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::Ahead { at_least: 1000 }]);
}

async fn a_paused_queue_is_a_reason(bed: Bed) {
    let key = served(&bed, task()).await;
    bed.pause("default").await;
    assert_eq!(reasons(&bed, &key).await, [Reason::Paused { queue: queue("default") }]);
    bed.reset_queue("default").await;
    bed.pause("side").await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
}

async fn a_full_queue_is_a_reason_with_its_numbers(bed: Bed) {
    bed.enqueue_all(vec![task(); 3]).await;
    let leased = bed.lease(3).await;
    let key = served(&bed, task()).await;
    bed.limit("default", 2).await;
    let full = |occupied| Reason::LimitReached { queue: queue("default"), occupied, max_running: 2 };
    assert_eq!(reasons(&bed, &key).await, [full(3)]);
    bed.succeed(&leased[0]).await;
    // What its handler still does is under way too.
    bed.cancel(&leased[1].lease.key).await;
    assert_eq!(reasons(&bed, &key).await, [full(2)]);
    bed.confirm(&leased[1].lease).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
}

async fn nobody_alive_is_a_reason(bed: Bed) {
    let key = bed.enqueue(task()).await;
    assert_eq!(reasons(&bed, &key).await, [no_worker(0)]);
    let there = RunnerKey { namespace: namespace("there"), runner_id: worker("w") };
    send(&bed, Beat { key: there, ..beat("w") }).await;
    assert_eq!(reasons(&bed, &key).await, [no_worker(0)], "another namespace's worker takes nothing here");
}

async fn a_worker_that_would_not_take_it_is_no_help(bed: Bed) {
    let key = bed.enqueue(task()).await;
    let unfit = [
        Beat { queues: vec![queue("side")], ..beat("w") },
        Beat { types: Some(vec![task_type("other")]), ..beat("w") },
        Beat { types: Some(vec![]), ..beat("w") },
        Beat { draining: true, ..beat("w") },
    ];
    for beat in unfit {
        send(&bed, beat.clone()).await;
        assert_eq!(reasons(&bed, &key).await, [no_worker(1)], "{beat:?}");
    }
    send(&bed, beat("w")).await;
    for directive in [Directive::Drain, Directive::Stop] {
        bed.store.direct(&beat("w").key, directive).await.expect("the store answers");
        assert_eq!(reasons(&bed, &key).await, [no_worker(1)], "{directive:?}");
    }
}

async fn a_worker_that_is_gone_is_not_alive(bed: Bed) {
    let key = served(&bed, task()).await;
    bed.advance(seconds(119)).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
    bed.advance(seconds(1)).await;
    assert_eq!(reasons(&bed, &key).await, [no_worker(0)]);
    send(&bed, beat("w")).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
    bed.store.stop_runner(&beat("w").key).await.expect("the store answers");
    assert_eq!(reasons(&bed, &key).await, [no_worker(0)]);
}

async fn a_worker_that_serves_it_is_enough(bed: Bed) {
    let key = bed.enqueue(task()).await;
    send(&bed, Beat { queues: vec![queue("side")], ..beat("u") }).await;
    send(&bed, Beat { draining: true, ..beat("v") }).await;
    assert_eq!(reasons(&bed, &key).await, [no_worker(2)]);
    let types = Some(vec![task_type("other"), task_type("t")]);
    send(&bed, Beat { queues: vec![queue("side"), queue("default")], types, ..beat("w") }).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
}

async fn nothing_in_its_way_is_said_so(bed: Bed) {
    let key = served(&bed, task()).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
    assert!(text(&bed, &key).await.contains("the next free worker takes it"));
}

async fn an_expired_task_says_so_until_it_is_cancelled(bed: Bed) {
    let at = after(&bed, 10).await;
    let key = served(&bed, task().expires_at(at)).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::NextInLine]);
    bed.advance(seconds(10)).await;
    assert_eq!(reasons(&bed, &key).await, [Reason::Expired { at }]);
    assert_eq!(bed.maintain().await, 1);
    let because = Some(Cause::Cancelled(CancelReason::Expired));
    let ended = Reason::Ended { state: TaskState::Cancelled, because, at, error: None };
    assert_eq!(reasons(&bed, &key).await, [ended]);
}

async fn everything_in_its_way_is_said_at_once(bed: Bed) {
    let first = bed.enqueue(task().serial_key("k")).await;
    let key = bed.enqueue(task().serial_key("k").delay(seconds(10))).await;
    bed.lease_one().await;
    bed.set_queue("default", QueueSettings { paused: true, max_running: Some(1) }).await;
    let expected = [
        Reason::DueAt { at: after(&bed, 10).await, because: None },
        Reason::KeyHeld { by: first.id, worker: Some(worker("w")), until: Some(after(&bed, 30).await) },
        Reason::Paused { queue: queue("default") },
        Reason::LimitReached { queue: queue("default"), occupied: 1, max_running: 1 },
        no_worker(0),
    ];
    assert_eq!(reasons(&bed, &key).await, expected);
}
