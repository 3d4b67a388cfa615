//! Specs and records with every field in every shape the types allow, sensible or not.
//!
//! Boxed: unboxed, a record's strategy is larger than a test's stack.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use weaver_core::id::{Epoch, LeaseToken, TaskId, TaskKey, Version};
use weaver_core::name::{
    ExternalId, IdempotencyKey, JobDefinitionId, Namespace, QueueName, SerialKey, SessionId, TaskGroupId,
    TaskType, WorkerId,
};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{
    ATTEMPTS_KEPT, Assignment, AttemptOutcome, AttemptRecord, Attempts, CancelReason, Cause, ContentType,
    Continuation, Dispatch, HeldLease, Origin, Priority, Progress, ReadyBy, TaskEnvelope, TaskRecord,
    TaskSpec, TaskState, TraceContext,
};
use weaver_core::time::Timestamp;

pub(crate) fn name() -> BoxedStrategy<String> {
    prop_oneof![8 => "[a-z0-9_/-]{1,24}", 1 => Just("default".to_owned()), 1 => "[ -~é日]{1,80}"].boxed()
}

macro_rules! names {
    ($($function:ident: $name:ident),*) => {
        $(pub(crate) fn $function() -> BoxedStrategy<$name> {
            name().prop_map(|text| $name::new(text).expect("the strategy makes names")).boxed()
        })*
    };
}

names!(queue_name: QueueName, task_type: TaskType, worker_id: WorkerId, namespace: Namespace);

pub(crate) fn bytes() -> BoxedStrategy<Bytes> {
    prop_oneof![9 => vec(any::<u8>(), 0..64), 1 => vec(any::<u8>(), 0..5000)].prop_map(Bytes::from).boxed()
}

pub(crate) fn timestamp() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        8 => 1_700_000_000_000_000..1_900_000_000_000_000_i64,
        1 => 0..=Timestamp::MAX.as_micros(),
        1 => prop_oneof![Just(0), Just(Timestamp::MAX.as_micros())],
    ]
    .prop_map(Timestamp::from_micros)
}

pub(crate) fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..100_000_u64).prop_map(Duration::from_secs),
        4 => (0..100_000_000_u64).prop_map(Duration::from_millis),
        1 => (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
    ]
}

fn error_text() -> impl Strategy<Value = Arc<str>> {
    ".{0,60}".prop_map(Arc::from)
}

fn retry_policy() -> impl Strategy<Value = RetryPolicy> {
    prop_oneof![
        Just(RetryPolicy::DEFAULT),
        Just(RetryPolicy::None),
        duration().prop_map(|delay| RetryPolicy::Fixed { delay }),
        (duration(), any::<u32>(), duration(), any::<bool>())
            .prop_map(|(base, factor, cap, jitter)| RetryPolicy::Exponential { base, factor, cap, jitter }),
    ]
}

fn content_type() -> impl Strategy<Value = ContentType> {
    prop_oneof![3 => Just(ContentType::JSON), 1 => name().prop_map(ContentType::other)]
}

fn envelope() -> impl Strategy<Value = TaskEnvelope> {
    (task_type(), bytes(), content_type()).prop_map(|(task_type, payload, content_type)| TaskEnvelope {
        task_type,
        payload,
        content_type,
    })
}

fn trace() -> impl Strategy<Value = TraceContext> {
    (".{0,60}", of(".{0,60}")).prop_map(|(traceparent, tracestate)| TraceContext { traceparent, tracestate })
}

fn origin() -> BoxedStrategy<Origin> {
    (
        (of(name()), of(name()), btree_map(name(), name(), 0..5), of(name())),
        (of(timestamp()), of(any::<u64>().prop_map(TaskId)), of(trace()), of(name()), of(any::<bool>())),
    )
        .prop_map(|((group, session, labels, definition), rest)| {
            let (scheduled_for, retry_of, trace, external, assigns) = rest;
            const NAMES: &str = "the strategy makes names";
            Origin {
                task_group_id: group.map(|text| TaskGroupId::new(text).expect(NAMES)),
                session_id: session.map(|text| SessionId::new(text).expect(NAMES)),
                labels,
                job_definition_id: definition.map(|text| JobDefinitionId::new(text).expect(NAMES)),
                scheduled_for,
                retry_of,
                retry_of_external_id: None,
                trace,
                dispatch: assigns.map(|assigns| if assigns { Dispatch::Assign } else { Dispatch::Pull }),
                external_id: external.map(|text| ExternalId::new(text).expect(NAMES)),
            }
        })
        .boxed()
}

fn budget() -> impl Strategy<Value = u32> {
    prop_oneof![Just(3), Just(5), 0..10_000_u32, Just(u32::MAX)]
}

