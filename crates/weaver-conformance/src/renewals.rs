//! G2, renewals: renewing, progress and continuation increment `renewals` and never `version`, and only the
//! valid lease can do it (fencing).

use weaver_core::id::{Epoch, LeaseToken, TaskId, Version};
use weaver_core::lease::{ContinuationChange, Lease, Leased, Renewal, Renewed};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{Continuation, Progress, TaskState};

use super::cases;
use super::steps::lost;
use weaver_testkit::harness::{Harness, seconds, task};

async fn renewing_extends_the_lease_and_leaves_the_version(harness: Harness) {
    let leased = running(&harness).await;
    harness.advance(seconds(20)).await;
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    let record = harness.record(&leased.lease.key).await;
    let held = record.lease.as_ref().expect("it is leased");
    assert_eq!(held.expires_at, harness.now().await.saturating_add(seconds(30)));
    assert_eq!((record.version, record.renewals), (leased.record.version, 1));
    assert_eq!((record.state, record.updated_at), (TaskState::Running, leased.record.updated_at));
}

async fn a_renewed_lease_expires_later(harness: Harness) {
    let leased = running(&harness).await;
    for _ in 0..5 {
        harness.advance(seconds(29)).await;
        assert!(harness.overdue().await.is_empty());
        assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    }
    harness.advance(seconds(31)).await;
    assert_eq!(harness.overdue().await.len(), 1);
    assert_eq!(harness.record(&leased.lease.key).await.renewals, 5);
}

async fn a_renewed_lease_can_still_finish_its_task(harness: Harness) {
    let leased = running(&harness).await;
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    harness.succeed(&leased).await;
    assert_eq!(harness.record(&leased.lease.key).await.state, TaskState::Succeeded);
}

async fn a_lease_whose_expiry_was_not_recorded_can_still_be_renewed(harness: Harness) {
    let leased = running(&harness).await;
    harness.advance(seconds(31)).await;
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    assert!(harness.overdue().await.is_empty());
}

async fn a_lease_whose_expiry_was_not_recorded_can_still_finish_its_task(harness: Harness) {
    let leased = running(&harness).await;
    harness.advance(seconds(31)).await;
    harness.succeed(&leased).await;
    assert!(harness.overdue().await.is_empty());
}

async fn a_renewal_between_the_overdue_scan_and_the_write_keeps_the_lease(harness: Harness) {
    let leased = running(&harness).await;
    harness.advance(seconds(31)).await;
    let found = lost(&harness, &leased.lease.key).await;
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    let before = harness.record(&leased.lease.key).await;
    assert_eq!(harness.commit_one(found).await, Committed::Stale);
    assert_eq!(harness.record(&leased.lease.key).await, before);
    harness.succeed(&leased).await;
}

async fn a_lost_lease_cannot_be_renewed(harness: Harness) {
    let leased = running(&harness).await;
    harness.lose().await;
    expect_lost(&harness, &leased.lease).await;
    harness.lease_by("v", 1).await;
    expect_lost(&harness, &leased.lease).await;
}

async fn a_lease_of_an_ended_task_cannot_be_renewed(harness: Harness) {
    let ends = [Outcome::DONE, Outcome::fatal("no"), Outcome::failed("no"), Outcome::Released];
    for outcome in ends {
        let leased = running(&harness).await;
        harness.end(&leased, outcome).await;
        expect_lost(&harness, &leased.lease).await;
        harness.advance(seconds(3600)).await;
        while let Some(again) = harness.lease(1).await.pop() {
            harness.succeed(&again).await;
        }
    }
}

async fn a_renewal_with_a_lease_that_differs_in_any_field_is_lost(harness: Harness) {
    let lease = running(&harness).await.lease;
    expect_lost(&harness, &Lease { token: LeaseToken(u128::MAX), ..lease.clone() }).await;
    expect_lost(&harness, &Lease { version: Version(1), ..lease.clone() }).await;
    expect_lost(&harness, &Lease { version: Version(3), ..lease.clone() }).await;
    expect_lost(&harness, &Lease { epoch: Epoch(1), ..lease.clone() }).await;
    assert_eq!(harness.renew(&lease).await, Renewed::Extended);
}

async fn a_lease_of_an_unknown_task_cannot_be_renewed(harness: Harness) {
    let mut lease = running(&harness).await.lease;
    lease.key.id = TaskId(lease.key.id.0 + 1000);
    assert_eq!(harness.renew(&lease).await, Renewed::Lost);
}

async fn renewals_are_answered_in_order_and_each_independently(harness: Harness) {
    harness.enqueue_all(vec![task(); 4]).await;
    let leased = harness.lease(4).await;
    harness.succeed(&leased[1]).await;
    harness.cancel(&leased[2].lease.key).await;
    let renewals = leased.iter().map(|leased| Renewal::of(leased.lease.clone())).collect();
    let answers = harness.store.renew(renewals).await.expect("the store answers");
    assert_eq!(answers, [Renewed::Extended, Renewed::Lost, Renewed::Cancelled, Renewed::Extended]);
}

async fn an_empty_batch_of_renewals_is_fine(harness: Harness) {
    assert!(harness.store.renew(vec![]).await.expect("nothing is wrong with it").is_empty());
}

