//! Enqueuing: a task is stored as requested, with documented defaults for everything else.

use std::time::Duration;

use weaver_core::error::{Error, Problem};
use weaver_core::id::Version;
use weaver_core::queue::QueueExt;
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{
    ContentType, Continuation, NewTask, PROMPT_TASK_TYPE, TaskRecord, TaskState, TraceContext,
};

use super::cases;
use weaver_testkit::harness::{Harness, seconds, task};

async fn a_task_is_stored_as_requested(harness: Harness) {
    let expires_at = harness.now().await.saturating_add(seconds(600));
    let retry = RetryPolicy::Fixed { delay: seconds(7) };
    let asked = task()
        .json(&serde_json::json!({ "to": "ada" }))
        .expect("it is JSON")
        .namespace("shop")
        .queue("mail")
        .priority(2)
        .max_attempts(8)
        .max_losses(1)
        .retry(retry)
        .timeout(seconds(90))
        .expires_at(expires_at)
        .serial_key("customer 42")
        .idempotency_key("order 7");
    let record = harness.record(&harness.enqueue(asked).await).await;
    let spec = &record.spec;
    assert_eq!(record.key.namespace.as_str(), "shop");
    assert_eq!((spec.queue.as_str(), spec.envelope.task_type.as_str()), ("mail", "t"));
    assert_eq!(spec.envelope.payload.as_ref(), br#"{"to":"ada"}"#);
    assert_eq!((spec.priority.get(), spec.max_attempts, spec.max_losses), (2, 8, 1));
    assert_eq!((spec.retry, spec.timeout), (retry, Some(seconds(90))));
    assert_eq!(spec.expires_at, Some(expires_at));
    assert_eq!(spec.serial_key.as_ref().map(|key| key.as_str()), Some("customer 42"));
    assert_eq!(spec.idempotency_key.as_ref().map(|key| key.as_str()), Some("order 7"));
}

async fn the_origin_of_a_task_is_stored_with_it(harness: Harness) {
    let planned = harness.now().await;
    let trace = TraceContext { traceparent: "00-1-2-01".into(), tracestate: Some("vendor=1".into()) };
    let asked = task()
        .task_group_id("release 12")
        .session_id("talk 3")
        .label("team", "blue")
        .label("team", "red")
        .job_definition_id("nightly")
        .scheduled_for(planned)
        .trace(trace.clone());
    let record = harness.record(&harness.enqueue(asked).await).await;
    let origin = record.spec.origin();
    assert_eq!(origin.task_group_id.as_ref().map(|id| id.as_str()), Some("release 12"));
    assert_eq!(origin.session_id.as_ref().map(|id| id.as_str()), Some("talk 3"));
    assert_eq!(origin.labels.get("team").map(String::as_str), Some("red"));
    assert_eq!(origin.job_definition_id.as_ref().map(|id| id.as_str()), Some("nightly"));
    assert_eq!((origin.scheduled_for, origin.trace.as_ref()), (Some(planned), Some(&trace)));
    assert_eq!((origin.retry_of, origin.external_id.as_ref()), (None, None));
}

async fn fields_that_are_not_set_have_their_defaults(harness: Harness) {
    let record = stored(&harness).await;
    let spec = &record.spec;
    assert_eq!((record.key.namespace.as_str(), spec.queue.as_str()), ("default", "default"));
    assert_eq!((spec.priority.get(), spec.max_attempts, spec.max_losses), (5, 5, 3));
    assert_eq!((spec.retry, spec.timeout, spec.expires_at), (RetryPolicy::DEFAULT, None, None));
    assert_eq!((spec.serial_key.as_ref(), spec.idempotency_key.as_ref()), (None, None));
    assert_eq!(spec.envelope.payload.as_ref(), b"null");
    assert_eq!(spec.envelope.content_type, ContentType::JSON);
    assert!(spec.origin().labels.is_empty() && spec.origin().task_group_id.is_none());
}

async fn a_type_with_defaults_of_its_own_has_them_alone_and_in_a_mixed_batch(harness: Harness) {
    let prompt = || NewTask::new(PROMPT_TASK_TYPE);
    let asked = vec![
        prompt(),
        prompt().session_id("talk 3"),
        task().session_id("talk 3"),
        prompt().max_attempts(5).max_losses(3),
    ];
    let alone = harness.enqueue(prompt()).await;
    let mut keys = harness.enqueue_all(asked).await;
    keys.push(alone);
    let mut found = Vec::new();
    for key in &keys {
        let spec = harness.record(key).await.spec;
        let serial_key = spec.serial_key.as_ref().map(|key| key.as_str().to_owned());
        assert_eq!(spec.retry, RetryPolicy::DEFAULT);
        found.push((spec.max_attempts, spec.max_losses, serial_key));
    }
    let session = Some("talk 3".to_owned());
    assert_eq!(found, [(1, 0, None), (1, 0, session), (5, 3, None), (5, 3, None), (1, 0, None)]);
}

async fn a_task_retried_as_new_keeps_its_numbers_not_the_defaults_of_its_type(harness: Harness) {
    let prompt = NewTask::new(PROMPT_TASK_TYPE).max_attempts(4).max_losses(2).priority(7);
    let old = harness.enqueue(prompt.retry(RetryPolicy::Fixed { delay: seconds(3) })).await;
    harness.store.cancel(&old).await.expect("it has not ended");
    let again = harness.store.retry(&old).await.expect("it has ended");
    let (old, again) = (harness.record(&old).await.spec, harness.record(&again.key).await.spec);
    assert_eq!((again.max_attempts, again.max_losses, again.priority.get()), (4, 2, 7));
    assert_eq!(again.retry, old.retry);
}

async fn a_new_task_has_version_one_and_no_history(harness: Harness) {
    let now = harness.now().await;
    let record = stored(&harness).await;
    assert_eq!((record.version, record.renewals), (Version(1), 0));
    assert_eq!((record.attempt, record.executions, record.failures, record.losses), (0, 0, 0, 0));
    assert_eq!((record.created_at, record.updated_at), (now, now));
    assert_eq!((record.first_started_at, record.finished_at), (None, None));
    assert!(record.lease.is_none() && record.assignment.is_none() && record.attempts.is_empty());
    assert!(record.last_error.is_none() && record.result.is_none() && record.progress.is_none());
    assert_eq!((record.cause, record.continuation), (None, Continuation::None));
}

async fn a_task_without_a_time_is_queued_and_due_immediately(harness: Harness) {
    let record = stored(&harness).await;
    assert_eq!((record.state, record.ready_at), (TaskState::Queued, harness.now().await));
}

async fn a_task_with_a_delay_is_scheduled_for_then(harness: Harness) {
    let key = harness.enqueue(task().delay(Duration::from_millis(1500))).await;
    let record = harness.record(&key).await;
    let due = harness.now().await.saturating_add(Duration::from_millis(1500));
    assert_eq!((record.state, record.ready_at), (TaskState::Scheduled, due));
    assert_eq!(record.next_run_at(), Some(due));
}

async fn a_task_with_a_future_time_is_scheduled_for_exactly_then(harness: Harness) {
    let due = harness.now().await.saturating_add(Duration::from_micros(1));
    let record = harness.record(&harness.enqueue(task().run_at(due)).await).await;
    assert_eq!((record.state, record.ready_at), (TaskState::Scheduled, due));
}

async fn a_past_due_time_means_immediately(harness: Harness) {
    let now = harness.now().await;
    for instant in [now, now.saturating_sub(seconds(86_400))] {
        let record = harness.record(&harness.enqueue(task().run_at(instant)).await).await;
        assert_eq!((record.state, record.ready_at), (TaskState::Queued, now));
    }
}

async fn a_delay_of_zero_means_immediately(harness: Harness) {
    let record = harness.record(&harness.enqueue(task().delay(Duration::ZERO)).await).await;
    assert_eq!((record.state, record.ready_at), (TaskState::Queued, harness.now().await));
}

async fn a_payload_that_is_not_json_comes_back_byte_for_byte(harness: Harness) {
    let bytes: Vec<u8> = (0..=255).collect();
    let kind = ContentType::other("application/octet-stream");
    let key = harness.enqueue(task().payload(bytes.clone(), kind.clone())).await;
    let leased = harness.lease_one().await;
    assert_eq!(leased.lease.key, key);
    let envelope = &leased.record.spec.envelope;
    assert_eq!((envelope.payload.as_ref(), &envelope.content_type), (bytes.as_slice(), &kind));
}

async fn a_batch_is_answered_in_the_order_of_its_members(harness: Harness) {
    let tasks = (0..20_u8).map(|number| task().priority(number % 10)).collect();
    let keys = harness.enqueue_all(tasks).await;
    assert_eq!(keys.len(), 20);
    for (number, key) in (0..20_u8).zip(&keys) {
        assert_eq!(harness.record(key).await.spec.priority.get(), number % 10);
    }
}

async fn a_batch_may_go_to_many_queues_and_namespaces(harness: Harness) {
    let places = [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")];
    let tasks = places.iter().map(|(space, name)| task().namespace(*space).queue(*name)).collect();
    for ((space, name), key) in places.iter().zip(harness.enqueue_all(tasks).await) {
        let record = harness.record(&key).await;
        assert_eq!((record.key.namespace.as_str(), record.spec.queue.as_str()), (*space, *name));
    }
}

async fn ids_grow_with_each_task_of_a_namespace(harness: Harness) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.extend(harness.enqueue_all(vec![task(); 3]).await.into_iter().map(|key| key.id));
    }
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
}

