//! Concurrency policies, when a schedule fires and its last run has not ended: forbid, allow, replace.

use weaver_core::task::{CancelReason, Cause, TaskState};
use weaver_scheduler::SchedulerError;
use weaver_scheduler::definition::{ConcurrencyPolicy, NoticeKind};
use weaver_scheduler::misfire::Misfire;

use crate::harness::{Harness, cases, every, seconds};

cases![
    allow_lets_runs_be_concurrent,
    forbid_creates_no_run_while_one_has_not_ended_and_writes_a_notice,
    forbid_makes_one_run_of_many_missed_fires,
    replace_cancels_the_run_that_has_not_ended,
    a_manual_run_obeys_the_concurrency_policy,
];

async fn allow_lets_runs_be_concurrent(harness: Harness) {
    harness.add("it", every("1m")).await;
    harness.pass(seconds(60)).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.states("it").await, [TaskState::Queued; 2]);
}

async fn forbid_creates_no_run_while_one_has_not_ended_and_writes_a_notice(harness: Harness) {
    harness.add("it", every("1m").concurrency(ConcurrencyPolicy::Forbid)).await;
    harness.pass(seconds(60)).await;
    let running = harness.start_one().await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.instants("it").await, ["00:01:00"]);
    let notices = harness.notices().await;
    assert_eq!((notices.len(), notices[0].kind, notices[0].count), (1, NoticeKind::Skipped, 1));
    let task = format!("task {} has not ended", running.lease.key.id);
    assert!(notices[0].reason.contains(&task), "{}", notices[0].reason);
    use weaver_core::queue::QueueExt;
    harness.store.mark_succeeded(&running, None).await.expect("the lease is valid");
    harness.pass(seconds(60)).await;
    assert_eq!(harness.instants("it").await, ["00:01:00", "00:03:00"]);
}

async fn forbid_makes_one_run_of_many_missed_fires(harness: Harness) {
    let spec = every("1m").concurrency(ConcurrencyPolicy::Forbid).misfire(Misfire::RunAll { max: 10 });
    harness.add("it", spec).await;
    harness.pass(seconds(300)).await;
    assert_eq!(harness.runs("it").await.len(), 1);
    let notices = harness.notices().await;
    assert_eq!((notices.len(), notices[0].count), (1, 4), "{notices:?}");
}

async fn replace_cancels_the_run_that_has_not_ended(harness: Harness) {
    harness.add("it", every("1m").concurrency(ConcurrencyPolicy::Replace)).await;
    harness.pass(seconds(60)).await;
    harness.start_one().await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.states("it").await, [TaskState::Cancelled, TaskState::Queued]);
    let first = &harness.runs("it").await[0];
    assert_eq!(first.cause, Some(Cause::Cancelled(CancelReason::Replaced)));
    let notices = harness.notices().await;
    assert_eq!((notices.len(), notices[0].kind, notices[0].count), (1, NoticeKind::Replaced, 1));
    harness.finish_one().await;
    harness.pass(seconds(60)).await;
    let states = [TaskState::Cancelled, TaskState::Succeeded, TaskState::Queued];
    assert_eq!(harness.states("it").await, states, "ended runs are not changed");
}

async fn a_manual_run_obeys_the_concurrency_policy(harness: Harness) {
    harness.add("it", every("1m").concurrency(ConcurrencyPolicy::Forbid)).await;
    let first = harness.scheduler.run_now(&harness.space, "it").await.expect("nothing runs");
    let refused = harness.scheduler.run_now(&harness.space, "it").await;
    assert_eq!(refused, Err(SchedulerError::StillRunning { name: "it".to_owned(), task: first }));
    harness.pass(seconds(60)).await;
    assert_eq!(harness.runs("it").await.len(), 1, "the policy applies to scheduled runs as well");
}
