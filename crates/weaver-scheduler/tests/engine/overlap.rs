//! A fire while the last run has not ended: forbid, allow, replace.

use weaver_core::task::{CancelReason, Cause, TaskState};
use weaver_scheduler::SchedulerError;
use weaver_scheduler::definition::{ConcurrencyPolicy, NoticeKind};
use weaver_scheduler::misfire::Misfire;

use crate::bed::{Bed, cases, every, seconds};

cases![
    allow_lets_runs_overlap,
    forbid_makes_no_run_while_one_has_not_ended_and_says_so,
    forbid_makes_one_run_of_many_missed_fires,
    replace_cancels_the_run_that_has_not_ended,
    a_run_by_hand_is_held_to_the_policy,
];

async fn allow_lets_runs_overlap(bed: Bed) {
    bed.add("it", every("1m")).await;
    bed.pass(seconds(60)).await;
    bed.pass(seconds(60)).await;
    assert_eq!(bed.states("it").await, [TaskState::Queued; 2]);
}

async fn forbid_makes_no_run_while_one_has_not_ended_and_says_so(bed: Bed) {
    bed.add("it", every("1m").concurrency(ConcurrencyPolicy::Forbid)).await;
    bed.pass(seconds(60)).await;
    let running = bed.start_one().await;
    bed.pass(seconds(60)).await;
    assert_eq!(bed.instants("it").await, ["00:01:00"]);
    let notices = bed.notices().await;
    assert_eq!((notices.len(), notices[0].what, notices[0].count), (1, NoticeKind::Skipped, 1));
    let task = format!("task {} has not ended", running.lease.key.id);
    assert!(notices[0].why.contains(&task), "{}", notices[0].why);
    use weaver_core::queue::QueueExt;
    bed.store.mark_succeeded(&running, None).await.expect("the lease is valid");
    bed.pass(seconds(60)).await;
    assert_eq!(bed.instants("it").await, ["00:01:00", "00:03:00"]);
}

async fn forbid_makes_one_run_of_many_missed_fires(bed: Bed) {
    let spec = every("1m").concurrency(ConcurrencyPolicy::Forbid).misfire(Misfire::RunAll { max: 10 });
    bed.add("it", spec).await;
    bed.pass(seconds(300)).await;
    assert_eq!(bed.runs("it").await.len(), 1);
    let notices = bed.notices().await;
    assert_eq!((notices.len(), notices[0].count), (1, 4), "{notices:?}");
}

async fn replace_cancels_the_run_that_has_not_ended(bed: Bed) {
    bed.add("it", every("1m").concurrency(ConcurrencyPolicy::Replace)).await;
    bed.pass(seconds(60)).await;
    bed.start_one().await;
    bed.pass(seconds(60)).await;
    assert_eq!(bed.states("it").await, [TaskState::Cancelled, TaskState::Queued]);
    let first = &bed.runs("it").await[0];
    assert_eq!(first.cause, Some(Cause::Cancelled(CancelReason::Replaced)));
    let notices = bed.notices().await;
    assert_eq!((notices.len(), notices[0].what, notices[0].count), (1, NoticeKind::Replaced, 1));
    bed.finish_one().await;
    bed.pass(seconds(60)).await;
    let states = [TaskState::Cancelled, TaskState::Succeeded, TaskState::Queued];
    assert_eq!(bed.states("it").await, states, "what has ended is not touched");
}

async fn a_run_by_hand_is_held_to_the_policy(bed: Bed) {
    bed.add("it", every("1m").concurrency(ConcurrencyPolicy::Forbid)).await;
    let first = bed.scheduler.run_now(&bed.space, "it").await.expect("nothing runs");
    let refused = bed.scheduler.run_now(&bed.space, "it").await;
    assert_eq!(refused, Err(SchedulerError::StillRunning { name: "it".to_owned(), task: first }));
    bed.pass(seconds(60)).await;
    assert_eq!(bed.runs("it").await.len(), 1, "a fire is held to it as well");
}
