//! G2, the life of one lease: renewing, progress and continuation touch `renewals` and never `version`, and only the
//! holder of the valid lease can do any of it.

use weaver_core::id::{Epoch, LeaseToken, TaskId, Version};
use weaver_core::lease::{ContinuationChange, Lease, Leased, Renewal, Renewed};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{Continuation, Progress, TaskState};

use super::cases;
use super::steps::lost;
use crate::bed::{Bed, seconds, task};

async fn renewing_extends_the_lease_and_leaves_the_version(bed: Bed) {
    let leased = running(&bed).await;
    bed.advance(seconds(20)).await;
    assert_eq!(bed.renew(&leased.lease).await, Renewed::Extended);
    let record = bed.record(&leased.lease.key).await;
    let held = record.lease.as_ref().expect("it is leased");
    assert_eq!(held.expires_at, bed.now().await.saturating_add(seconds(30)));
    assert_eq!((record.version, record.renewals), (leased.record.version, 1));
    assert_eq!((record.state, record.updated_at), (TaskState::Running, leased.record.updated_at));
}

async fn a_renewed_lease_runs_out_later(bed: Bed) {
    let leased = running(&bed).await;
    for _ in 0..5 {
        bed.advance(seconds(29)).await;
        assert!(bed.overdue().await.is_empty());
        assert_eq!(bed.renew(&leased.lease).await, Renewed::Extended);
    }
    bed.advance(seconds(31)).await;
    assert_eq!(bed.overdue().await.len(), 1);
    assert_eq!(bed.record(&leased.lease.key).await.renewals, 5);
}

async fn a_renewed_lease_can_still_end_its_task(bed: Bed) {
    let leased = running(&bed).await;
    assert_eq!(bed.renew(&leased.lease).await, Renewed::Extended);
    bed.succeed(&leased).await;
    assert_eq!(bed.record(&leased.lease.key).await.state, TaskState::Succeeded);
}

async fn a_lease_that_ran_out_unnoticed_can_still_be_renewed(bed: Bed) {
    let leased = running(&bed).await;
    bed.advance(seconds(31)).await;
    assert_eq!(bed.renew(&leased.lease).await, Renewed::Extended);
    assert!(bed.overdue().await.is_empty());
}

async fn a_lease_that_ran_out_unnoticed_can_still_end_its_task(bed: Bed) {
    let leased = running(&bed).await;
    bed.advance(seconds(31)).await;
    bed.succeed(&leased).await;
    assert!(bed.overdue().await.is_empty());
}

async fn a_renewal_between_the_finding_and_the_write_saves_the_lease(bed: Bed) {
    let leased = running(&bed).await;
    bed.advance(seconds(31)).await;
    let found = lost(&bed, &leased.lease.key).await;
    assert_eq!(bed.renew(&leased.lease).await, Renewed::Extended);
    let before = bed.record(&leased.lease.key).await;
    assert_eq!(bed.commit_one(found).await, Committed::Stale);
    assert_eq!(bed.record(&leased.lease.key).await, before);
    bed.succeed(&leased).await;
}

async fn a_lost_lease_cannot_be_renewed(bed: Bed) {
    let leased = running(&bed).await;
    bed.lose().await;
    expect_lost(&bed, &leased.lease).await;
    bed.lease_by("v", 1).await;
    expect_lost(&bed, &leased.lease).await;
}

async fn a_lease_of_an_ended_task_cannot_be_renewed(bed: Bed) {
    let ends = [Outcome::DONE, Outcome::fatal("no"), Outcome::failed("no"), Outcome::Released];
    for outcome in ends {
        let leased = running(&bed).await;
        bed.end(&leased, outcome).await;
        expect_lost(&bed, &leased.lease).await;
        bed.advance(seconds(3600)).await;
        while let Some(again) = bed.lease(1).await.pop() {
            bed.succeed(&again).await;
        }
    }
}

async fn a_lease_that_differs_in_anything_is_not_the_lease(bed: Bed) {
    let lease = running(&bed).await.lease;
    expect_lost(&bed, &Lease { token: LeaseToken(u128::MAX), ..lease.clone() }).await;
    expect_lost(&bed, &Lease { version: Version(1), ..lease.clone() }).await;
    expect_lost(&bed, &Lease { version: Version(3), ..lease.clone() }).await;
    expect_lost(&bed, &Lease { epoch: Epoch(1), ..lease.clone() }).await;
    assert_eq!(bed.renew(&lease).await, Renewed::Extended);
}

async fn a_lease_of_an_unknown_task_cannot_be_renewed(bed: Bed) {
    let mut lease = running(&bed).await.lease;
    lease.key.id = TaskId(lease.key.id.0 + 1000);
    assert_eq!(bed.renew(&lease).await, Renewed::Lost);
}

async fn renewals_are_answered_in_order_and_each_for_itself(bed: Bed) {
    bed.enqueue_all(vec![task(); 4]).await;
    let leased = bed.lease(4).await;
    bed.succeed(&leased[1]).await;
    bed.cancel(&leased[2].lease.key).await;
    let renewals = leased.iter().map(|leased| Renewal::of(leased.lease.clone())).collect();
    let answers = bed.store.renew(renewals).await.expect("the store answers");
    assert_eq!(answers, [Renewed::Extended, Renewed::Lost, Renewed::Cancelled, Renewed::Extended]);
}

async fn an_empty_batch_of_renewals_is_fine(bed: Bed) {
    assert!(bed.store.renew(vec![]).await.expect("nothing is wrong with it").is_empty());
}