async fn progress_is_kept_until_the_next_start(harness: Harness) {
    let leased = running(&harness).await;
    let progress = Progress { fraction: 0.25, message: "a quarter".into() };
    assert_eq!(harness.renew_with(reporting(&leased, progress.clone())).await, Renewed::Extended);
    let record = harness.record(&leased.lease.key).await;
    assert_eq!(record.progress.as_deref(), Some(&progress));
    assert_eq!((record.version, record.renewals), (leased.record.version, 1));
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    assert_eq!(harness.record(&leased.lease.key).await.progress.as_deref(), Some(&progress));
    harness.end(&leased, Outcome::Released).await;
    assert_eq!(harness.lease_one().await.record.progress, None);
}

async fn progress_under_a_lost_lease_is_ignored(harness: Harness) {
    let leased = running(&harness).await;
    harness.lose().await;
    let progress = Progress { fraction: 1.0, message: "too late".into() };
    assert_eq!(harness.renew_with(reporting(&leased, progress)).await, Renewed::Lost);
    assert_eq!(harness.record(&leased.lease.key).await.progress, None);
}

async fn a_worker_with_a_pending_confirmation_keeps_its_task_until_the_deadline(harness: Harness) {
    let leased = running(&harness).await;
    confirm_within(&harness, &leased, 100).await;
    let (record, deadline) =
        (harness.record(&leased.lease.key).await, harness.now().await.saturating_add(seconds(100)));
    assert_eq!(record.continuation, Continuation::Confirming { check_deadline_at: deadline });
    assert_eq!(record.lease.expect("it is leased").expires_at, deadline);
    assert_eq!((record.version, record.renewals), (leased.record.version, 1));
    harness.advance(seconds(99)).await;
    assert!(harness.overdue().await.is_empty());
    harness.advance(seconds(2)).await;
    assert_eq!(harness.overdue().await.len(), 1);
}

async fn a_plain_renewal_leaves_a_pending_confirmation_and_its_deadline(harness: Harness) {
    let leased = running(&harness).await;
    confirm_within(&harness, &leased, 100).await;
    let deadline = harness.now().await.saturating_add(seconds(100));
    harness.advance(seconds(10)).await;
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    let record = harness.record(&leased.lease.key).await;
    assert_eq!(record.continuation, Continuation::Confirming { check_deadline_at: deadline });
    assert_eq!(record.lease.expect("it is leased").expires_at, deadline);
}

async fn a_worker_that_is_confirmed_has_a_plain_lease_again(harness: Harness) {
    let leased = running(&harness).await;
    confirm_within(&harness, &leased, 100).await;
    let continued =
        Renewal { continuation: Some(ContinuationChange::Continue), ..Renewal::of(leased.lease.clone()) };
    assert_eq!(harness.renew_with(continued).await, Renewed::Extended);
    let record = harness.record(&leased.lease.key).await;
    assert_eq!(record.continuation, Continuation::None);
    assert_eq!(
        record.lease.expect("it is leased").expires_at,
        harness.now().await.saturating_add(seconds(30))
    );
    harness.advance(seconds(31)).await;
    assert_eq!(harness.overdue().await.len(), 1);
}

async fn a_pending_confirmation_ends_with_the_attempt(harness: Harness) {
    let leased = running(&harness).await;
    confirm_within(&harness, &leased, 100).await;
    harness.end(&leased, Outcome::Released).await;
    assert_eq!(harness.record(&leased.lease.key).await.continuation, Continuation::None);
}

async fn running(harness: &Harness) -> Leased {
    harness.enqueue(task()).await;
    harness.lease_one().await
}

/// The renewal is refused, and the record is unchanged.
async fn expect_lost(harness: &Harness, lease: &Lease) {
    let before = harness.record(&lease.key).await;
    assert_eq!(harness.renew(lease).await, Renewed::Lost);
    assert_eq!(harness.record(&lease.key).await, before);
}

fn reporting(leased: &Leased, progress: Progress) -> Renewal {
    Renewal { progress: Some(progress), ..Renewal::of(leased.lease.clone()) }
}

async fn confirm_within(harness: &Harness, leased: &Leased, within_s: u64) {
    let continuation = Some(ContinuationChange::Confirming { within: seconds(within_s) });
    let renewal = Renewal { continuation, ..Renewal::of(leased.lease.clone()) };
    assert_eq!(harness.renew_with(renewal).await, Renewed::Extended);
}

cases![
    renewing_extends_the_lease_and_leaves_the_version,
    a_renewed_lease_expires_later,
    a_renewed_lease_can_still_finish_its_task,
    a_lease_whose_expiry_was_not_recorded_can_still_be_renewed,
    a_lease_whose_expiry_was_not_recorded_can_still_finish_its_task,
    a_renewal_between_the_overdue_scan_and_the_write_keeps_the_lease,
    a_lost_lease_cannot_be_renewed,
    a_lease_of_an_ended_task_cannot_be_renewed,
    a_renewal_with_a_lease_that_differs_in_any_field_is_lost,
    a_lease_of_an_unknown_task_cannot_be_renewed,
    renewals_are_answered_in_order_and_each_independently,
    an_empty_batch_of_renewals_is_fine,
    progress_is_kept_until_the_next_start,
    progress_under_a_lost_lease_is_ignored,
    a_worker_with_a_pending_confirmation_keeps_its_task_until_the_deadline,
    a_plain_renewal_leaves_a_pending_confirmation_and_its_deadline,
    a_worker_that_is_confirmed_has_a_plain_lease_again,
    a_pending_confirmation_ends_with_the_attempt,
];
