//! G2 and G3, one valid lease and nothing stranded: what a lease call grants, repeats and refuses, and lease
//! expiry.

use weaver_core::error::{Error, Problem};
use weaver_core::id::{Epoch, LeaseToken, Version};
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::OverdueReason;
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{AttemptOutcome, Cause, TaskState};

use super::cases;
use super::steps::{keys, lost};
use weaver_testkit::harness::{Harness, end_of, namespace, seconds, task, worker};

async fn a_lease_starts_the_task_and_returns_its_whole_record(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.advance(seconds(5)).await;
    let request = LeaseRequest { ttl: seconds(12), ..harness.request(1) };
    let leased = harness.lease_as(request.clone()).await.remove(0);
    let lease = &leased.lease;
    assert_eq!((&lease.key, lease.version, lease.attempt), (&key, Version(2), 1));
    assert_eq!((&lease.worker, lease.token), (&request.worker, request.token));
    assert_eq!((lease.epoch, lease.ttl), (Epoch(0), seconds(12)));
    let record = harness.record(&key).await;
    assert_eq!(leased.record, record);
    assert_eq!(record.current_lease().as_ref(), Some(lease));
}

async fn a_leased_task_is_running_and_counts_its_start(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.advance(seconds(5)).await;
    harness.lease_one().await;
    let (record, now) = (harness.record(&key).await, harness.now().await);
    assert_eq!((record.state, record.version), (TaskState::Running, Version(2)));
    assert_eq!((record.attempt, record.executions, record.failures, record.losses), (1, 1, 0, 0));
    assert_eq!((record.updated_at, record.first_started_at), (now, Some(now)));
    let held = record.lease.expect("it is leased");
    assert_eq!((held.started_at, held.expires_at), (now, now.saturating_add(seconds(30))));
}

async fn a_second_start_keeps_the_time_of_the_first(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let first = harness.now().await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Released).await;
    harness.advance(seconds(5)).await;
    harness.lease_one().await;
    let record = harness.record(&key).await;
    assert_eq!(record.first_started_at, Some(first));
    assert_eq!((record.attempt, record.executions, record.version), (2, 2, Version(4)));
}

async fn a_running_task_is_not_leased_again(harness: Harness) {
    harness.enqueue(task()).await;
    harness.lease_one().await;
    assert!(harness.lease_by("v", 10).await.is_empty());
    harness.advance(seconds(3600)).await;
    // Its lease has expired, but until the expiry is recorded it still runs.
    assert!(harness.lease_by("v", 10).await.is_empty());
}

async fn nothing_is_leased_from_an_empty_store(harness: Harness) {
    assert!(harness.lease(10).await.is_empty());
}

async fn no_more_is_leased_than_requested(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 5]).await;
    assert_eq!(harness.lease_keys(2).await, enqueued[..2]);
    assert_eq!(harness.lease_keys(2).await, enqueued[2..4]);
    assert_eq!(harness.lease_keys(2).await, enqueued[4..]);
}

async fn repeating_a_lease_call_returns_what_it_granted(harness: Harness) {
    harness.enqueue_all(vec![task(); 5]).await;
    let request = harness.request(3);
    let first = harness.lease_as(request.clone()).await;
    let again = harness.lease_as(request).await;
    assert_eq!(leases(&again), leases(&first));
    assert_eq!(harness.lease(10).await.len(), 2, "the repetition took nothing");
}

async fn repeating_a_lease_call_moves_nothing(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let request = harness.request(1);
    harness.lease_as(request.clone()).await;
    let before = harness.record(&key).await;
    harness.advance(seconds(5)).await;
    harness.lease_as(request).await;
    assert_eq!(harness.record(&key).await, before);
}

async fn repeating_a_lease_call_leaves_out_what_has_ended(harness: Harness) {
    harness.enqueue_all(vec![task(); 5]).await;
    let request = harness.request(3);
    let first = harness.lease_as(request.clone()).await;
    harness.succeed(&first[0]).await;
    harness.end(&first[1], Outcome::Released).await;
    assert_eq!(leases(&harness.lease_as(request).await), leases(&first[2..]));
}

async fn another_workers_token_is_refused_and_shows_nothing(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let request = harness.request(1);
    harness.lease_as(request.clone()).await;
    let before = harness.record(&key).await;
    expect_taken(&harness, LeaseRequest { worker: worker("thief"), ..request }).await;
    assert_eq!(harness.record(&key).await, before);
}

async fn another_namespaces_token_is_refused_and_shows_nothing(harness: Harness) {
    harness.enqueue(task()).await;
    let there = harness.enqueue(task().namespace("b")).await;
    let request = harness.request(1);
    harness.lease_as(request.clone()).await;
    expect_taken(&harness, LeaseRequest { namespace: namespace("b"), ..request }).await;
    assert_eq!(harness.record(&there).await.state, TaskState::Queued);
}

async fn a_lease_that_has_not_expired_is_not_overdue(harness: Harness) {
    harness.enqueue(task()).await;
    harness.lease_one().await;
    assert!(harness.overdue().await.is_empty());
    harness.advance(seconds(29)).await;
    assert!(harness.overdue().await.is_empty());
}