async fn progress_is_shown_until_the_next_start(bed: Bed) {
    let leased = running(&bed).await;
    let progress = Progress { fraction: 0.25, message: "a quarter".into() };
    assert_eq!(bed.renew_with(reporting(&leased, progress.clone())).await, Renewed::Extended);
    let record = bed.record(&leased.lease.key).await;
    assert_eq!(record.progress.as_deref(), Some(&progress));
    assert_eq!((record.version, record.renewals), (leased.record.version, 1));
    assert_eq!(bed.renew(&leased.lease).await, Renewed::Extended);
    assert_eq!(bed.record(&leased.lease.key).await.progress.as_deref(), Some(&progress));
    bed.end(&leased, Outcome::Released).await;
    assert_eq!(bed.lease_one().await.record.progress, None);
}

async fn progress_under_a_lost_lease_is_not_shown(bed: Bed) {
    let leased = running(&bed).await;
    bed.lose().await;
    let progress = Progress { fraction: 1.0, message: "too late".into() };
    assert_eq!(bed.renew_with(reporting(&leased, progress)).await, Renewed::Lost);
    assert_eq!(bed.record(&leased.lease.key).await.progress, None);
}

async fn a_worker_in_doubt_keeps_its_task_until_its_deadline(bed: Bed) {
    let leased = running(&bed).await;
    doubt(&bed, &leased, 100).await;
    let (record, deadline) =
        (bed.record(&leased.lease.key).await, bed.now().await.saturating_add(seconds(100)));
    assert_eq!(record.continuation, Continuation::Confirming { check_deadline_at: deadline });
    assert_eq!(record.lease.expect("it is leased").expires_at, deadline);
    assert_eq!((record.version, record.renewals), (leased.record.version, 1));
    bed.advance(seconds(99)).await;
    assert!(bed.overdue().await.is_empty());
    bed.advance(seconds(2)).await;
    assert_eq!(bed.overdue().await.len(), 1);
}

async fn a_plain_renewal_leaves_the_doubt_and_its_deadline(bed: Bed) {
    let leased = running(&bed).await;
    doubt(&bed, &leased, 100).await;
    let deadline = bed.now().await.saturating_add(seconds(100));
    bed.advance(seconds(10)).await;
    assert_eq!(bed.renew(&leased.lease).await, Renewed::Extended);
    let record = bed.record(&leased.lease.key).await;
    assert_eq!(record.continuation, Continuation::Confirming { check_deadline_at: deadline });
    assert_eq!(record.lease.expect("it is leased").expires_at, deadline);
}

async fn a_worker_that_may_go_on_has_a_plain_lease_again(bed: Bed) {
    let leased = running(&bed).await;
    doubt(&bed, &leased, 100).await;
    let go_on =
        Renewal { continuation: Some(ContinuationChange::Continue), ..Renewal::of(leased.lease.clone()) };
    assert_eq!(bed.renew_with(go_on).await, Renewed::Extended);
    let record = bed.record(&leased.lease.key).await;
    assert_eq!(record.continuation, Continuation::None);
    assert_eq!(record.lease.expect("it is leased").expires_at, bed.now().await.saturating_add(seconds(30)));
    bed.advance(seconds(31)).await;
    assert_eq!(bed.overdue().await.len(), 1);
}

async fn a_doubt_ends_with_the_attempt(bed: Bed) {
    let leased = running(&bed).await;
    doubt(&bed, &leased, 100).await;
    bed.end(&leased, Outcome::Released).await;
    assert_eq!(bed.record(&leased.lease.key).await.continuation, Continuation::None);
}

async fn running(bed: &Bed) -> Leased {
    bed.enqueue(task()).await;
    bed.lease_one().await
}

/// The renewal is refused, and the record stays as it is.
async fn expect_lost(bed: &Bed, lease: &Lease) {
    let before = bed.record(&lease.key).await;
    assert_eq!(bed.renew(lease).await, Renewed::Lost);
    assert_eq!(bed.record(&lease.key).await, before);
}

fn reporting(leased: &Leased, progress: Progress) -> Renewal {
    Renewal { progress: Some(progress), ..Renewal::of(leased.lease.clone()) }
}

async fn doubt(bed: &Bed, leased: &Leased, within_s: u64) {
    let continuation = Some(ContinuationChange::Confirming { within: seconds(within_s) });
    let renewal = Renewal { continuation, ..Renewal::of(leased.lease.clone()) };
    assert_eq!(bed.renew_with(renewal).await, Renewed::Extended);
}

cases![
    renewing_extends_the_lease_and_leaves_the_version,
    a_renewed_lease_runs_out_later,
    a_renewed_lease_can_still_end_its_task,
    a_lease_that_ran_out_unnoticed_can_still_be_renewed,
    a_lease_that_ran_out_unnoticed_can_still_end_its_task,
    a_renewal_between_the_finding_and_the_write_saves_the_lease,
    a_lost_lease_cannot_be_renewed,
    a_lease_of_an_ended_task_cannot_be_renewed,
    a_lease_that_differs_in_anything_is_not_the_lease,
    a_lease_of_an_unknown_task_cannot_be_renewed,
    renewals_are_answered_in_order_and_each_for_itself,
    an_empty_batch_of_renewals_is_fine,
    progress_is_shown_until_the_next_start,
    progress_under_a_lost_lease_is_not_shown,
    a_worker_in_doubt_keeps_its_task_until_its_deadline,
    a_plain_renewal_leaves_the_doubt_and_its_deadline,
    a_worker_that_may_go_on_has_a_plain_lease_again,
    a_doubt_ends_with_the_attempt,
];
