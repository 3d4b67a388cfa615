//! Invalid input: every field, number and size is validated, and nothing of a refused call is stored.

use std::time::Duration;

use bytes::Bytes;
use weaver_core::error::{Invalid, Problem};
use weaver_core::lease::{LEASE_BATCH_MAX, LEASE_TTL_MAX, LEASE_TTL_MIN, LeaseRequest, Renewal};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::Namespace;
use weaver_core::ports::{
    APPEND_MAX_BYTES, Beat, DocumentKey, ENTRY_MAX_BYTES, Expect, RunnerKey, Scope, Seq, StreamKey, TaskQuery,
};
use weaver_core::retry::{DELAY_MAX, RetryPolicy};
use weaver_core::task::{ContentType, NewTask, TaskState};
use weaver_core::time::Timestamp;

use super::answers::{assert_page_limit_is_refused, refusal};
use super::cases;
use weaver_testkit::harness::{Harness, namespace, queue, seconds, task, worker};

cases![
    a_name_must_not_be_empty_too_long_or_unprintable,
    labels_are_checked_like_names,
    a_payload_over_the_limit_is_refused_and_one_at_the_limit_is_not,
    a_priority_is_a_number_from_0_to_9,
    budgets_are_neither_zero_nor_huge,
    a_timeout_is_neither_zero_nor_huge,
    a_task_is_delayed_or_planned_but_not_both,
    a_delay_beyond_the_end_of_time_is_refused,
    a_delay_beyond_a_year_is_refused,
    a_retry_delay_beyond_a_year_is_refused,
    one_bad_member_refuses_the_whole_batch_and_is_named,
    a_batch_over_the_limit_is_refused,
    an_empty_batch_does_nothing,
    a_lease_call_must_request_1_to_1000_tasks,
    a_lease_lasts_ten_milliseconds_to_a_day,
    a_lease_call_must_name_a_queue,
    a_page_has_one_to_a_thousand_items,
    a_search_must_scan_at_least_one_task,
    a_documents_kind_and_id_are_names,
    a_stream_has_a_name,
    an_append_over_the_limit_is_refused,
    a_heartbeat_over_the_limit_is_refused,
];

