//! Reporting outcomes and leasing in one call: the outcomes first, and whatever becomes of the lease.

use weaver_core::error::{Error, Problem};
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::Transition;
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::queue::{Committed, CommittedAndLeased};
use weaver_core::task::TaskState;

use super::cases;
use super::steps::keys;
use weaver_testkit::harness::{Harness, end_of, seconds, task, worker};

async fn outcomes_are_recorded_and_the_next_tasks_leased(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 5]).await;
    let first = harness.lease(2).await;
    let (committed, leased) = report_and_lease(&harness, &first, harness.request(2)).await;
    assert!(committed.iter().all(|answer| matches!(answer, Committed::Applied { .. })), "{committed:?}");
    assert_eq!(keys(&leased), enqueued[2..4]);
    for ended in &first {
        assert_eq!(harness.record(&ended.lease.key).await.state, TaskState::Succeeded);
    }
    for leased in &leased {
        assert_eq!(harness.record(&leased.lease.key).await, leased.record);
        harness.succeed(leased).await;
    }
    assert_eq!(harness.lease_keys(10).await, enqueued[4..]);
}

async fn a_repeated_call_answers_the_same(harness: Harness) {
    harness.enqueue_all(vec![task(); 4]).await;
    let first = harness.lease(2).await;
    let request = harness.request(1);
    let (_, leased) = report_and_lease(&harness, &first, request.clone()).await;
    let (committed, again) = report_and_lease(&harness, &first, request).await;
    assert_eq!(committed, [Committed::AlreadyApplied, Committed::AlreadyApplied]);
    assert_eq!(again, leased);
    assert_eq!(harness.lease(10).await.len(), 1, "one task was leased twice, one is left");
}

async fn the_serial_key_that_an_end_frees_admits_the_next_task(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task().serial_key("k"); 3]).await;
    let mut held = harness.lease(10).await;
    for key in &enqueued[1..] {
        let (_, leased) = report_and_lease(&harness, &held, harness.request(10)).await;
        assert_eq!(keys(&leased), std::slice::from_ref(key));
        held = leased;
    }
}

async fn the_slot_that_an_end_frees_admits_the_next_task(harness: Harness) {
    harness.limit("default", 2).await;
    let enqueued = harness.enqueue_all(vec![task(); 4]).await;
    let held = harness.lease(10).await;
    assert_eq!(keys(&held), enqueued[..2]);
    let (_, leased) = report_and_lease(&harness, &held[..1], harness.request(10)).await;
    assert_eq!(keys(&leased), enqueued[2..3]);
}

async fn a_task_that_failed_can_be_leased_again_in_the_same_call(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let held = harness.lease_one().await;
    let now = Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(0)) };
    let (committed, leased) = call(&harness, vec![end_of(&held, now)], harness.request(10)).await;
    assert!(matches!(committed[..], [Committed::Applied { .. }]), "{committed:?}");
    let again = harness.record(&key).await;
    assert_eq!(keys(&leased), [key]);
    assert_eq!((again.failures, again.attempt, again.version), (1, 2, leased[0].lease.version));
}

async fn a_stale_outcome_does_not_prevent_the_lease(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 3]).await;
    let held = harness.lease(2).await;
    harness.cancel(&enqueued[0]).await;
    let (committed, leased) = report_and_lease(&harness, &held, harness.request(10)).await;
    assert!(matches!(committed[..], [Committed::Stale, Committed::Applied { .. }]), "{committed:?}");
    assert_eq!(keys(&leased), enqueued[2..]);
    assert_eq!(harness.record(&enqueued[0]).await.state, TaskState::Cancelled);
}

async fn outcomes_of_every_kind_are_recorded_beside_a_lease(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 6]).await;
    let held = harness.lease(5).await;
    let cancelled = Outcome::Cancelled { message: "no".into() };
    let outcomes = [Outcome::DONE, Outcome::failed("no"), Outcome::fatal("no"), Outcome::Released, cancelled];
    let ends = held.iter().zip(outcomes).map(|(held, outcome)| end_of(held, outcome)).collect();
    let (committed, leased) = call(&harness, ends, harness.request(10)).await;
    assert!(committed.iter().all(|answer| matches!(answer, Committed::Applied { .. })), "{committed:?}");
    let mut states = Vec::new();
    for key in &enqueued[..5] {
        states.push(harness.record(key).await.state);
    }
    let released_again = states.remove(3);
    assert_eq!(released_again, TaskState::Running, "it was released, and is due");
    use TaskState::{Cancelled, Dead, RetryScheduled, Succeeded};
    assert_eq!(states, [Succeeded, RetryScheduled, Dead, Cancelled]);
    let mut leased = keys(&leased);
    leased.sort_by_key(|key| key.id);
    assert_eq!(leased, [enqueued[3].clone(), enqueued[5].clone()]);
}

async fn a_lease_that_is_refused_leaves_the_outcomes_recorded(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 3]).await;
    let held = harness.lease(1).await;
    let foreign = harness.request(1);
    harness.lease_as(LeaseRequest { worker: worker("v"), ..foreign.clone() }).await;
    let ends = held.iter().map(|held| end_of(held, Outcome::DONE)).collect();
    let answer = harness.store.commit_and_lease(ends, foreign).await.expect("the outcomes are recorded");
    assert!(matches!(answer.committed[..], [Committed::Applied { .. }]), "{answer:?}");
    let Err(Error::Invalid(invalid)) = answer.leased else { panic!("{answer:?}") };
    assert_eq!((invalid.field, invalid.problem), ("token", Problem::TokenTaken));
    assert_eq!(harness.record(&enqueued[0]).await.state, TaskState::Succeeded);
}

async fn an_invalid_request_records_nothing(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 2]).await;
    let held = harness.lease(1).await;
    let invalid = LeaseRequest { max: 0, ..harness.request(1) };
    let ends = held.iter().map(|held| end_of(held, Outcome::DONE)).collect();
    let answer = harness.store.commit_and_lease(ends, invalid).await;
    assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    assert_eq!(harness.record(&enqueued[0]).await.state, TaskState::Running);
}

async fn without_outcomes_it_only_leases(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 2]).await;
    let (committed, leased) = call(&harness, Vec::new(), harness.request(10)).await;
    assert!(committed.is_empty());
    assert_eq!(keys(&leased), enqueued);
}

async fn report_and_lease(
    harness: &Harness,
    held: &[Leased],
    request: LeaseRequest,
) -> (Vec<Committed>, Vec<Leased>) {
    let ends = held.iter().map(|held| end_of(held, Outcome::DONE)).collect();
    call(harness, ends, request).await
}

async fn call(
    harness: &Harness,
    ends: Vec<Transition>,
    request: LeaseRequest,
) -> (Vec<Committed>, Vec<Leased>) {
    let answer = harness.store.commit_and_lease(ends, request).await.expect("the store answers");
    let CommittedAndLeased { committed, leased } = answer;
    (committed, leased.expect("the request is valid"))
}

cases! {
    outcomes_are_recorded_and_the_next_tasks_leased,
    a_repeated_call_answers_the_same,
    the_serial_key_that_an_end_frees_admits_the_next_task,
    the_slot_that_an_end_frees_admits_the_next_task,
    a_task_that_failed_can_be_leased_again_in_the_same_call,
    a_stale_outcome_does_not_prevent_the_lease,
    outcomes_of_every_kind_are_recorded_beside_a_lease,
    a_lease_that_is_refused_leaves_the_outcomes_recorded,
    an_invalid_request_records_nothing,
    without_outcomes_it_only_leases,
}