async fn an_expired_lease_is_overdue_and_listing_it_changes_nothing(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.lease_one().await;
    let before = harness.record(&key).await;
    harness.advance(seconds(31)).await;
    for _ in 0..2 {
        assert_eq!(harness.overdue().await, [(key.clone(), OverdueReason::Lease)]);
    }
    assert_eq!(harness.record(&key).await, before);
}

async fn each_lease_expires_by_its_own_ttl(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 2]).await;
    harness.lease_as(LeaseRequest { ttl: seconds(100), ..harness.request(1) }).await;
    harness.lease_as(LeaseRequest { ttl: seconds(10), ..harness.request(1) }).await;
    harness.advance(seconds(11)).await;
    assert_eq!(harness.overdue().await, [(enqueued[1].clone(), OverdueReason::Lease)]);
}

async fn no_more_overdue_tasks_are_returned_than_requested(harness: Harness) {
    harness.enqueue_all(vec![task(); 5]).await;
    harness.lease(5).await;
    harness.advance(seconds(31)).await;
    assert_eq!(harness.store.overdue(2).await.expect("the store answers").len(), 2);
    assert_eq!(harness.maintain().await, 5);
    assert!(harness.overdue().await.is_empty());
}

async fn a_task_with_an_expired_lease_is_requeued_and_leased_by_another_worker(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.lease_one().await;
    harness.lose().await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Lost)));
    assert_eq!((record.losses, record.failures, record.lease.as_ref()), (1, 0, None));
    assert_eq!(record.ready_at, harness.now().await);
    assert_eq!(record.attempts[0].outcome, AttemptOutcome::Lost);
    assert_eq!(keys(&harness.lease_by("v", 1).await), [key]);
}

async fn two_workers_that_record_one_lease_expiry_count_it_once(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.lease_one().await;
    harness.advance(seconds(31)).await;
    let noticed = lost(&harness, &key).await;
    harness.maintain().await;
    assert_eq!(harness.commit_one(noticed).await, Committed::AlreadyApplied);
    assert_eq!(harness.record(&key).await.losses, 1);
}

async fn a_write_under_a_lost_lease_is_stale_and_changes_nothing(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let old = harness.lease_one().await;
    harness.lose().await;
    expect_stale_ends(&harness, &old).await;
    harness.lease_by("v", 1).await;
    expect_stale_ends(&harness, &old).await;
    assert_eq!(harness.record(&key).await.state, TaskState::Running);
}

async fn a_write_under_a_superseded_lease_is_stale_and_changes_nothing(harness: Harness) {
    harness.enqueue(task()).await;
    let old = harness.lease_one().await;
    harness.end(&old, Outcome::Released).await;
    let new = harness.lease_one().await;
    assert_eq!(harness.finish(&old, Outcome::DONE).await, Committed::Stale);
    assert_eq!(harness.finish(&old, Outcome::failed("no")).await, Committed::Stale);
    harness.succeed(&new).await;
}

/// Every outcome under the lost lease is refused, and the record is unchanged.
async fn expect_stale_ends(harness: &Harness, old: &Leased) {
    let before = harness.record(&old.lease.key).await;
    let snoozed = Outcome::Snoozed { delay: seconds(1) };
    let cancelled = Outcome::Cancelled { message: "no".into() };
    let failed = Outcome::failed("no");
    for outcome in [Outcome::DONE, failed, Outcome::TimedOut, snoozed, cancelled, Outcome::Released] {
        assert_eq!(harness.commit_one(end_of(old, outcome.clone())).await, Committed::Stale, "{outcome:?}");
    }
    assert_eq!(harness.record(&old.lease.key).await, before);
}

async fn expect_taken(harness: &Harness, request: LeaseRequest) {
    let refusal = harness.store.lease(request).await.expect_err("the token belongs to another caller");
    let Error::Invalid(invalid) = refusal else { panic!("{refusal:?}") };
    assert_eq!((invalid.field, invalid.problem), ("token", Problem::TokenTaken));
}

fn leases(leased: &[Leased]) -> Vec<(Version, LeaseToken, String)> {
    let mut leases: Vec<_> = leased
        .iter()
        .map(|leased| (leased.lease.version, leased.lease.token, leased.lease.key.to_string()))
        .collect();
    leases.sort();
    leases
}

cases![
    a_lease_starts_the_task_and_returns_its_whole_record,
    a_leased_task_is_running_and_counts_its_start,
    a_second_start_keeps_the_time_of_the_first,
    a_running_task_is_not_leased_again,
    nothing_is_leased_from_an_empty_store,
    no_more_is_leased_than_requested,
    repeating_a_lease_call_returns_what_it_granted,
    repeating_a_lease_call_moves_nothing,
    repeating_a_lease_call_leaves_out_what_has_ended,
    another_workers_token_is_refused_and_shows_nothing,
    another_namespaces_token_is_refused_and_shows_nothing,
    a_lease_that_has_not_expired_is_not_overdue,
    an_expired_lease_is_overdue_and_listing_it_changes_nothing,
    each_lease_expires_by_its_own_ttl,
    no_more_overdue_tasks_are_returned_than_requested,
    a_task_with_an_expired_lease_is_requeued_and_leased_by_another_worker,
    two_workers_that_record_one_lease_expiry_count_it_once,
    a_write_under_a_lost_lease_is_stale_and_changes_nothing,
    a_write_under_a_superseded_lease_is_stale_and_changes_nothing,
];