/// A field of a task, and a task with a text in it.
type TextField = (&'static str, fn(String) -> NewTask);

const TEXT_FIELDS: [TextField; 9] = [
    ("task_type", |text| NewTask::new(text)),
    ("namespace", |text| task().namespace(text)),
    ("queue", |text| task().queue(text)),
    ("serial_key", |text| task().serial_key(text)),
    ("idempotency_key", |text| task().idempotency_key(text)),
    ("task_group_id", |text| task().task_group_id(text)),
    ("session_id", |text| task().session_id(text)),
    ("job_definition_id", |text| task().job_definition_id(text)),
    ("content_type", |text| task().payload(Bytes::new(), ContentType::other(text))),
];

/// Enqueues a task beside a good one; both must be refused, and nothing stored.
async fn refused(harness: &Harness, bad: NewTask) -> Invalid {
    let refused = refusal(harness.store.enqueue_batch(vec![task(), bad]).await);
    assert_eq!(refused.index, Some(1), "the message names the member: {refused}");
    assert_nothing_is_stored(harness).await;
    refused
}

async fn assert_nothing_is_stored(harness: &Harness) {
    let namespaces = harness.store.list_namespaces(None, 10).await.expect("the store answers");
    assert_eq!(namespaces.items, []);
    let scope = Scope::Namespace(Namespace::default());
    let counts = harness.store.counts(scope).await.expect("the store answers");
    assert_eq!(counts.values.total(), 0);
}

async fn a_name_must_not_be_empty_too_long_or_unprintable(harness: Harness) {
    let long = "x".repeat(256);
    let texts = [
        ("", Problem::Empty),
        (long.as_str(), Problem::TooLong { bytes: 256, max_bytes: 255 }),
        ("a\nb", Problem::ControlCharacter { at_byte: 1 }),
        ("nul\0", Problem::ControlCharacter { at_byte: 3 }),
    ];
    for (field, with) in TEXT_FIELDS {
        for (text, problem) in &texts {
            let refused = refused(&harness, with((*text).to_owned())).await;
            assert_eq!((refused.field, &refused.problem), (field, problem));
        }
    }
    let longest = "é".repeat(127);
    for (field, with) in TEXT_FIELDS {
        let answers = harness.store.enqueue_batch(vec![with(longest.clone())]).await;
        let answers = answers.unwrap_or_else(|error| panic!("{field} of 254 bytes: {error}"));
        assert!(answers[0].is_ok(), "{field}");
    }
}

async fn labels_are_checked_like_names(harness: Harness) {
    for bad in [task().label("", "value"), task().label("name", ""), task().label("a\tb", "value")] {
        assert_eq!(refused(&harness, bad).await.field, "labels");
    }
    let many = (0..65).fold(task(), |task, number| task.label(format!("label-{number}"), "value"));
    assert_eq!(refused(&harness, many).await.field, "labels");
}

async fn a_payload_over_the_limit_is_refused_and_one_at_the_limit_is_not(harness: Harness) {
    let max_bytes = harness.store.limits().max_payload_bytes;
    let sized = |bytes| task().payload(vec![b'x'; bytes], ContentType::other("text/plain"));
    let refused = refused(&harness, sized(max_bytes + 1)).await;
    let problem = Problem::TooLong { bytes: max_bytes + 1, max_bytes };
    assert_eq!((refused.field, &refused.problem), ("payload", &problem));
    let message = refused.to_string();
    assert!(message.contains(&max_bytes.to_string()) && message.contains("member 1"), "{message}");
    let key = harness.enqueue(sized(max_bytes)).await;
    assert_eq!(harness.record(&key).await.spec.envelope.payload.len(), max_bytes);
}

async fn a_priority_is_a_number_from_0_to_9(harness: Harness) {
    for number in [10, 255] {
        let refused = refused(&harness, task().priority(number)).await;
        let problem = Problem::OutOfRange { value: number.into(), min: 0, max: 9 };
        assert_eq!((refused.field, refused.problem), ("priority", problem));
    }
}

async fn budgets_are_neither_zero_nor_huge(harness: Harness) {
    for (value, bad) in [(0, task().max_attempts(0)), (u32::MAX, task().max_attempts(u32::MAX))] {
        let refused = refused(&harness, bad).await;
        let problem = Problem::OutOfRange { value: value.into(), min: 1, max: 10_000 };
        assert_eq!((refused.field, refused.problem), ("max_attempts", problem));
    }
    let refused = refused(&harness, task().max_losses(u32::MAX)).await;
    assert_eq!(refused.field, "max_losses");
    harness.enqueue(task().max_losses(0)).await;
}

async fn a_timeout_is_neither_zero_nor_huge(harness: Harness) {
    for span in [Duration::ZERO, Duration::from_micros(999), DELAY_MAX + seconds(1), Duration::MAX] {
        let refused = refused(&harness, task().timeout(span)).await;
        assert_eq!(refused.field, "timeout");
        assert!(matches!(refused.problem, Problem::SpanOutOfRange { value, .. } if value == span));
    }
}

async fn a_task_is_delayed_or_planned_but_not_both(harness: Harness) {
    let both = task().delay(seconds(1)).run_at(harness.now().await);
    let refused = refused(&harness, both).await;
    assert_eq!((refused.field, refused.problem), ("delay", Problem::Conflicts { other: "run_at" }));
}

async fn a_delay_beyond_the_end_of_time_is_refused(harness: Harness) {
    let refused = refused(&harness, task().delay(Duration::MAX)).await;
    let problem = Problem::TimeOverflow { latest: Timestamp::MAX };
    assert_eq!((refused.field, refused.problem), ("delay", problem));
}

async fn a_delay_beyond_a_year_is_refused(harness: Harness) {
    let refused = refused(&harness, task().delay(DELAY_MAX + seconds(1))).await;
    assert_eq!(refused.field, "delay");
    assert!(matches!(refused.problem, Problem::SpanOutOfRange { max: DELAY_MAX, .. }));
    harness.enqueue(task().delay(DELAY_MAX)).await;
}

async fn a_retry_delay_beyond_a_year_is_refused(harness: Harness) {
    let long = DELAY_MAX + seconds(1);
    let policies = [
        RetryPolicy::Fixed { delay: Duration::MAX },
        RetryPolicy::Exponential { base: seconds(1), factor: 2, cap: long, jitter: true },
        RetryPolicy::Exponential { base: long, factor: 2, cap: seconds(1), jitter: false },
    ];
    for policy in policies {
        let refused = refused(&harness, task().retry(policy)).await;
        assert_eq!(refused.field, "retry", "{policy:?}");
    }
}

async fn one_bad_member_refuses_the_whole_batch_and_is_named(harness: Harness) {
    let batch = vec![task(), task().namespace("other"), task(), task().queue(""), task().priority(77)];
    let refused = refusal(harness.store.enqueue_batch(batch).await);
    assert_eq!((refused.index, refused.field), (Some(3), "queue"));
    assert_nothing_is_stored(&harness).await;
}

async fn a_batch_over_the_limit_is_refused(harness: Harness) {
    let max = harness.store.limits().max_batch;
    let over = |refused: &Invalid| {
        let problem = Problem::OutOfRange { value: max as u64 + 1, min: 0, max: max as u64 };
        assert_eq!(refused.problem, problem, "{refused}");
    };
    let refused = refusal(harness.store.enqueue_batch(vec![task(); max + 1]).await);
    assert_eq!((refused.index, refused.field), (None, "tasks"));
    over(&refused);
    assert_nothing_is_stored(&harness).await;
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let transition = decide(&leased.record, Command::Cancel, harness.now().await).expect("it runs");
    over(&refusal(harness.store.commit(vec![transition; max + 1], None).await));
    over(&refusal(harness.store.renew(vec![Renewal::of(leased.lease.clone()); max + 1]).await));
    over(&refusal(harness.store.confirm_stopped(vec![leased.lease; max + 1]).await));
    assert_eq!(harness.record(&key).await, leased.record, "nothing of it was done");
}

async fn an_empty_batch_does_nothing(harness: Harness) {
    assert_eq!(harness.store.enqueue_batch(vec![]).await, Ok(vec![]));
    assert_eq!(harness.store.commit(vec![], None).await, Ok(vec![]));
    assert_eq!(harness.store.renew(vec![]).await, Ok(vec![]));
    assert_eq!(harness.store.confirm_stopped(vec![]).await, Ok(()));
    assert_eq!(harness.store.get_tasks(&[]).await, Ok(vec![]));
    assert_eq!(harness.store.resolve(&Namespace::default(), &[]).await, Ok(vec![]));
    assert_nothing_is_stored(&harness).await;
}

/// A lease call that must be refused; the one task there is must still be waiting.
async fn refused_lease(harness: &Harness, request: LeaseRequest) -> Invalid {
    let key = harness.enqueue_or_find(task().idempotency_key("the one")).await.key;
    let refused = refusal(harness.store.lease(request).await);
    assert_eq!(harness.record(&key).await.state, TaskState::Queued);
    refused
}

async fn a_lease_call_must_request_1_to_1000_tasks(harness: Harness) {
    for max in [0, LEASE_BATCH_MAX + 1, u32::MAX] {
        let refused = refused_lease(&harness, harness.request(max)).await;
        let problem = Problem::OutOfRange { value: max.into(), min: 1, max: LEASE_BATCH_MAX.into() };
        assert_eq!((refused.field, refused.problem), ("max", problem));
    }
    assert_eq!(harness.lease(LEASE_BATCH_MAX).await.len(), 1);
}

async fn a_lease_lasts_ten_milliseconds_to_a_day(harness: Harness) {
    let spans = [Duration::ZERO, LEASE_TTL_MIN / 2, LEASE_TTL_MAX + Duration::from_micros(1), Duration::MAX];
    for ttl in spans {
        let refused = refused_lease(&harness, LeaseRequest { ttl, ..harness.request(1) }).await;
        assert_eq!(refused.field, "ttl");
        assert!(matches!(refused.problem, Problem::SpanOutOfRange { value, .. } if value == ttl));
    }
    for ttl in [LEASE_TTL_MIN, LEASE_TTL_MAX] {
        harness.enqueue(task()).await;
        let leased = harness.lease_as(LeaseRequest { ttl, ..harness.request(1) }).await;
        assert_eq!(leased[0].lease.ttl, ttl);
    }
}

async fn a_lease_call_must_name_a_queue(harness: Harness) {
    let refused = refused_lease(&harness, LeaseRequest { queues: vec![], ..harness.request(1) }).await;
    assert_eq!((refused.field, refused.problem), ("queues", Problem::Empty));
}

async fn a_page_has_one_to_a_thousand_items(harness: Harness) {
    let space = namespace("any");
    for limit in [0, 1001, u32::MAX] {
        let query = TaskQuery { limit, ..TaskQuery::new(space.clone()) };
        let refusals = [
            refusal(harness.store.list_tasks(query).await),
            refusal(harness.store.list_groups(&space, None, limit).await),
            refusal(harness.store.list_namespaces(None, limit).await),
            refusal(harness.store.list_runners(&space, None, limit).await),
            refusal(harness.store.list_documents(&space, "kind", "", None, limit).await),
        ];
        refusals.iter().for_each(|refused| assert_page_limit_is_refused(refused, limit));
    }
    let query = TaskQuery { limit: 1000, ..TaskQuery::new(space) };
    assert!(harness.store.list_tasks(query).await.is_ok());
}

async fn a_search_must_scan_at_least_one_task(harness: Harness) {
    let query = TaskQuery { scan_max: 0, ..TaskQuery::new(Namespace::default()) };
    assert_eq!(refusal(harness.store.list_tasks(query).await).field, "scan_max");
}

/// Texts that are not valid names.
fn no_names() -> [String; 3] {
    [String::new(), "x".repeat(256), "a\u{7f}b".to_owned()]
}

async fn a_documents_kind_and_id_are_names(harness: Harness) {
    for text in no_names() {
        let keys = [
            ("kind", DocumentKey::new(Namespace::default(), text.clone(), "id")),
            ("id", DocumentKey::new(Namespace::default(), "kind", text)),
        ];
        for (field, key) in keys {
            let answer = harness.store.put_document(&key, Bytes::new(), Expect::Anything, None).await;
            assert_eq!(refusal(answer).field, field, "{key:?}");
        }
    }
    assert_nothing_is_stored(&harness).await;
}

async fn a_stream_has_a_name(harness: Harness) {
    for text in no_names() {
        let stream = StreamKey::new(Namespace::default(), text);
        let answer = harness.store.append_entries(&stream, &[Bytes::from_static(b"entry")]).await;
        assert_eq!(refusal(answer).field, "stream", "{stream:?}");
    }
    assert_nothing_is_stored(&harness).await;
}

async fn an_append_over_the_limit_is_refused(harness: Harness) {
    let stream = StreamKey::new(Namespace::default(), "stream");
    let full = Bytes::from(vec![b'x'; ENTRY_MAX_BYTES]);
    let fits = APPEND_MAX_BYTES / ENTRY_MAX_BYTES;
    let mut bodies = vec![full; fits];
    bodies.push(Bytes::from_static(b"x"));
    let refused = refusal(harness.store.append_entries(&stream, &bodies).await);
    let problem = Problem::TooLong { bytes: APPEND_MAX_BYTES + 1, max_bytes: APPEND_MAX_BYTES };
    assert_eq!(refused.problem, problem);
    assert_nothing_is_stored(&harness).await;
    let stored = harness.store.append_entries(&stream, &bodies[..fits]).await;
    assert_eq!(stored, Ok(Seq(fits as u64)));
}

async fn a_heartbeat_over_the_limit_is_refused(harness: Harness) {
    let space = Namespace::default();
    let beat = Beat {
        key: RunnerKey { namespace: space.clone(), runner_id: worker("r") },
        project_root: None,
        started_at: Timestamp::MIN,
        queues: vec![],
        types: None,
        capacity: 1,
        running: 0,
        draining: false,

        every: None,
    };
    let bad = [
        ("queues", Beat { queues: vec![queue("q"); Beat::NAMES_MAX + 1], ..beat.clone() }),
        ("project_root", Beat { project_root: Some("x".repeat(4097)), ..beat.clone() }),
    ];
    for (field, bad) in bad {
        let refused = refusal(harness.store.beat(vec![beat.clone(), bad]).await);
        assert_eq!((refused.field, refused.index), (field, Some(1)));
    }
    let runners = harness.store.list_runners(&space, None, 10).await.expect("the store answers");
    assert_eq!(runners.items, [], "nothing of a refused batch is kept");
}
