//! The seed's operations on one task at a time: the user-level calls on top of the port.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use weaver_core::error::{Error, Result};
use weaver_core::explain::Reason;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::lease::Leased;
use weaver_core::lifecycle::{Refused, Verb};
use weaver_core::name::Namespace;
use weaver_core::outcome::{Outcome, RESULT_MAX_BYTES};
use weaver_core::ports::{Selector, TaskQuery};
use weaver_core::queue::QueueExt;
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, ContentType, NewTask, TaskState};

use super::answers::refusal;
use super::cases;
use weaver_testkit::harness::{Harness, namespace, seconds, task};

cases![
    a_task_goes_from_enqueue_to_success,
    an_existing_task_is_reported_as_existing,
    one_task_is_dequeued_whatever_was_requested,
    a_failed_task_waits_for_its_retry,
    a_task_is_dead_when_its_attempts_are_used_up,
    counts_by_state_tell_every_state,
    a_delay_function_gets_the_failures_and_the_error,
    a_delay_function_may_leave_it_to_the_policy_and_has_no_say_in_the_budget,
    a_report_under_a_lost_lease_is_stale_and_changes_nothing,
    the_same_report_twice_is_fine,
    a_cancelled_task_cannot_be_cancelled_again,
    a_waiting_task_can_be_run_now,
    a_task_that_waits_for_no_time_cannot_be_run_now,
    a_finished_task_can_be_retried_as_a_new_one,
    the_new_task_is_like_the_old_but_for_its_keys_and_times,
    an_unfinished_task_cannot_be_retried_as_new,
    a_list_finds_tasks,
    the_history_lists_each_attempt,
    an_explanation_has_the_state_of_a_task_and_its_reason,
    a_purge_removes_tasks_past_their_retention,
    every_call_for_an_unknown_task_finds_nothing,
    one_bad_task_is_not_called_a_member_of_a_batch,
    an_undecodable_payload_is_retried_within_its_budget_with_its_own_cause,
    a_result_that_is_too_large_is_refused_and_the_task_still_runs,
];

async fn take(harness: &Harness) -> Leased {
    let leased = harness.store.dequeue_ready(harness.request(1)).await.expect("the call is valid");
    leased.expect("a task is due")
}

async fn status(harness: &Harness, key: &TaskKey) -> weaver_core::queue::TaskStatus {
    harness.store.get_status(key).await.expect("the task is there")
}

async fn new(harness: &Harness, task: NewTask) -> TaskKey {
    harness.store.enqueue(task).await.expect("the task is stored").key
}

#[track_caller]
fn expect_refused<T: std::fmt::Debug>(answer: Result<T>, key: &TaskKey, refused: Refused) {
    let error = answer.expect_err("it is not allowed");
    assert_eq!(error, Error::Refused { key: key.clone(), refused });
}

async fn a_task_goes_from_enqueue_to_success(harness: Harness) {
    let key = new(&harness, task()).await;
    let created_at = harness.now().await;
    let queued = status(&harness, &key).await;
    assert_eq!((queued.state, queued.attempt, queued.failures), (TaskState::Queued, 0, 0));
    assert_eq!((queued.max_attempts, queued.next_run_at, queued.last_error), (5, None, None));
    harness.advance(seconds(1)).await;
    let leased = take(&harness).await;
    assert_eq!(leased.lease.key, key);
    assert_eq!(status(&harness, &key).await.state, TaskState::Running);
    harness.advance(seconds(1)).await;
    harness.store.mark_succeeded(&leased, Some("\"sent\"".into())).await.expect("the lease is valid");
    let done = status(&harness, &key).await;
    assert_eq!((done.state, done.attempt, done.failures), (TaskState::Succeeded, 1, 0));
    assert_eq!(done.result.as_deref(), Some(&b"\"sent\""[..]));
    assert_eq!((done.created_at, done.updated_at), (created_at, harness.now().await));
    assert_eq!(harness.store.dequeue_ready(harness.request(1)).await, Ok(None));
}

async fn an_existing_task_is_reported_as_existing(harness: Harness) {
    let first = harness.store.enqueue(task().idempotency_key("k")).await.expect("the task is stored");
    let second = harness.store.enqueue(task().idempotency_key("k")).await.expect("the task is stored");
    assert_eq!((first.existing, second.existing), (false, true));
    assert_eq!(first.key, second.key);
}

