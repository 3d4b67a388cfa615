//! The immutable part of a task, written once on enqueue.
//!
//! ```text
//! version │ presence (2 bytes) │ created_at │ type │ payload │ what is present, in the order of the bits
//! ```

mod origin;
mod retry;

use bytes::Bytes;
use weaver_core::name::{IdempotencyKey, QueueName, SerialKey, TaskType, name_problem};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{ContentType, Dispatch, Origin, Priority, TaskEnvelope, TaskSpec};
use weaver_core::time::Timestamp;

use super::{Defect, FORMAT_VERSION, Reader, Undecodable, Writer};

// Defaults of absent fields. They belong to the format, not to core: if a default changes there, existing
// records must keep their meaning.
const QUEUE: &str = "default";
const CONTENT_TYPE: ContentType = ContentType::JSON;
const PRIORITY: u8 = 5;
const MAX_ATTEMPTS: u32 = 5;
const MAX_LOSSES: u32 = 3;
const RETRY: RetryPolicy = RetryPolicy::Exponential {
    base: std::time::Duration::from_secs(15),
    factor: 16,
    cap: std::time::Duration::from_secs(8 * 3600),
    jitter: true,
};

const HAS_QUEUE: u16 = 1;
const HAS_CONTENT_TYPE: u16 = 1 << 1;
const HAS_PRIORITY: u16 = 1 << 2;
const HAS_MAX_ATTEMPTS: u16 = 1 << 3;
const HAS_MAX_LOSSES: u16 = 1 << 4;
const HAS_RETRY: u16 = 1 << 5;
const HAS_TIMEOUT: u16 = 1 << 6;
const HAS_EXPIRES_AT: u16 = 1 << 7;
const HAS_SERIAL_KEY: u16 = 1 << 8;
const HAS_IDEMPOTENCY_KEY: u16 = 1 << 9;
const HAS_ORIGIN: u16 = 1 << 10;
const HAS_DISPATCH: u16 = 1 << 11;
const KNOWN: u16 = (1 << 12) - 1;

/// Encodes the immutable part of a record.
pub fn encode_spec(writer: &mut Writer, spec: &TaskSpec, created_at: Timestamp) {
    let presence = presence(spec);
    writer.u8(FORMAT_VERSION);
    writer.u16(presence);
    writer.timestamp(created_at);
    writer.text(spec.envelope.task_type.as_str());
    writer.bytes(&spec.envelope.payload);
    if presence & HAS_QUEUE != 0 {
        writer.text(spec.queue.as_str());
    }
    if presence & HAS_CONTENT_TYPE != 0 {
        writer.text(spec.envelope.content_type.as_str());
    }
    if presence & HAS_PRIORITY != 0 {
        writer.u8(spec.priority.get());
    }
    if presence & HAS_MAX_ATTEMPTS != 0 {
        writer.varint(spec.max_attempts.into());
    }
    if presence & HAS_MAX_LOSSES != 0 {
        writer.varint(spec.max_losses.into());
    }
    if presence & HAS_RETRY != 0 {
        retry::encode(writer, spec.retry);
    }
    if let Some(timeout) = spec.timeout {
        writer.duration(timeout);
    }
    if let Some(expires_at) = spec.expires_at {
        writer.timestamp_from(created_at, expires_at);
    }
    if let Some(key) = &spec.serial_key {
        writer.text(key.as_str());
    }
    if let Some(key) = &spec.idempotency_key {
        writer.text(key.as_str());
    }
    if let Some(origin) = &spec.origin {
        origin::encode(writer, origin, created_at);
    }
    if let Some(dispatch) = spec.dispatch() {
        writer.bool(dispatch == Dispatch::Assign);
    }
}

