//! Assignment (seed 004): a leader assigns a due task to one worker; that worker starts it, or it is orphaned
//! and assigned to another. The store checks eligibility again in the write.

use weaver_core::id::{Epoch, TaskKey, Version};
use weaver_core::lease::{Lease, Renewed};
use weaver_core::lifecycle::{Command, Grant, OrphanCause, Refused, Transition, decide};
use weaver_core::outcome::Outcome;
use weaver_core::queue::{Blocked, Committed};
use weaver_core::task::{AttemptOutcome, Cause, TaskState};

use super::cases;
use super::steps::keys;
use weaver_testkit::harness::{Harness, seconds, task, worker};

async fn an_assigned_task_belongs_to_one_worker_and_has_not_started(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.advance(seconds(5)).await;
    harness.apply(&key, assign("v", 7)).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.version), (TaskState::Assigned, Version(2)));
    assert_eq!((record.attempt, record.executions), (1, 0));
    let given = record.assignment.expect("it is assigned");
    assert_eq!((given.worker, given.epoch), (worker("v"), Epoch(7)));
    assert_eq!(given.assigned_at, harness.now().await);
    assert!(record.lease.is_none() && record.first_started_at.is_none());
}

async fn the_worker_it_is_assigned_to_starts_it_under_the_leaders_epoch(harness: Harness) {
    let key = assigned(&harness, "v").await;
    let lease = started(&harness, &key, "v").await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.version), (TaskState::Running, Version(3)));
    assert_eq!((record.attempt, record.executions), (1, 1));
    assert_eq!(record.first_started_at, Some(harness.now().await));
    assert_eq!((lease.epoch, lease.worker, lease.version), (Epoch(7), worker("v"), Version(3)));
}

async fn only_the_assigned_worker_can_start_it(harness: Harness) {
    let key = assigned(&harness, "v").await;
    let answer =
        decide(&harness.record(&key).await, Command::Start(grant(&harness, "w")), harness.now().await);
    assert_eq!(answer, Err(Refused::AssignedElsewhere { worker: worker("v") }));
}

async fn the_same_start_twice_was_already_applied_and_another_is_stale(harness: Harness) {
    let key = assigned(&harness, "v").await;
    let start = harness.decided(&key, Command::Start(grant(&harness, "v"))).await;
    let other = harness.decided(&key, Command::Start(grant(&harness, "v"))).await;
    assert_eq!(harness.commit_one(start.clone()).await, Committed::Applied { version: Version(3) });
    assert_eq!(harness.commit_one(start).await, Committed::AlreadyApplied);
    assert_eq!(harness.commit_one(other).await, Committed::Stale);
    assert_eq!(harness.record(&key).await.executions, 1);
}

async fn an_assigned_task_cannot_be_pulled(harness: Harness) {
    assigned(&harness, "v").await;
    assert!(harness.lease_by("v", 10).await.is_empty());
    assert!(harness.lease_by("w", 10).await.is_empty());
}

async fn a_started_task_is_renewed_lost_and_pulled_like_any_other(harness: Harness) {
    let key = assigned(&harness, "v").await;
    let lease = started(&harness, &key, "v").await;
    assert_eq!(harness.renew(&lease).await, Renewed::Extended);
    assert_eq!(harness.renew(&Lease { epoch: Epoch(8), ..lease.clone() }).await, Renewed::Lost);
    harness.lose().await;
    assert_eq!(harness.renew(&lease).await, Renewed::Lost);
    assert_eq!(harness.lease_keys(1).await, [key]);
}

async fn an_outcome_is_fenced_by_the_epoch_of_its_lease(harness: Harness) {
    let key = assigned(&harness, "v").await;
    let lease = started(&harness, &key, "v").await;
    let finish = |lease| Command::Finish { lease, outcome: Outcome::DONE };
    let forged = Lease { epoch: Epoch(8), ..lease.clone() };
    let answer = decide(&harness.record(&key).await, finish(forged), harness.now().await);
    assert_eq!(answer, Err(Refused::LeaseLost));
    harness.apply(&key, finish(lease)).await;
    assert_eq!(harness.record(&key).await.state, TaskState::Succeeded);
}

async fn a_worker_lost_before_the_start_counts_as_a_loss(harness: Harness) {
    let key = assigned(&harness, "v").await;
    harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.losses, record.executions), (TaskState::Orphaned, 1, 0));
    assert_eq!(record.assignment, None);
    let last = &record.attempts[0];
    assert_eq!((last.outcome, last.started_at, &last.worker), (AttemptOutcome::Orphaned, None, &worker("v")));
    assert!(harness.lease(10).await.is_empty(), "an orphan is for the leader, not for lease calls");
}

async fn an_orphan_is_assigned_again_as_a_new_attempt(harness: Harness) {
    let key = assigned(&harness, "v").await;
    harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    harness.apply(&key, assign("w", 8)).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.attempt, record.version), (TaskState::Assigned, 2, Version(4)));
    let given = record.assignment.expect("it is assigned");
    assert_eq!((given.worker, given.epoch), (worker("w"), Epoch(8)));
}

