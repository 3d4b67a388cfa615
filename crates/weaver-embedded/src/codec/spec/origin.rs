//! The origin of a task: presence bits, then the fields that are present.

use weaver_core::id::TaskId;
use weaver_core::name::{ExternalId, JobDefinitionId, SessionId, TaskGroupId, name_problem};
use weaver_core::task::{Labels, Origin, TraceContext};
use weaver_core::time::Timestamp;

use crate::codec::{Defect, Reader, Undecodable, Writer};

const HAS_GROUP: u8 = 1;
const HAS_SESSION: u8 = 1 << 1;
const HAS_LABELS: u8 = 1 << 2;
const HAS_DEFINITION: u8 = 1 << 3;
const HAS_SCHEDULED_FOR: u8 = 1 << 4;
const HAS_RETRY_OF: u8 = 1 << 5;
const HAS_TRACE: u8 = 1 << 6;
const HAS_EXTERNAL_ID: u8 = 1 << 7;

pub(super) fn encode(writer: &mut Writer, origin: &Origin, created_at: Timestamp) {
    writer.u8(presence(origin));
    if let Some(group) = &origin.task_group_id {
        writer.text(group.as_str());
    }
    if let Some(session) = &origin.session_id {
        writer.text(session.as_str());
    }
    if !origin.labels.is_empty() {
        writer.varint(origin.labels.len() as u64);
        for (name, value) in &origin.labels {
            writer.text(name);
            writer.text(value);
        }
    }
    if let Some(definition) = &origin.job_definition_id {
        writer.text(definition.as_str());
    }
    if let Some(instant) = origin.scheduled_for {
        writer.timestamp_from(created_at, instant);
    }
    if let Some(id) = origin.retry_of {
        writer.varint(id.0);
    }
    if let Some(trace) = &origin.trace {
        writer.text(&trace.traceparent);
        writer.option(trace.tracestate.as_deref(), Writer::text);
    }
    if let Some(id) = &origin.external_id {
        writer.text(id.as_str());
    }
}

pub(super) fn decode(reader: &mut Reader<'_>, created_at: Timestamp) -> Result<Origin, Undecodable> {
    let presence = reader.u8("origin")?;
    let has = |bit: u8| presence & bit != 0;
    Ok(Origin {
        task_group_id: has(HAS_GROUP).then(|| reader.name("task_group_id", TaskGroupId::new)).transpose()?,
        session_id: has(HAS_SESSION).then(|| reader.name("session_id", SessionId::new)).transpose()?,
        labels: if has(HAS_LABELS) { read_labels(reader)? } else { Labels::new() },
        job_definition_id: has(HAS_DEFINITION)
            .then(|| reader.name("job_definition_id", JobDefinitionId::new))
            .transpose()?,
        scheduled_for: has(HAS_SCHEDULED_FOR)
            .then(|| reader.timestamp_from("scheduled_for", created_at))
            .transpose()?,
        // Not stored: tasks of other clients are not in an embedded store.
        retry_of_external_id: None,
        retry_of: has(HAS_RETRY_OF).then(|| reader.varint("retry_of").map(TaskId)).transpose()?,
        trace: has(HAS_TRACE).then(|| read_trace(reader)).transpose()?,
        // Encoded beside the origin: the byte of presence bits is full.
        dispatch: None,
        external_id: has(HAS_EXTERNAL_ID).then(|| reader.name("external_id", ExternalId::new)).transpose()?,
    })
}

fn presence(origin: &Origin) -> u8 {
    let bit = |bit: u8, present: bool| if present { bit } else { 0 };
    bit(HAS_GROUP, origin.task_group_id.is_some())
        | bit(HAS_SESSION, origin.session_id.is_some())
        | bit(HAS_LABELS, !origin.labels.is_empty())
        | bit(HAS_DEFINITION, origin.job_definition_id.is_some())
        | bit(HAS_SCHEDULED_FOR, origin.scheduled_for.is_some())
        | bit(HAS_RETRY_OF, origin.retry_of.is_some())
        | bit(HAS_TRACE, origin.trace.is_some())
        | bit(HAS_EXTERNAL_ID, origin.external_id.is_some())
}

fn read_labels(reader: &mut Reader<'_>) -> Result<Labels, Undecodable> {
    let count = reader.count("labels")?;
    let mut labels = Labels::new();
    for _ in 0..count {
        let (name, value) = (reader.text("labels")?, reader.text("labels")?);
        if name_problem(name).or_else(|| name_problem(value)).is_some() {
            return Err(Undecodable::new("labels", Defect::InvalidName));
        }
        labels.insert(name.to_owned(), value.to_owned());
    }
    Ok(labels)
}

fn read_trace(reader: &mut Reader<'_>) -> Result<TraceContext, Undecodable> {
    let traceparent = reader.text("trace.traceparent")?.to_owned();
    let tracestate =
        reader.option("trace.tracestate", |reader| reader.text("trace.tracestate").map(str::to_owned))?;
    Ok(TraceContext { traceparent, tracestate })
}
