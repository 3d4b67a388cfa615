//! The bytes of fixed specs and a fixed status. They are on people's disks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weaver_core::id::{Epoch, LeaseToken, TaskId, TaskKey, Version};
use weaver_core::limits::Limits;
use weaver_core::name::{ExternalId, Namespace, WorkerId};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{
    Assignment, AttemptOutcome, AttemptRecord, Attempts, Cause, ContentType, Continuation, HeldLease,
    NewTask, Origin, Progress, ReadyBy, TaskRecord, TaskSpec, TaskState, TraceContext,
};
use weaver_core::time::Timestamp;
use weaver_embedded::codec::decode_spec;

use crate::round_trips::{spec_bytes, status_bytes, status_read_like};

const CHANGED: &str = "the format changed, and files written before cannot be read any more: add a new \
    format version beside this one instead, with golden bytes of its own, and keep reading this one";

const CREATED_AT: Timestamp = Timestamp::from_micros(1_700_000_000_123_456);

#[test]
fn a_spec_with_every_field_has_the_bytes_of_version_1() {
    let bytes = spec_bytes(&queued(full_spec()));
    assert_eq!(hex(&bytes), SPEC, "{CHANGED}");
}

#[test]
fn a_plain_spec_has_the_bytes_of_version_1() {
    let bytes = spec_bytes(&queued(plain_spec()));
    assert_eq!(hex(&bytes), PLAIN_SPEC, "{CHANGED}");
}

#[test]
fn a_status_with_every_field_has_the_bytes_of_version_1() {
    assert_eq!(hex(&status_bytes(&everything())), STATUS, "{CHANGED}");
}

#[test]
fn the_bytes_of_version_1_are_read() {
    let record = everything();
    assert_eq!(status_read_like(&record, &unhex(STATUS)).as_ref(), Ok(&record), "{CHANGED}");
    assert_eq!(decode_spec(&unhex(SPEC)), Ok((full_spec(), CREATED_AT)), "{CHANGED}");
    assert_eq!(decode_spec(&unhex(PLAIN_SPEC)), Ok((plain_spec(), CREATED_AT)), "{CHANGED}");
}

#[test]
fn a_task_that_was_just_accepted_takes_under_40_bytes_and_a_running_one_under_90() {
    let mut record = queued(plain_spec());
    assert_eq!(status_bytes(&record).len(), 5);
    record.state = TaskState::Running;
    record.version = Version(2);
    (record.executions, record.attempt, record.renewals) = (1, 1, 3);
    record.updated_at = later(1_234_567);
    record.first_started_at = Some(later(1_234_567));
    record.lease = Some(HeldLease { epoch: Epoch(0), ..held_lease() });
    let running = status_bytes(&record).len();
    assert!(running < 90, "{running}");
}

fn later(micros: i64) -> Timestamp {
    Timestamp::from_micros(CREATED_AT.as_micros() + micros)
}

fn worker() -> WorkerId {
    WorkerId::new("build-host-17.4242").expect("a name")
}

fn plain_spec() -> TaskSpec {
    let task = NewTask::new("send_email").payload(&b"{\"to\":1}"[..], ContentType::JSON);
    let valid = task.validate(&Limits::default()).expect("valid");
    Arc::unwrap_or_clone(valid.spec)
}

fn full_spec() -> TaskSpec {
    let retry = RetryPolicy::Exponential {
        base: Duration::from_millis(250),
        factor: 3,
        cap: Duration::from_secs(90),
        jitter: false,
    };
    let trace = TraceContext { traceparent: "00-ab-cd-01".into(), tracestate: Some("v=1".into()) };
    let task = NewTask::new("render")
        .payload(&b"\x00\x01\xff"[..], ContentType::other("application/octet-stream"))
        .queue("video")
        .priority(2)
        .max_attempts(300)
        .max_losses(0)
        .retry(retry)
        .timeout(Duration::from_millis(1500))
        .expires_at(later(60_000_000))
        .serial_key("customer-7")
        .idempotency_key("order-1")
        .task_group_id("group")
        .session_id("session")
        .label("a", "1")
        .label("b", "日本")
        .job_definition_id("nightly")
        .scheduled_for(later(-5_000_000))
        .trace(trace);
    let mut spec = Arc::unwrap_or_clone(task.validate(&Limits::default()).expect("valid").spec);
    let mut origin = spec.origin().clone();
    origin.retry_of = Some(TaskId(300));
    origin.external_id = Some(ExternalId::new("task-001").expect("a name"));
    spec.origin = Origin::boxed(origin);
    spec
}