async fn a_late_start_by_a_worker_that_was_declared_lost_is_stale(harness: Harness) {
    let key = assigned(&harness, "v").await;
    let late = harness.decided(&key, Command::Start(grant(&harness, "v"))).await;
    harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    assert_eq!(harness.commit_one(late.clone()).await, Committed::Stale);
    harness.apply(&key, assign("v", 8)).await;
    assert_eq!(harness.commit_one(late).await, Committed::Stale);
    assert_eq!(harness.record(&key).await.executions, 0);
}

async fn an_orphan_without_budget_is_abandoned_and_not_assigned(harness: Harness) {
    let key = harness.enqueue(task().max_losses(0)).await;
    harness.apply(&key, assign("v", 7)).await;
    harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    let answer = decide(&harness.record(&key).await, assign("w", 7), harness.now().await);
    assert_eq!(answer, Err(Refused::LossBudgetSpent { max_losses: 0 }));
    harness.apply(&key, Command::AbandonOrphan).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::Dead, Some(Cause::Lost)));
}

async fn an_orphan_with_budget_left_is_not_abandoned(harness: Harness) {
    let key = assigned(&harness, "v").await;
    harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    let answer = decide(&harness.record(&key).await, Command::AbandonOrphan, harness.now().await);
    assert_eq!(answer, Err(Refused::LossBudgetLeft { losses: 1, max_losses: 3 }));
}

async fn of_two_leaders_that_assign_one_task_one_wins(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let one = harness.decided(&key, assign("v", 7)).await;
    let other = harness.decided(&key, assign("w", 8)).await;
    assert_eq!(harness.commit_one(one).await, Committed::Applied { version: Version(2) });
    assert_eq!(harness.commit_one(other).await, Committed::Stale);
    assert_eq!(harness.record(&key).await.assignment.map(|given| given.worker), Some(worker("v")));
}

async fn the_same_assignment_twice_was_already_applied(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let decided = harness.decided(&key, assign("v", 7)).await;
    assert_eq!(harness.commit_one(decided.clone()).await, Committed::Applied { version: Version(2) });
    assert_eq!(harness.commit_one(decided).await, Committed::AlreadyApplied);
    assert_eq!(harness.record(&key).await.attempt, 1);
}

async fn assigning_a_task_that_was_leased_meanwhile_is_stale(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let decided = harness.decided(&key, assign("v", 7)).await;
    let leased = harness.lease_one().await;
    assert_eq!(harness.commit_one(decided).await, Committed::Stale);
    harness.succeed(&leased).await;
}

async fn a_task_that_is_not_due_is_not_assigned(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(10))).await;
    // The leader's clock is ahead of the store's.
    expect_blocked(&harness, assigned_at(&harness, &key, 10).await, Blocked::NotDue).await;
    harness.advance(seconds(10)).await;
    harness.apply(&key, assign("v", 7)).await;
}

async fn a_task_that_has_expired_is_not_assigned(harness: Harness) {
    let key = harness.enqueue(task().expires_at(harness.now().await.saturating_add(seconds(10)))).await;
    let decided = harness.decided(&key, assign("v", 7)).await;
    harness.advance(seconds(10)).await;
    expect_blocked(&harness, decided, Blocked::NotDue).await;
}

async fn a_task_of_a_paused_queue_is_not_assigned(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.pause("default").await;
    expect_blocked(&harness, harness.decided(&key, assign("v", 7)).await, Blocked::Paused).await;
    harness.reset_queue("default").await;
    harness.apply(&key, assign("v", 7)).await;
}

async fn a_task_of_a_full_queue_is_not_assigned(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 2]).await;
    harness.limit("default", 1).await;
    harness.apply(&enqueued[0], assign("v", 7)).await;
    let decided = harness.decided(&enqueued[1], assign("v", 7)).await;
    expect_blocked(&harness, decided.clone(), Blocked::LimitReached).await;
    assert!(harness.lease(10).await.is_empty(), "an assigned task takes a slot");
    harness.cancel(&enqueued[0]).await;
    assert_eq!(harness.commit_one(decided).await, Committed::Applied { version: Version(2) });
}

async fn a_task_whose_key_is_held_is_not_assigned(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task().serial_key("k"); 2]).await;
    harness.apply(&enqueued[0], assign("v", 7)).await;
    expect_blocked(&harness, harness.decided(&enqueued[1], assign("w", 7)).await, Blocked::KeyHeld).await;
    assert!(harness.lease(10).await.is_empty(), "an assigned task holds its key");
    let lease = started(&harness, &enqueued[0], "v").await;
    harness.apply(&enqueued[0], Command::Finish { lease, outcome: Outcome::DONE }).await;
    harness.apply(&enqueued[1], assign("w", 7)).await;
}