pub(crate) fn spec() -> BoxedStrategy<TaskSpec> {
    (
        (queue_name(), envelope(), 0..=9_u8, budget(), budget(), retry_policy()),
        (of(duration()), of(timestamp()), of(name()), of(name()), of(origin())),
    )
        .prop_map(|((queue, envelope, priority, max_attempts, max_losses, retry), rest)| {
            let (timeout, expires_at, serial_key, idempotency_key, origin) = rest;
            TaskSpec {
                queue,
                envelope,
                priority: Priority::new(priority).expect("0 to 9"),
                max_attempts,
                max_losses,
                retry,
                timeout,
                expires_at,
                serial_key: serial_key.map(|text| SerialKey::new(text).expect("a name")),
                idempotency_key: idempotency_key.map(|text| IdempotencyKey::new(text).expect("a name")),
                origin: origin.and_then(Origin::boxed),
            }
        })
        .boxed()
}

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(vec![
        Cause::Failed,
        Cause::TimedOut,
        Cause::Lost,
        Cause::Released,
        Cause::Snoozed,
        Cause::Cancelled(CancelReason::User),
        Cause::Cancelled(CancelReason::Handler),
        Cause::Cancelled(CancelReason::Expired),
        Cause::Cancelled(CancelReason::Replaced),
    ])
}

fn outcome() -> impl Strategy<Value = AttemptOutcome> {
    prop::sample::select(vec![
        AttemptOutcome::Succeeded,
        AttemptOutcome::Failed,
        AttemptOutcome::TimedOut,
        AttemptOutcome::Lost,
        AttemptOutcome::Released,
        AttemptOutcome::Snoozed,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Orphaned,
    ])
}

fn attempt() -> BoxedStrategy<AttemptRecord> {
    (any::<u32>(), worker_id(), any::<u64>(), of(timestamp()), timestamp(), outcome(), of(error_text()))
        .prop_map(|(attempt, worker, fence, started_at, ended_at, outcome, error)| AttemptRecord {
            attempt,
            worker,
            fence: Version(fence),
            started_at,
            ended_at,
            outcome,
            error,
        })
        .boxed()
}

fn lease() -> BoxedStrategy<HeldLease> {
    (worker_id(), any::<u128>(), any::<u64>(), timestamp(), timestamp(), duration())
        .prop_map(|(worker, token, epoch, started_at, expires_at, ttl)| HeldLease {
            worker,
            token: LeaseToken(token),
            epoch: Epoch(epoch),
            started_at,
            expires_at,
            ttl,
        })
        .boxed()
}

fn assignment() -> impl Strategy<Value = Assignment> {
    (worker_id(), any::<u64>(), timestamp()).prop_map(|(worker, epoch, assigned_at)| Assignment {
        worker,
        epoch: Epoch(epoch),
        assigned_at,
    })
}

fn progress() -> impl Strategy<Value = Box<Progress>> {
    (0.0..=1.0_f32, ".{0,40}").prop_map(|(fraction, message)| Box::new(Progress { fraction, message }))
}

fn continuation() -> impl Strategy<Value = Continuation> {
    prop_oneof![
        Just(Continuation::None),
        timestamp().prop_map(|check_deadline_at| Continuation::Confirming { check_deadline_at })
    ]
}

/// What a record's last error is, beside its attempts.
#[derive(Debug, Clone)]
enum LastError {
    None,
    OfLastAttempt,
    Own(Arc<str>),
}

fn last_error() -> impl Strategy<Value = LastError> {
    prop_oneof![Just(LastError::None), Just(LastError::OfLastAttempt), error_text().prop_map(LastError::Own)]
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0), 3 => 0..300_u32, 1 => any::<u32>()]
}

pub(crate) fn record() -> BoxedStrategy<TaskRecord> {
    (
        (namespace(), any::<u64>(), spec(), prop::sample::select(TaskState::ALL.to_vec()), of(cause())),
        (any::<u64>(), number(), number(), number(), number(), number()),
        (timestamp(), timestamp(), timestamp(), of(timestamp()), of(timestamp())),
        (last_error(), of(lease()), of(assignment()), continuation(), of(bytes()), of(progress())),
        vec(attempt(), 0..=ATTEMPTS_KEPT),
    )
        .prop_map(|(identity, counters, times, rest, attempts)| {
            let (namespace, id, spec, state, cause) = identity;
            let (version, renewals, executions, failures, losses, attempt) = counters;
            let (created_at, ready_at, updated_at, first_started_at, finished_at) = times;
            let (last_error, lease, assignment, continuation, result, progress) = rest;
            let last_error = match last_error {
                LastError::None => None,
                LastError::OfLastAttempt => attempts.last().and_then(|attempt| attempt.error.clone()),
                LastError::Own(text) => Some(text),
            };
            TaskRecord {
                key: TaskKey::new(namespace, TaskId(id)),
                spec: Arc::new(spec),
                state,
                cause,
                version: Version(version),
                renewals: renewals.into(),
                executions,
                failures,
                losses,
                attempt,
                ready_at,
                ready_by: ReadyBy::Span,
                created_at,
                updated_at,
                first_started_at,
                finished_at,
                last_error,
                lease,
                assignment,
                continuation,
                result,
                progress,
                attempts: Attempts::from_oldest_first(attempts),
            }
        })
        .boxed()
}