async fn one_task_is_dequeued_whatever_was_requested(harness: Harness) {
    let keys = harness.enqueue_all(vec![task(); 3]).await;
    let leased = harness.store.dequeue_ready(harness.request(10)).await.expect("the call is valid");
    assert_eq!(leased.map(|leased| leased.lease.key), Some(keys[0].clone()));
    assert_eq!(harness.lease_keys(10).await, keys[1..]);
}

async fn a_failed_task_waits_for_its_retry(harness: Harness) {
    let key = new(&harness, task().retry(RetryPolicy::Fixed { delay: seconds(10) })).await;
    harness.store.mark_failed(&take(&harness).await, "no").await.expect("the lease is valid");
    let failed = status(&harness, &key).await;
    assert_eq!((failed.state, failed.attempt, failed.failures), (TaskState::RetryScheduled, 1, 1));
    assert_eq!(failed.last_error.as_deref(), Some("no"));
    assert_eq!(failed.next_run_at, Some(harness.now().await.saturating_add(seconds(10))));
    assert_eq!(harness.store.dequeue_ready(harness.request(1)).await, Ok(None));
    harness.advance(seconds(10)).await;
    assert_eq!(take(&harness).await.lease.key, key);
}

async fn a_task_is_dead_when_its_attempts_are_used_up(harness: Harness) {
    let key = new(&harness, task().retry(RetryPolicy::Fixed { delay: seconds(10) })).await;
    for failures in 1..=5 {
        let leased = take(&harness).await;
        harness.store.mark_failed(&leased, &format!("no {failures}")).await.expect("the lease is valid");
        harness.advance(seconds(10)).await;
    }
    let dead = status(&harness, &key).await;
    assert_eq!((dead.state, dead.attempt, dead.failures), (TaskState::Dead, 5, 5));
    assert_eq!((dead.last_error.as_deref(), dead.next_run_at), (Some("no 5"), None));
    assert_eq!(harness.store.dequeue_ready(harness.request(1)).await, Ok(None));
}

async fn counts_by_state_tell_every_state(harness: Harness) {
    harness.enqueue_all(vec![task().retry(RetryPolicy::Fixed { delay: seconds(10) }); 7]).await;
    new(&harness, task().delay(seconds(10))).await;
    new(&harness, task().namespace("there")).await;
    harness.store.mark_succeeded(&take(&harness).await, None).await.expect("the lease is valid");
    harness.store.mark_failed(&take(&harness).await, "no").await.expect("the lease is valid");
    harness.store.mark(&take(&harness).await, Outcome::fatal("no")).await.expect("the lease is valid");
    harness.store.cancel(&take(&harness).await.lease.key).await.expect("it has not ended");
    take(&harness).await;
    let counts = harness.store.counts_by_state(&Namespace::default()).await.expect("the store answers");
    let expected = TaskState::ALL.map(|state| match state {
        TaskState::Queued => (state, 2),
        TaskState::Assigned | TaskState::Orphaned => (state, 0),
        _ => (state, 1),
    });
    assert_eq!(counts.iter().collect::<Vec<_>>(), expected);
}

async fn a_delay_function_gets_the_failures_and_the_error(harness: Harness) {
    let key = new(&harness, task()).await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&calls);
    let delay = move |failures: u32, error: &str| {
        noted.lock().push((failures, error.to_owned()));
        Some(seconds(100 * u64::from(failures)))
    };
    for (failures, error) in [(1, "first"), (2, "second")] {
        let leased = take(&harness).await;
        harness.store.mark_failed_with(&leased, error, &delay).await.expect("the lease is valid");
        let wait = seconds(100 * failures);
        assert_eq!(status(&harness, &key).await.next_run_at, Some(harness.now().await.saturating_add(wait)));
        harness.advance(wait).await;
    }
    assert_eq!(*calls.lock(), [(1, "first".to_owned()), (2, "second".to_owned())]);
}