async fn a_task_behind_a_lower_id_of_its_key_is_not_assigned(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task().serial_key("k"); 2]).await;
    expect_blocked(&harness, harness.decided(&enqueued[1], assign("v", 7)).await, Blocked::KeyHeld).await;
    harness.apply(&enqueued[0], assign("v", 7)).await;
}

async fn a_task_that_was_assigned_and_waits_for_a_retry_keeps_its_key(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task().serial_key("k"); 2]).await;
    harness.apply(&enqueued[0], assign("v", 7)).await;
    let lease = started(&harness, &enqueued[0], "v").await;
    let outcome = Outcome::Snoozed { delay: seconds(10) };
    harness.apply(&enqueued[0], Command::Finish { lease, outcome }).await;
    assert!(harness.lease(10).await.is_empty());
    harness.advance(seconds(10)).await;
    harness.apply(&enqueued[0], assign("w", 7)).await;
    assert_eq!(harness.record(&enqueued[0]).await.attempt, 2);
}

async fn an_orphan_keeps_its_slot_and_its_key(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task().serial_key("k"), task().serial_key("k"), task()]).await;
    harness.limit("default", 1).await;
    harness.apply(&enqueued[0], assign("v", 7)).await;
    harness.apply(&enqueued[0], Command::Orphan(OrphanCause::Silent)).await;
    assert!(harness.lease(10).await.is_empty());
    // It was admitted before: its own slot and serial key do not block it.
    harness.apply(&enqueued[0], assign("w", 7)).await;
    harness.cancel(&enqueued[0]).await;
    assert_eq!(keys(&harness.lease(10).await), enqueued[1..2]);
}

async fn a_cancelled_assignment_leaves_no_hold(harness: Harness) {
    let key = assigned(&harness, "v").await;
    harness.cancel(&key).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.hold(), record.assignment), (TaskState::Cancelled, None, None));
    assert_eq!(record.attempts[0].outcome, AttemptOutcome::Cancelled);
    harness.advance(seconds(3600)).await;
    assert!(harness.overdue().await.is_empty());
}

fn assign(name: &str, epoch: u64) -> Command {
    Command::Assign { worker: worker(name), epoch: Epoch(epoch) }
}

async fn assigned(harness: &Harness, name: &str) -> TaskKey {
    let key = harness.enqueue(task()).await;
    harness.apply(&key, assign(name, 7)).await;
    key
}

fn grant(harness: &Harness, name: &str) -> Grant {
    Grant { worker: worker(name), token: harness.token(), ttl: seconds(30) }
}

async fn started(harness: &Harness, key: &TaskKey, name: &str) -> Lease {
    harness.apply(key, Command::Start(grant(harness, name))).await;
    harness.record(key).await.current_lease().expect("it runs")
}

/// An assignment decided by a leader whose clock is this much ahead.
async fn assigned_at(harness: &Harness, key: &TaskKey, ahead_s: u64) -> Transition {
    let later = harness.now().await.saturating_add(seconds(ahead_s));
    decide(&harness.record(key).await, assign("v", 7), later).expect("it is due by then")
}

/// The transition is refused for this reason, and the record stays as it is.
async fn expect_blocked(harness: &Harness, transition: Transition, why: Blocked) {
    let key = transition.key.clone();
    let before = harness.record(&key).await;
    assert_eq!(harness.commit_one(transition).await, Committed::Blocked(why));
    assert_eq!(harness.record(&key).await, before);
}

cases![
    an_assigned_task_belongs_to_one_worker_and_has_not_started,
    the_worker_it_is_assigned_to_starts_it_under_the_leaders_epoch,
    only_the_assigned_worker_can_start_it,
    the_same_start_twice_was_already_applied_and_another_is_stale,
    an_assigned_task_cannot_be_pulled,
    a_started_task_is_renewed_lost_and_pulled_like_any_other,
    an_outcome_is_fenced_by_the_epoch_of_its_lease,
    a_worker_lost_before_the_start_counts_as_a_loss,
    an_orphan_is_assigned_again_as_a_new_attempt,
    a_late_start_by_a_worker_that_was_declared_lost_is_stale,
    an_orphan_without_budget_is_abandoned_and_not_assigned,
    an_orphan_with_budget_left_is_not_abandoned,
    of_two_leaders_that_assign_one_task_one_wins,
    the_same_assignment_twice_was_already_applied,
    assigning_a_task_that_was_leased_meanwhile_is_stale,
    a_task_that_is_not_due_is_not_assigned,
    a_task_that_has_expired_is_not_assigned,
    a_task_of_a_paused_queue_is_not_assigned,
    a_task_of_a_full_queue_is_not_assigned,
    a_task_whose_key_is_held_is_not_assigned,
    a_task_behind_a_lower_id_of_its_key_is_not_assigned,
    a_task_that_was_assigned_and_waits_for_a_retry_keeps_its_key,
    an_orphan_keeps_its_slot_and_its_key,
    a_cancelled_assignment_leaves_no_hold,
];
