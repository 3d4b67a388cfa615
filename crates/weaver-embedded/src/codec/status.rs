//! The mutable part of a task: state, lease, counters, attempts. It is written with every transition, so it
//! is small: absent fields cost a bit, instants are distances from `created_at` (which is in the spec), and a
//! task that was just enqueued takes five bytes.
//!
//! ```text
//! version │ state and cause (1 byte) │ presence (2 bytes) │ record version │ fields that are present
//! ```

mod attempts;
mod lease;
mod state;

use std::sync::Arc;

use bytes::Bytes;
use weaver_core::id::{TaskId, TaskKey, Version};
use weaver_core::name::Namespace;
use weaver_core::task::{Attempts, Continuation, Progress, TaskRecord, TaskSpec, TaskState};
use weaver_core::time::Timestamp;

use super::{FORMAT_VERSION, Reader, Undecodable, Writer};

const HAS_RENEWALS: u16 = 1;
/// Both counters of starts, which change together.
const HAS_STARTS: u16 = 1 << 1;
const HAS_FAILURES: u16 = 1 << 2;
const HAS_LOSSES: u16 = 1 << 3;
const HAS_READY_AT: u16 = 1 << 4;
const HAS_UPDATED_AT: u16 = 1 << 5;
const HAS_FIRST_STARTED_AT: u16 = 1 << 6;
const HAS_FINISHED_AT: u16 = 1 << 7;
const HAS_ERROR: u16 = 1 << 8;
/// The last error is the last attempt's, and is stored only there.
const HAS_ERROR_OF_ATTEMPT: u16 = 1 << 9;
const HAS_LEASE: u16 = 1 << 10;
const HAS_ASSIGNMENT: u16 = 1 << 11;
const HAS_CONTINUATION: u16 = 1 << 12;
const HAS_RESULT: u16 = 1 << 13;
const HAS_PROGRESS: u16 = 1 << 14;
const HAS_ATTEMPTS: u16 = 1 << 15;

/// Encodes what of a record is neither in its spec nor in its key.
pub fn encode_status(writer: &mut Writer, record: &TaskRecord) {
    let presence = presence(record);
    let (has, created_at) = (|bit: u16| presence & bit != 0, record.created_at);
    writer.u8(FORMAT_VERSION);
    writer.u8(state::byte_of(record.state, record.ready_by, record.cause));
    writer.u16(presence);
    writer.varint(record.version.0);
    if has(HAS_RENEWALS) {
        writer.varint(record.renewals);
    }
    if has(HAS_STARTS) {
        writer.varint(record.executions.into());
        writer.varint(record.attempt.into());
    }
    if has(HAS_FAILURES) {
        writer.varint(record.failures.into());
    }
    if has(HAS_LOSSES) {
        writer.varint(record.losses.into());
    }
    if has(HAS_READY_AT) {
        writer.timestamp_from(created_at, record.ready_at);
    }
    if has(HAS_UPDATED_AT) {
        writer.timestamp_from(created_at, record.updated_at);
    }
    for instant in [record.first_started_at, record.finished_at].into_iter().flatten() {
        writer.timestamp_from(created_at, instant);
    }
    if let Some(error) = record.last_error.as_deref().filter(|_| has(HAS_ERROR)) {
        writer.text(error);
    }
    if let Some(held) = &record.lease {
        lease::encode(writer, held, created_at);
    }
    if let Some(assignment) = &record.assignment {
        lease::encode_assignment(writer, assignment, created_at);
    }
    if let Continuation::Confirming { check_deadline_at } = record.continuation {
        writer.timestamp_from(created_at, check_deadline_at);
    }
    if let Some(result) = &record.result {
        writer.bytes(result);
    }
    if let Some(progress) = &record.progress {
        writer.raw(&progress.fraction.to_le_bytes());
        writer.text(&progress.message);
    }
    if has(HAS_ATTEMPTS) {
        attempts::encode(writer, &record.attempts, created_at);
    }
}