/// Decodes what [`encode_spec`] wrote; copies the payload.
pub fn decode_spec(body: &[u8]) -> Result<(TaskSpec, Timestamp), Undecodable> {
    let reader = &mut Reader::of_version(body)?;
    let presence = reader.u16("presence")?;
    if presence & !KNOWN != 0 {
        return Err(Undecodable::unknown("presence", presence));
    }
    let has = |bit: u16| presence & bit != 0;
    let created_at = reader.timestamp("created_at")?;
    let task_type = reader.name("task_type", TaskType::new)?;
    let payload = Bytes::copy_from_slice(reader.bytes("payload")?);
    let queue = if has(HAS_QUEUE) { reader.name("queue", QueueName::new)? } else { default_queue()? };
    let content_type = if has(HAS_CONTENT_TYPE) { read_content_type(reader)? } else { CONTENT_TYPE };
    let priority = if has(HAS_PRIORITY) { reader.u8("priority")? } else { PRIORITY };
    let mut spec = TaskSpec {
        queue,
        envelope: TaskEnvelope { task_type, payload, content_type },
        priority: Priority::new(priority).ok_or(Undecodable::new("priority", Defect::OutOfRange))?,
        max_attempts: if has(HAS_MAX_ATTEMPTS) { reader.varint_u32("max_attempts")? } else { MAX_ATTEMPTS },
        max_losses: if has(HAS_MAX_LOSSES) { reader.varint_u32("max_losses")? } else { MAX_LOSSES },
        retry: if has(HAS_RETRY) { retry::decode(reader)? } else { RETRY },
        timeout: has(HAS_TIMEOUT).then(|| reader.duration("timeout")).transpose()?,
        expires_at: has(HAS_EXPIRES_AT)
            .then(|| reader.timestamp_from("expires_at", created_at))
            .transpose()?,
        serial_key: has(HAS_SERIAL_KEY).then(|| reader.name("serial_key", SerialKey::new)).transpose()?,
        idempotency_key: has(HAS_IDEMPOTENCY_KEY)
            .then(|| reader.name("idempotency_key", IdempotencyKey::new))
            .transpose()?,
        origin: has(HAS_ORIGIN)
            .then(|| origin::decode(reader, created_at))
            .transpose()?
            .and_then(Origin::boxed),
    };
    if has(HAS_DISPATCH) {
        let dispatch = if reader.bool("dispatch")? { Dispatch::Assign } else { Dispatch::Pull };
        spec.origin = Origin { dispatch: Some(dispatch), ..spec.origin().clone() }.boxed();
    }
    reader.finish("spec")?;
    Ok((spec, created_at))
}

fn presence(spec: &TaskSpec) -> u16 {
    let bit = |bit: u16, present: bool| if present { bit } else { 0 };
    bit(HAS_QUEUE, spec.queue.as_str() != QUEUE)
        | bit(HAS_CONTENT_TYPE, spec.envelope.content_type != CONTENT_TYPE)
        | bit(HAS_PRIORITY, spec.priority.get() != PRIORITY)
        | bit(HAS_MAX_ATTEMPTS, spec.max_attempts != MAX_ATTEMPTS)
        | bit(HAS_MAX_LOSSES, spec.max_losses != MAX_LOSSES)
        | bit(HAS_RETRY, spec.retry != RETRY)
        | bit(HAS_TIMEOUT, spec.timeout.is_some())
        | bit(HAS_EXPIRES_AT, spec.expires_at.is_some())
        | bit(HAS_SERIAL_KEY, spec.serial_key.is_some())
        | bit(HAS_IDEMPOTENCY_KEY, spec.idempotency_key.is_some())
        | bit(HAS_ORIGIN, spec.origin.is_some())
        | bit(HAS_DISPATCH, spec.dispatch().is_some())
}

fn default_queue() -> Result<QueueName, Undecodable> {
    QueueName::new(QUEUE).map_err(|_| Undecodable::new("queue", Defect::InvalidName))
}

/// Validated like a name, as on enqueue.
fn read_content_type(reader: &mut Reader<'_>) -> Result<ContentType, Undecodable> {
    let text = reader.text("content_type")?;
    match name_problem(text) {
        None => Ok(ContentType::other(text)),
        Some(_) => Err(Undecodable::new("content_type", Defect::InvalidName)),
    }
}
