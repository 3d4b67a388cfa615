//! G5, honest counting: failures and lost attempts have separate budgets, nothing else is charged, and the
//! history of attempts is kept.

use std::time::Duration;

use bytes::Bytes;
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::Leased;
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{ATTEMPTS_KEPT, AttemptOutcome, Cause, NewTask, TaskState};

use super::cases;
use weaver_testkit::harness::{Harness, seconds, task, worker};

async fn a_task_that_always_fails_runs_five_times(harness: Harness) {
    let key = harness.enqueue(retried()).await;
    assert_eq!(runs_until_dead(&harness, &key, &Outcome::failed("no")).await, 5);
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::Dead, Some(Cause::Failed)));
    assert_eq!((record.failures, record.losses, record.executions, record.attempt), (5, 0, 5, 5));
}

async fn a_task_is_retried_up_to_its_failure_budget(harness: Harness) {
    for max_attempts in [1, 2, 7] {
        let key = harness.enqueue(retried().max_attempts(max_attempts)).await;
        assert_eq!(runs_until_dead(&harness, &key, &Outcome::failed("no")).await, max_attempts);
    }
}

async fn a_timeout_is_charged_as_a_failure(harness: Harness) {
    let key = harness.enqueue(retried().max_attempts(2).timeout(seconds(5))).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::TimedOut).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::TimedOut)));
    assert_eq!((record.failures, record.losses), (1, 0));
    assert_eq!(runs_until_dead(&harness, &key, &Outcome::TimedOut).await, 1);
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::Dead, Some(Cause::TimedOut)));
    assert_eq!(record.attempts[1].outcome, AttemptOutcome::TimedOut);
}

async fn failures_and_timeouts_spend_one_budget(harness: Harness) {
    let key = harness.enqueue(retried().max_attempts(3)).await;
    run(&harness, Outcome::failed("no")).await;
    run(&harness, Outcome::TimedOut).await;
    run(&harness, Outcome::failed("no")).await;
    assert_eq!(harness.record(&key).await.state, TaskState::Dead);
}

async fn a_fatal_error_is_not_retried(harness: Harness) {
    let key = harness.enqueue(retried()).await;
    assert_eq!(runs_until_dead(&harness, &key, &Outcome::fatal("cannot")).await, 1);
    let record = harness.record(&key).await;
    assert_eq!((record.cause, record.failures), (Some(Cause::Failed), 1));
    assert_eq!(record.last_error.as_deref(), Some("cannot"));
}

async fn without_a_retry_policy_the_first_failure_is_final(harness: Harness) {
    let key = harness.enqueue(task().retry(RetryPolicy::None)).await;
    assert_eq!(runs_until_dead(&harness, &key, &Outcome::failed("no")).await, 1);
}

async fn a_handlers_retry_delay_does_not_exceed_the_attempt_budget(harness: Harness) {
    let key = harness.enqueue(task().max_attempts(2)).await;
    let outcome = Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(1)) };
    assert_eq!(runs_until_dead(&harness, &key, &outcome).await, 2);
}

async fn a_task_whose_lease_expires_four_times_is_dead(harness: Harness) {
    let key = harness.enqueue(task()).await;
    for losses in 1..=3 {
        harness.lease_one().await;
        harness.lose().await;
        let record = harness.record(&key).await;
        assert_eq!((record.state, record.losses), (TaskState::RetryScheduled, losses));
    }
    harness.lease_one().await;
    harness.lose().await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::Dead, Some(Cause::Lost)));
    assert_eq!((record.losses, record.failures, record.executions), (4, 0, 4));
    assert!(harness.lease(1).await.is_empty());
}

async fn a_task_that_may_not_be_lost_is_dead_on_its_first_loss(harness: Harness) {
    let key = harness.enqueue(task().max_losses(0)).await;
    harness.lease_one().await;
    harness.lose().await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause, record.losses), (TaskState::Dead, Some(Cause::Lost), 1));
}

async fn failures_and_losses_have_budgets_of_their_own(harness: Harness) {
    let key = harness.enqueue(retried().max_attempts(2).max_losses(1)).await;
    run(&harness, Outcome::failed("no")).await;
    harness.advance(seconds(1)).await;
    harness.lease_one().await;
    harness.lose().await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.failures, record.losses), (TaskState::RetryScheduled, 1, 1));
    let leased = harness.lease_one().await;
    harness.succeed(&leased).await;
}

async fn releasing_charges_nothing(harness: Harness) {
    charges_nothing(&harness, Outcome::Released).await;
}

async fn snoozing_charges_nothing(harness: Harness) {
    charges_nothing(&harness, Outcome::Snoozed { delay: seconds(1) }).await;
}

async fn a_fixed_policy_waits_the_same_each_time(harness: Harness) {
    let key = harness.enqueue(task().retry(RetryPolicy::Fixed { delay: seconds(7) })).await;
    for _ in 0..4 {
        run(&harness, Outcome::failed("no")).await;
        let due = harness.now().await.saturating_add(seconds(7));
        assert_eq!(harness.record(&key).await.next_run_at(), Some(due));
        harness.advance(seconds(7)).await;
    }
}