async fn an_empty_batch_is_fine_and_stores_nothing(harness: Harness) {
    assert!(harness.store.enqueue_batch(vec![]).await.expect("nothing is wrong with it").is_empty());
    assert_eq!(harness.total("default").await, 0);
}

async fn one_invalid_member_refuses_the_whole_batch_and_is_named(harness: Harness) {
    let batch = vec![task(), task().queue("mail"), task().priority(10), task()];
    let refusal = harness.store.enqueue_batch(batch).await.expect_err("there is no priority 10");
    let Error::Invalid(invalid) = refusal else { panic!("{refusal:?}") };
    assert_eq!((invalid.index, invalid.field), (Some(2), "priority"));
    assert_eq!(invalid.problem, Problem::OutOfRange { value: 10, min: 0, max: 9 });
    assert_eq!(harness.total("default").await, 0);
    assert!(harness.lease_in("default", &["default", "mail"], 10).await.is_empty());
}

async fn a_task_that_is_already_expired_is_accepted_but_never_started(harness: Harness) {
    let key = harness.enqueue(task().expires_at(harness.now().await)).await;
    assert_eq!(harness.record(&key).await.state, TaskState::Queued);
    assert!(harness.lease(1).await.is_empty());
}

async fn stored(harness: &Harness) -> TaskRecord {
    harness.record(&harness.enqueue(task()).await).await
}

cases![
    a_task_is_stored_as_requested,
    the_origin_of_a_task_is_stored_with_it,
    fields_that_are_not_set_have_their_defaults,
    a_type_with_defaults_of_its_own_has_them_alone_and_in_a_mixed_batch,
    a_task_retried_as_new_keeps_its_numbers_not_the_defaults_of_its_type,
    a_new_task_has_version_one_and_no_history,
    a_task_without_a_time_is_queued_and_due_immediately,
    a_task_with_a_delay_is_scheduled_for_then,
    a_task_with_a_future_time_is_scheduled_for_exactly_then,
    a_past_due_time_means_immediately,
    a_delay_of_zero_means_immediately,
    a_payload_that_is_not_json_comes_back_byte_for_byte,
    a_batch_is_answered_in_the_order_of_its_members,
    a_batch_may_go_to_many_queues_and_namespaces,
    ids_grow_with_each_task_of_a_namespace,
    an_empty_batch_is_fine_and_stores_nothing,
    one_invalid_member_refuses_the_whole_batch_and_is_named,
    a_task_that_is_already_expired_is_accepted_but_never_started,
];