async fn a_delay_function_may_leave_it_to_the_policy_and_has_no_say_in_the_budget(harness: Harness) {
    let policy = RetryPolicy::Fixed { delay: seconds(7) };
    let key = new(&harness, task().retry(policy).max_attempts(2)).await;
    harness
        .store
        .mark_failed_with(&take(&harness).await, "no", &|_, _| None)
        .await
        .expect("the lease is valid");
    let next = harness.now().await.saturating_add(seconds(7));
    assert_eq!(status(&harness, &key).await.next_run_at, Some(next));
    harness.advance(seconds(7)).await;
    let again = |_: u32, _: &str| Some(seconds(1));
    harness.store.mark_failed_with(&take(&harness).await, "no", &again).await.expect("the lease is valid");
    assert_eq!(status(&harness, &key).await.state, TaskState::Dead);
}

async fn a_report_under_a_lost_lease_is_stale_and_changes_nothing(harness: Harness) {
    let key = new(&harness, task()).await;
    let lost = take(&harness).await;
    harness.lose().await;
    let stale = Err(Error::Stale { key: key.clone() });
    for taken_again in [false, true] {
        if taken_again {
            take(&harness).await;
        }
        let before = harness.record(&key).await;
        assert_eq!(harness.store.mark_succeeded(&lost, Some("1".into())).await, stale);
        assert_eq!(harness.store.mark_failed(&lost, "no").await, stale);
        assert_eq!(harness.store.mark_failed_with(&lost, "no", &|_, _| Some(seconds(1))).await, stale);
        assert_eq!(harness.store.mark(&lost, Outcome::Released).await, stale);
        assert_eq!(harness.record(&key).await, before);
    }
}

async fn the_same_report_twice_is_fine(harness: Harness) {
    let key = new(&harness, task()).await;
    let leased = take(&harness).await;
    for _ in 0..2 {
        harness.store.mark_succeeded(&leased, None).await.expect("it was taken the first time");
    }
    assert_eq!(harness.store.mark_failed(&leased, "no").await, Err(Error::Stale { key: key.clone() }));
    assert_eq!(status(&harness, &key).await.state, TaskState::Succeeded);
}

async fn a_cancelled_task_cannot_be_cancelled_again(harness: Harness) {
    let key = new(&harness, task()).await;
    harness.store.cancel(&key).await.expect("it has not ended");
    let before = harness.record(&key).await;
    assert_eq!(
        (before.state, before.cause),
        (TaskState::Cancelled, Some(Cause::Cancelled(CancelReason::User)))
    );
    expect_refused(harness.store.cancel(&key).await, &key, Refused::Ended { state: TaskState::Cancelled });
    assert_eq!(harness.record(&key).await, before);
}

async fn a_waiting_task_can_be_run_now(harness: Harness) {
    let key = new(&harness, task().delay(seconds(60))).await;
    harness.store.run_now(&key).await.expect("it waits");
    harness
        .store
        .mark(&take(&harness).await, Outcome::Snoozed { delay: seconds(60) })
        .await
        .expect("it runs");
    assert_eq!(harness.store.dequeue_ready(harness.request(1)).await, Ok(None));
    harness.store.run_now(&key).await.expect("it waits");
    assert_eq!(take(&harness).await.lease.key, key);
}

async fn a_task_that_waits_for_no_time_cannot_be_run_now(harness: Harness) {
    let key = new(&harness, task()).await;
    let refused = |from| Refused::NotAllowed { from, verb: Verb::RunNow };
    expect_refused(harness.store.run_now(&key).await, &key, refused(TaskState::Queued));
    let leased = take(&harness).await;
    expect_refused(harness.store.run_now(&key).await, &key, refused(TaskState::Running));
    harness.store.mark_succeeded(&leased, None).await.expect("the lease is valid");
    expect_refused(harness.store.run_now(&key).await, &key, Refused::Ended { state: TaskState::Succeeded });
}

async fn a_finished_task_can_be_retried_as_a_new_one(harness: Harness) {
    for outcome in [Outcome::DONE, Outcome::fatal("no"), Outcome::Cancelled { message: "no".into() }] {
        let old = new(&harness, task()).await;
        harness.store.mark(&take(&harness).await, outcome).await.expect("the lease is valid");
        let before = harness.record(&old).await;
        let enqueued = harness.store.retry(&old).await.expect("it has ended");
        assert!(!enqueued.existing && enqueued.key != old);
        let record = harness.record(&enqueued.key).await;
        assert_eq!((record.state, record.failures, record.attempt), (TaskState::Queued, 0, 0));
        assert_eq!(record.spec.origin().retry_of, Some(old.id));
        assert_eq!(harness.record(&old).await, before, "what has ended stays as it ended");
        harness.store.mark_succeeded(&take(&harness).await, None).await.expect("the lease is valid");
    }
}