fn queued(spec: TaskSpec) -> TaskRecord {
    TaskRecord {
        key: TaskKey::new(Namespace::default(), TaskId(42)),
        spec: Arc::new(spec),
        state: TaskState::Queued,
        cause: None,
        version: Version(1),
        renewals: 0,
        executions: 0,
        failures: 0,
        losses: 0,
        attempt: 0,
        ready_at: CREATED_AT,
        ready_by: ReadyBy::Span,
        created_at: CREATED_AT,
        updated_at: CREATED_AT,
        first_started_at: None,
        finished_at: None,
        last_error: None,
        lease: None,
        assignment: None,
        continuation: Continuation::None,
        result: None,
        progress: None,
        attempts: Attempts::default(),
    }
}

fn held_lease() -> HeldLease {
    HeldLease {
        worker: worker(),
        token: LeaseToken(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        epoch: Epoch(3),
        started_at: later(2_000_000),
        expires_at: later(32_000_000),
        ttl: Duration::from_secs(30),
    }
}

fn attempt(number: u32, outcome: AttemptOutcome, error: Option<&str>) -> AttemptRecord {
    AttemptRecord {
        attempt: number,
        worker: worker(),
        fence: Version(u64::from(number) * 2),
        started_at: error.map(|_| later(100)),
        ended_at: later(900),
        outcome,
        error: error.map(Arc::from),
    }
}

fn everything() -> TaskRecord {
    let failed = attempt(2, AttemptOutcome::Failed, Some("no disk"));
    TaskRecord {
        state: TaskState::RetryScheduled,
        cause: Some(Cause::Failed),
        version: Version(300),
        renewals: 1,
        executions: 2,
        failures: 3,
        losses: 4,
        attempt: 5,
        ready_at: later(7_000_000),
        ready_by: ReadyBy::Span,
        updated_at: later(8),
        first_started_at: Some(later(9)),
        finished_at: Some(later(-1)),
        last_error: failed.error.clone(),
        lease: Some(held_lease()),
        assignment: Some(Assignment { worker: worker(), epoch: Epoch(4), assigned_at: later(10) }),
        continuation: Continuation::Confirming { check_deadline_at: later(11) },
        result: Some(Bytes::from_static(b"42")),
        progress: Some(Box::new(Progress { fraction: 0.5, message: "half".into() })),
        attempts: Attempts::from_oldest_first(vec![attempt(1, AttemptOutcome::Orphaned, None), failed]),
        ..queued(full_spec())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digits).collect()
}

const SPEC: &str = "01ff07c0c480c1c1c482030672656e646572030001ff05766964656f186170706c69636174696f6e2f6f63746574\
    2d73747265616d02ac0200020080e59a77035a000180cab5ee01809c9c390a637573746f6d65722d37076f72646572\
    2d31ff0567726f75700773657373696f6e0201610131016206e697a5e69cac076e696768746c79fface204ac020b\
    30302d61622d63642d30310103763d31087461736b2d303031";
const PLAIN_SPEC: &str = "010000c0c480c1c1c482030a73656e645f656d61696c087b22746f223a317d";
const STATUS: &str = "0115fffeac02010205030480bfd606101201126275696c642d686f73742d31372e34323432ffeeddccbbaa998877\
    66554433221100038092f401808ece1c1e00126275696c642d686f73742d31372e34323432041416023432000000\
    3f0468616c66020701126275696c642d686f73742d31372e3432343202880e3102126275696c642d686f73742d31\
    372e3432343204880ebf0c076e6f206469736b";