/// Builds a record from its key, its spec ([`decode_spec`](super::decode_spec)) and what [`encode_status`]
/// wrote.
pub fn record_from(
    namespace: Namespace,
    id: TaskId,
    spec: Arc<TaskSpec>,
    created_at: Timestamp,
    body: &[u8],
) -> Result<TaskRecord, Undecodable> {
    let reader = &mut Reader::of_version(body)?;
    let (state, ready_by, cause) = state::of_byte(reader.u8("state")?)?;
    let presence = reader.u16("presence")?;
    let has = |bit: u16| presence & bit != 0;
    let version = Version(reader.varint("version")?);
    let instant = |reader: &mut Reader<'_>, field, bit| {
        has(bit).then(|| reader.timestamp_from(field, created_at)).transpose()
    };
    let renewals = if has(HAS_RENEWALS) { reader.varint("renewals")? } else { 0 };
    let (executions, attempt) = match has(HAS_STARTS) {
        true => (reader.varint_u32("executions")?, reader.varint_u32("attempt")?),
        false => (0, 0),
    };
    let failures = if has(HAS_FAILURES) { reader.varint_u32("failures")? } else { 0 };
    let losses = if has(HAS_LOSSES) { reader.varint_u32("losses")? } else { 0 };
    let mut record = TaskRecord {
        key: TaskKey::new(namespace, id).named(spec.origin().external_id.as_ref()),
        spec,
        state,
        cause,
        version,
        renewals,
        executions,
        failures,
        losses,
        attempt,
        ready_at: instant(reader, "ready_at", HAS_READY_AT)?.unwrap_or(created_at),
        ready_by,
        created_at,
        updated_at: instant(reader, "updated_at", HAS_UPDATED_AT)?.unwrap_or(created_at),
        first_started_at: instant(reader, "first_started_at", HAS_FIRST_STARTED_AT)?,
        finished_at: instant(reader, "finished_at", HAS_FINISHED_AT)?,
        last_error: has(HAS_ERROR).then(|| reader.text("last_error").map(Arc::from)).transpose()?,
        lease: has(HAS_LEASE).then(|| lease::decode(reader, created_at)).transpose()?,
        assignment: has(HAS_ASSIGNMENT).then(|| lease::decode_assignment(reader, created_at)).transpose()?,
        continuation: instant(reader, "continuation", HAS_CONTINUATION)?
            .map_or(Continuation::None, |check_deadline_at| Continuation::Confirming { check_deadline_at }),
        result: has(HAS_RESULT).then(|| reader.bytes("result").map(Bytes::copy_from_slice)).transpose()?,
        progress: has(HAS_PROGRESS).then(|| read_progress(reader)).transpose()?,
        attempts: if has(HAS_ATTEMPTS) { attempts::decode(reader, created_at)? } else { Attempts::default() },
    };
    reader.finish("status")?;
    if has(HAS_ERROR_OF_ATTEMPT) {
        let of_attempt = record.attempts.last().and_then(|attempt| attempt.error.clone());
        if of_attempt.is_none() || has(HAS_ERROR) {
            return Err(Undecodable::unknown("presence", presence));
        }
        record.last_error = of_attempt;
    }
    Ok(record)
}

/// Decodes only the state of a status, which may be readable when the rest is not.
pub fn state_of(reader: &mut Reader<'_>) -> Result<TaskState, Undecodable> {
    Ok(state::of_byte(reader.u8("state")?)?.0)
}

fn presence(record: &TaskRecord) -> u16 {
    let bit = |bit: u16, present: bool| if present { bit } else { 0 };
    let created_at = record.created_at;
    let error = match (&record.last_error, record.attempts.last()) {
        (None, _) => 0,
        (Some(_), Some(attempt)) if attempt.error == record.last_error => HAS_ERROR_OF_ATTEMPT,
        (Some(_), _) => HAS_ERROR,
    };
    error
        | bit(HAS_RENEWALS, record.renewals != 0)
        | bit(HAS_STARTS, (record.executions, record.attempt) != (0, 0))
        | bit(HAS_FAILURES, record.failures != 0)
        | bit(HAS_LOSSES, record.losses != 0)
        | bit(HAS_READY_AT, record.ready_at != created_at)
        | bit(HAS_UPDATED_AT, record.updated_at != created_at)
        | bit(HAS_FIRST_STARTED_AT, record.first_started_at.is_some())
        | bit(HAS_FINISHED_AT, record.finished_at.is_some())
        | bit(HAS_LEASE, record.lease.is_some())
        | bit(HAS_ASSIGNMENT, record.assignment.is_some())
        | bit(HAS_CONTINUATION, record.continuation != Continuation::None)
        | bit(HAS_RESULT, record.result.is_some())
        | bit(HAS_PROGRESS, record.progress.is_some())
        | bit(HAS_ATTEMPTS, !record.attempts.is_empty())
}

fn read_progress(reader: &mut Reader<'_>) -> Result<Box<Progress>, Undecodable> {
    let fraction = f32::from_le_bytes(reader.array("progress.fraction")?);
    let message = reader.text("progress.message")?.to_owned();
    Ok(Box::new(Progress { fraction, message }))
}