async fn the_new_task_is_like_the_old_but_for_its_keys_and_times(harness: Harness) {
    let now = harness.now().await;
    let in_full = task()
        .namespace("there")
        .queue("side")
        .payload("text", ContentType::other("text/plain"))
        .priority(2)
        .max_attempts(3)
        .max_losses(1)
        .retry(RetryPolicy::None)
        .timeout(seconds(9))
        .serial_key("serial")
        .task_group_id("group")
        .session_id("session")
        .job_definition_id("job")
        .label("colour", "red");
    let unique = in_full.clone().idempotency_key("k").scheduled_for(now);
    let old = new(&harness, unique.delay(seconds(5)).expires_at(now.saturating_add(seconds(60)))).await;
    harness.store.cancel(&old).await.expect("it has not ended");
    let again = harness.store.retry(&old).await.expect("it has ended");
    let plain = new(&harness, in_full).await;
    let (again, plain) = (harness.record(&again.key).await, harness.record(&plain).await);
    assert_eq!(again.state, TaskState::Queued, "it does not wait again");
    assert_eq!((&again.spec.idempotency_key, again.spec.expires_at), (&None, None));
    assert_eq!((again.spec.origin().scheduled_for, again.spec.origin().retry_of), (None, Some(old.id)));
    assert_eq!(again.spec.envelope, plain.spec.envelope);
    assert_eq!(again.key.namespace, namespace("there"));
    let choices = |spec: &weaver_core::task::TaskSpec| {
        let origin = spec.origin().clone();
        let belongs = (origin.task_group_id, origin.session_id, origin.job_definition_id, origin.labels);
        let budget = (spec.max_attempts, spec.max_losses, spec.retry, spec.timeout);
        (spec.queue.clone(), spec.priority, spec.serial_key.clone(), budget, belongs)
    };
    assert_eq!(choices(&again.spec), choices(&plain.spec));
}

async fn an_unfinished_task_cannot_be_retried_as_new(harness: Harness) {
    let key = new(&harness, task()).await;
    let not_ended = |state| Refused::NotEnded { state };
    expect_refused(harness.store.retry(&key).await, &key, not_ended(TaskState::Queued));
    let leased = take(&harness).await;
    expect_refused(harness.store.retry(&key).await, &key, not_ended(TaskState::Running));
    harness.store.mark_failed(&leased, "no").await.expect("the lease is valid");
    expect_refused(harness.store.retry(&key).await, &key, not_ended(TaskState::RetryScheduled));
    assert_eq!(harness.total("default").await, 1);
}

async fn a_list_finds_tasks(harness: Harness) {
    let ended = new(&harness, task()).await;
    harness.store.cancel(&ended).await.expect("it has not ended");
    let waits = new(&harness, task()).await;
    let query = TaskQuery::new(Namespace::default()).select(Selector::State(TaskState::Queued));
    let page = harness.store.list(query).await.expect("the query is valid");
    assert_eq!(page.items.into_iter().map(|record| record.key).collect::<Vec<_>>(), [waits]);
}

async fn the_history_lists_each_attempt(harness: Harness) {
    let key = new(&harness, task().retry(RetryPolicy::Fixed { delay: seconds(0) })).await;
    assert_eq!(harness.store.history(&key).await, Ok(vec![]));
    harness.store.mark_failed(&take(&harness).await, "no").await.expect("the lease is valid");
    harness.store.mark_succeeded(&take(&harness).await, None).await.expect("the lease is valid");
    let history = harness.store.history(&key).await.expect("the task is there");
    let attempts: Vec<_> =
        history.iter().map(|one| (one.attempt, one.outcome, one.error.as_deref())).collect();
    let expected = [(1, AttemptOutcome::Failed, Some("no")), (2, AttemptOutcome::Succeeded, None)];
    assert_eq!(attempts, expected);
}