async fn an_exponential_policy_waits_as_it_computes(harness: Harness) {
    let key = harness.enqueue(task()).await;
    for failures in 1..5 {
        run(&harness, Outcome::failed("no")).await;
        let delay = RetryPolicy::DEFAULT.delay(key.id, failures).expect("there is another start");
        let waits = harness.record(&key).await.ready_at.since(harness.now().await);
        // A record keeps microseconds.
        assert_eq!(waits, Duration::from_micros(u64::try_from(delay.as_micros()).expect("it is short")));
        harness.advance(delay + Duration::from_millis(1)).await;
    }
}

async fn a_result_is_kept(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let result = Some(Bytes::from_static(b"{\"sent\":true}"));
    run(&harness, Outcome::Succeeded { result: result.clone() }).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause, record.result), (TaskState::Succeeded, None, result));
    assert_eq!((record.finished_at, record.lease), (Some(harness.now().await), None));
}

async fn the_last_error_is_kept_even_after_success(harness: Harness) {
    let key = harness.enqueue(retried()).await;
    run(&harness, Outcome::failed("first")).await;
    run(&harness, Outcome::failed("second")).await;
    assert_eq!(harness.record(&key).await.last_error.as_deref(), Some("second"));
    run(&harness, Outcome::DONE).await;
    assert_eq!(harness.record(&key).await.last_error.as_deref(), Some("second"));
}

async fn a_lost_attempt_is_explained_by_its_worker(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.lease_by("night shift", 1).await;
    harness.lose().await;
    let error = harness.record(&key).await.last_error.expect("a loss leaves an error");
    assert!(error.contains("night shift"), "{error}");
}

async fn each_attempt_is_in_the_history(harness: Harness) {
    let key = harness.enqueue(retried()).await;
    let started_at = harness.now().await;
    let leased = harness.lease_by("v", 1).await.remove(0);
    harness.advance(seconds(4)).await;
    harness.end(&leased, Outcome::failed("no")).await;
    run(&harness, Outcome::DONE).await;
    let history = harness.record(&key).await.attempts;
    assert_eq!(history.len(), 2);
    assert_eq!((history[0].attempt, &history[0].worker), (1, &worker("v")));
    assert_eq!((history[0].fence, history[1].fence), (Version(2), Version(4)));
    assert_eq!(history[0].started_at, Some(started_at));
    assert_eq!(history[0].ended_at, started_at.saturating_add(seconds(4)));
    assert_eq!((history[0].outcome, history[0].error.as_deref()), (AttemptOutcome::Failed, Some("no")));
    assert_eq!((history[1].attempt, history[1].outcome), (2, AttemptOutcome::Succeeded));
    assert_eq!(history[1].error, None);
}

async fn the_history_keeps_the_last_twenty_attempts(harness: Harness) {
    let key = harness.enqueue(task()).await;
    for _ in 0..25 {
        run(&harness, Outcome::Released).await;
    }
    let record = harness.record(&key).await;
    let numbers: Vec<_> = record.attempts.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(ATTEMPTS_KEPT, 20);
    assert_eq!(numbers, (6..=25).collect::<Vec<_>>());
    assert_eq!((record.attempt, record.executions), (25, 25));
}

/// Due again a second after each failure.
fn retried() -> NewTask {
    task().retry(RetryPolicy::Fixed { delay: seconds(1) })
}

/// Leases the only task as soon as it is due, and reports this outcome.
async fn run(harness: &Harness, outcome: Outcome) -> Leased {
    let mut leased = harness.lease(1).await;
    if leased.is_empty() {
        harness.advance(seconds(1)).await;
        leased = harness.lease(1).await;
    }
    let leased = leased.pop().expect("it should be due");
    harness.end(&leased, outcome).await;
    leased
}

async fn runs_until_dead(harness: &Harness, key: &TaskKey, outcome: &Outcome) -> u32 {
    let mut runs = 0;
    while harness.record(key).await.state != TaskState::Dead {
        run(harness, outcome.clone()).await;
        runs += 1;
    }
    assert_eq!(harness.record(key).await.finished_at, Some(harness.now().await));
    harness.advance(seconds(3600)).await;
    assert!(harness.lease(1).await.is_empty(), "dead is dead");
    runs
}

async fn charges_nothing(harness: &Harness, outcome: Outcome) {
    let key = harness.enqueue(task().max_attempts(1).max_losses(0)).await;
    for _ in 0..10 {
        run(harness, outcome.clone()).await;
    }
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.failures, record.losses), (TaskState::RetryScheduled, 0, 0));
    assert_eq!((record.executions, record.attempt), (10, 10));
    assert_eq!(record.last_error, None);
}

cases![
    a_task_that_always_fails_runs_five_times,
    a_task_is_retried_up_to_its_failure_budget,
    a_timeout_is_charged_as_a_failure,
    failures_and_timeouts_spend_one_budget,
    a_fatal_error_is_not_retried,
    without_a_retry_policy_the_first_failure_is_final,
    a_handlers_retry_delay_does_not_exceed_the_attempt_budget,
    a_task_whose_lease_expires_four_times_is_dead,
    a_task_that_may_not_be_lost_is_dead_on_its_first_loss,
    failures_and_losses_have_budgets_of_their_own,
    releasing_charges_nothing,
    snoozing_charges_nothing,
    a_fixed_policy_waits_the_same_each_time,
    an_exponential_policy_waits_as_it_computes,
    a_result_is_kept,
    the_last_error_is_kept_even_after_success,
    a_lost_attempt_is_explained_by_its_worker,
    each_attempt_is_in_the_history,
    the_history_keeps_the_last_twenty_attempts,
];