async fn an_explanation_has_the_state_of_a_task_and_its_reason(harness: Harness) {
    let key = new(&harness, task()).await;
    take(&harness).await;
    let explanation = harness.store.explain(&key).await.expect("the task is there");
    assert_eq!(explanation.state, TaskState::Running);
    assert!(matches!(explanation.reasons[..], [Reason::Running { .. }]), "{explanation}");
}

async fn a_purge_removes_tasks_past_their_retention(harness: Harness) {
    let old = new(&harness, task()).await;
    let there = new(&harness, task().namespace("there")).await;
    harness.store.cancel(&old).await.expect("it has not ended");
    harness.store.cancel(&there).await.expect("it has not ended");
    harness.advance(seconds(60)).await;
    let recent = new(&harness, task()).await;
    harness.store.cancel(&recent).await.expect("it has not ended");
    let live = new(&harness, task()).await;
    assert_eq!(harness.store.purge(&Namespace::default(), seconds(60)).await, Ok(1));
    assert_eq!(harness.store.get_status(&old).await, Err(Error::NotFound { key: old }));
    for key in [there, recent, live] {
        assert!(harness.find(&key).await.is_some(), "{key} should have stayed");
    }
}

async fn every_call_for_an_unknown_task_finds_nothing(harness: Harness) {
    let known = new(&harness, task()).await;
    let unknown = TaskKey::new(Namespace::default(), TaskId(known.id.0 + 1000));
    for key in [unknown, TaskKey::new(namespace("there"), known.id)] {
        let missing = Error::NotFound { key: key.clone() };
        assert_eq!(harness.store.get_status(&key).await, Err(missing.clone()));
        assert_eq!(harness.store.history(&key).await, Err(missing.clone()));
        assert_eq!(harness.store.cancel(&key).await, Err(missing.clone()));
        assert_eq!(harness.store.run_now(&key).await, Err(missing.clone()));
        assert_eq!(harness.store.retry(&key).await, Err(missing));
    }
    assert_eq!(status(&harness, &known).await.state, TaskState::Queued);
}

async fn one_bad_task_is_not_called_a_member_of_a_batch(harness: Harness) {
    let refused = refusal(harness.store.enqueue(task().queue("")).await);
    assert_eq!((refused.index, refused.field), (None, "queue"));
    assert!(refused.to_string().starts_with("queue is empty"), "{refused}");
    assert_eq!(harness.total("default").await, 0);
}

async fn an_undecodable_payload_is_retried_within_its_budget_with_its_own_cause(harness: Harness) {
    let policy = RetryPolicy::Fixed { delay: seconds(7) };
    let key =
        new(&harness, task().payload("{\"to\":", ContentType::JSON).max_attempts(2).retry(policy)).await;
    for (failures, state) in [(1, TaskState::RetryScheduled), (2, TaskState::Dead)] {
        let leased = take(&harness).await;
        let undecodable = leased.record.spec.envelope.decode::<Vec<u8>>().expect_err("it is cut off");
        harness.store.mark(&leased, Outcome::undecodable(&undecodable)).await.expect("the lease is valid");
        let failed = status(&harness, &key).await;
        assert_eq!((failed.state, failed.failures), (state, failures));
        assert!(
            failed.last_error.is_some_and(|error| error.contains("decoded") && error.contains("retried"))
        );
        harness.advance(seconds(7)).await;
    }
}

async fn a_result_that_is_too_large_is_refused_and_the_task_still_runs(harness: Harness) {
    let key = new(&harness, task()).await;
    let leased = take(&harness).await;
    let result = |bytes: usize| Some(Bytes::from(vec![b'1'; bytes]));
    let bytes = RESULT_MAX_BYTES + 1;
    let refused = Refused::ResultTooLarge { bytes, max_bytes: RESULT_MAX_BYTES };
    expect_refused(harness.store.mark_succeeded(&leased, result(bytes)).await, &key, refused);
    assert_eq!(harness.record(&key).await, leased.record);
    harness.store.mark_succeeded(&leased, result(RESULT_MAX_BYTES)).await.expect("so much is kept");
    assert_eq!(status(&harness, &key).await.result, result(RESULT_MAX_BYTES));
}
