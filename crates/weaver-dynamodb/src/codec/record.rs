//! A task's item: seed 000's attributes, for clients that know only those, and ours. Fields that conditions
//! and indexes need are attributes; the rest of the spec and of the history is JSON.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use weaver_core::error::{Error, Result};
use weaver_core::id::{Epoch, LeaseToken, TaskKey, Version};
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::projection::queue_item::Status;
use weaver_core::task::{Continuation, HeldLease, ReadyBy, TaskEnvelope, TaskRecord, TaskSpec, TaskState};
use weaver_core::time::Timestamp;

use crate::codec::damaged;
use crate::codec::texts::{INLINE_MAX_BYTES, Texts, bytes_attribute, bytes_of};
use crate::codec::value::{Attributes, iso, n, s, us};
use crate::db::Item;
use crate::keys;

/// The type of tasks whose payload is a prompt, as seed 000 has them.
pub(crate) use weaver_core::task::PROMPT_TASK_TYPE as PROMPT;

/// Longest JSON of attempts, in bytes: an item holds at most 400 KB.
const ATTEMPTS_MAX_BYTES: usize = 350 * 1024;

/// Our attributes that depend on the record's state; removed before they are written again.
const TRANSIENT: [&str; 28] = [
    "error_message",
    "claimed_by",
    "cause",
    "first_started_at_us",
    "finished_at_us",
    "payload",
    "prompt",
    "result",
    "attempts",
    "progress",
    "assignment",
    "continuation",
    "lease_token",
    "lease_worker",
    "lease_epoch",
    "lease_started_at_us",
    "lease_expires_at_us",
    "lease_ttl_us",
    "lease_span_us",
    "ready_pk",
    "ready_sk",
    "serial_key",
    "expires_at_us",
    "fragile",
    "error",
    "texts",
    "task_type",
    "spec",
];

/// The sort key of a task's item: its id, or the name that another client chose.
pub(crate) fn name_of(record: &TaskRecord) -> String {
    record.shown_id()
}

/// Encodes a record; large values are returned separately. Attributes of `base` that are not ours are kept.
pub(crate) fn encode(record: &TaskRecord, base: Item, now: Timestamp) -> Result<(Item, Texts)> {
    let mut item = base;
    TRANSIENT.iter().for_each(|name| drop(item.remove(*name)));
    let mut texts = Texts::new();
    seed_attributes(&mut item, record);
    item.put_number("version", record.version.0);
    item.put_text("state", record.state.as_str());
    item.put_number("renewals", record.renewals);
    let counters = [
        ("executions", record.executions),
        ("failures", record.failures),
        ("losses", record.losses),
        ("attempt", record.attempt),
    ];
    counters.into_iter().for_each(|(name, count)| item.put_number(name, count.into()));
    let instants = [
        ("ready_at_us", Some(record.ready_at)),
        ("created_at_us", Some(record.created_at)),
        ("updated_at_us", Some(record.updated_at)),
        ("first_started_at_us", record.first_started_at),
        ("finished_at_us", record.finished_at),
        ("expires_at_us", record.spec.expires_at),
    ];
    for (name, instant) in instants {
        instant.into_iter().for_each(|instant| drop(item.insert(name.to_owned(), us(instant))));
    }
    specification(&mut item, &mut texts, record)?;
    history(&mut item, &mut texts, record)?;
    if let Some(held) = &record.lease {
        lease(&mut item, held, now);
    }
    if record.state.is_waiting() {
        item.put_text(
            "ready_pk",
            keys::ready_partition(&record.key.namespace, &record.spec.queue, record.spec.dispatch()),
        );
        item.put_text("ready_sk", keys::ready_sort(record.spec.priority, record.ready_at, record.key.id));
    }
    if record.is_fragile() {
        item.insert("fragile".to_owned(), AttributeValue::Bool(true));
    }
    Ok((item, texts))
}

/// The attributes for clients that know only seed 000.
fn seed_attributes(item: &mut Item, record: &TaskRecord) {
    item.put_text("namespace", record.key.namespace.as_str());
    item.put_text("task_id", name_of(record));
    let origin = record.spec.origin();
    if let Some(group) = &origin.task_group_id {
        item.put_text("task_group_id", group.as_str());
    }
    if let Some(session) = &origin.session_id {
        item.put_text("session_id", session.as_str());
    }
    let status = Status::of(record);
    item.put_text("status", status.as_str());
    // A foreign item keeps its writer's text, which is a key of the index.
    if item.text("created_at").is_none() {
        item.put_text("created_at", iso(record.created_at));
    }
    item.put_text("updated_at", iso(record.updated_at));
    if status == Status::Error {
        let message = match (&record.last_error, record.cause) {
            (Some(error), _) => cut(error).to_owned(),
            (None, Some(cause)) => cause.to_string(),
            (None, None) => "failed".to_owned(),
        };
        item.put_text("error_message", if message.is_empty() { "failed".to_owned() } else { message });
    }
    let last = record.attempts.last().map(|attempt| &attempt.worker);
    if let Some(worker) = record.lease.as_ref().map(|held| &held.worker).or(last) {
        item.put_text("claimed_by", worker.as_str());
    }
}

fn specification(item: &mut Item, texts: &mut Texts, record: &TaskRecord) -> Result<()> {
    let spec = &record.spec;
    let mut bare = TaskSpec::clone(spec);
    bare.envelope.payload = Bytes::new();
    item.put_text("spec", json(&bare)?);
    item.put_text("task_type", spec.envelope.task_type.as_str());
    if let Some(serial_key) = &spec.serial_key {
        item.put_text("serial_key", serial_key.as_str());
    }
    let payload = &spec.envelope.payload;
    let text = std::str::from_utf8(payload).ok().filter(|text| !text.is_empty());
    let is_prompt = spec.envelope.task_type.as_str() == PROMPT;
    if is_prompt && let Some(prompt) = prompt_in(&spec.envelope) {
        // In seed 000's attribute, whatever its size; the payload is rebuilt from it.
        item.put_text("prompt", prompt);
        return Ok(());
    }
    match text {
        Some(text) if text.len() <= INLINE_MAX_BYTES && !is_prompt => item.put_text("prompt", text),
        _ if payload.len() <= INLINE_MAX_BYTES => {
            item.insert("payload".to_owned(), bytes_attribute(payload));
        }
        _ => drop(texts.insert("payload", payload.clone())),
    }
    if item.text("prompt").is_none()
        && let Some(text) = text
    {
        item.put_text("prompt", cut(text));
    }
    Ok(())
}

fn history(item: &mut Item, texts: &mut Texts, record: &TaskRecord) -> Result<()> {
    if let Some(cause) = &record.cause {
        item.put_text("cause", json(cause)?);
    }
    if let Some(result) = &record.result {
        place(item, texts, "result", result.clone());
    }
    if let Some(error) = &record.last_error {
        place(item, texts, "error", Bytes::copy_from_slice(error.as_bytes()));
    }
    if !record.attempts.is_empty() {
        place(item, texts, "attempts", attempts(record)?.into());
    }
    if let Some(progress) = &record.progress {
        item.put_text("progress", json(progress)?);
    }
    if let Some(assignment) = &record.assignment {
        item.put_text("assignment", json(assignment)?);
    }
    if record.continuation != Continuation::None {
        item.put_text("continuation", json(&record.continuation)?);
    }
    Ok(())
}

/// The attempts as JSON. If large errors would not fit into one item, those of the oldest attempts are
/// dropped.
fn attempts(record: &TaskRecord) -> Result<String> {
    let mut attempts = record.attempts.to_vec();
    let mut text = json(&attempts)?;
    let mut oldest = 0;
    while text.len() > ATTEMPTS_MAX_BYTES && oldest < attempts.len() {
        attempts[oldest].error = None;
        oldest += 1;
        text = json(&attempts)?;
    }
    Ok(text)
}

fn place(item: &mut Item, texts: &mut Texts, name: &'static str, value: Bytes) {
    if value.len() <= INLINE_MAX_BYTES {
        item.insert(name.to_owned(), bytes_attribute(&value));
    } else {
        texts.insert(name, value);
    }
}

fn lease(item: &mut Item, held: &HeldLease, now: Timestamp) {
    item.put_text("lease_token", keys::token_text(held.token));
    item.put_text("lease_worker", held.worker.as_str());
    item.put_number("lease_epoch", held.epoch.0);
    item.insert("lease_started_at_us".to_owned(), us(held.started_at));
    item.insert("lease_expires_at_us".to_owned(), us(held.expires_at));
    item.put_number("lease_ttl_us", micros(held.ttl));
    // How long an observer waits for a renewal. A cancellation hold keeps the rest of its lease.
    item.put_number("lease_span_us", micros(held.expires_at.since(now).max(Duration::from_micros(1))));
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Decodes an item as Weaver last wrote it.
pub(crate) fn decode(item: &Item, texts: &Texts) -> Result<TaskRecord> {
    let key = key_of(item)?;
    let lacking = |name: &str| damaged(format!("task {key}: its attribute `{name}`"));
    let number = |name: &str| item.number(name).ok_or_else(|| lacking(name));
    let count = |name: &str| number(name).and_then(|value| u32::try_from(value).map_err(|_| lacking(name)));
    let instant = |name: &str| item.instant(name).ok_or_else(|| lacking(name));
    let large = |name: &str| texts.get(name).cloned().or_else(|| bytes_of(item, name));
    let mut spec: TaskSpec = parse(item.text("spec").unwrap_or_default().as_bytes(), &key, "spec")?;
    spec.envelope.payload = match large("payload") {
        Some(payload) => payload,
        None => inline_payload(item, &spec),
    };
    let error = large("error").map(|bytes| Arc::from(String::from_utf8_lossy(&bytes).as_ref()));
    let optional = |name: &str| item.text(name).map(str::as_bytes);
    Ok(TaskRecord {
        spec: Arc::new(spec),
        state: state_of(item).ok_or_else(|| lacking("state"))?,
        cause: optional("cause").map(|text| parse(text, &key, "cause")).transpose()?,
        version: Version(number("version")?),
        renewals: number("renewals")?,
        executions: count("executions")?,
        failures: count("failures")?,
        losses: count("losses")?,
        attempt: count("attempt")?,
        ready_at: instant("ready_at_us")?,
        ready_by: ReadyBy::Span,
        created_at: instant("created_at_us")?,
        updated_at: instant("updated_at_us")?,
        first_started_at: item.instant("first_started_at_us"),
        finished_at: item.instant("finished_at_us"),
        last_error: error,
        lease: held_lease(item).transpose()?,
        assignment: optional("assignment").map(|text| parse(text, &key, "assignment")).transpose()?,
        continuation: optional("continuation")
            .map(|text| parse(text, &key, "continuation"))
            .transpose()?
            .unwrap_or_default(),
        result: large("result"),
        progress: optional("progress").map(|text| parse(text, &key, "progress")).transpose()?,
        attempts: large("attempts")
            .map(|text| parse(&text, &key, "attempts"))
            .transpose()?
            .unwrap_or_default(),
        key,
    })
}

/// Namespace and id of a task's item.
pub(crate) fn key_of(item: &Item) -> Result<TaskKey> {
    let name = item.text("task_id").ok_or_else(|| damaged("an item without `task_id`"))?;
    let namespace = Namespace::try_from(item.text("namespace").unwrap_or_default())?;
    Ok(TaskKey::of_text(namespace, name))
}

/// The task's state from our own attribute; `None` if it is absent or unknown.
pub(crate) fn state_of(item: &Item) -> Option<TaskState> {
    let word = item.text("state")?;
    TaskState::ALL.into_iter().find(|state| state.as_str() == word)
}

fn inline_payload(item: &Item, spec: &TaskSpec) -> Bytes {
    let prompt = item.text("prompt").unwrap_or_default();
    if spec.envelope.task_type.as_str() == PROMPT && !is_text(&spec.envelope) {
        prompt_payload(prompt)
    } else {
        Bytes::copy_from_slice(prompt.as_bytes())
    }
}

fn is_text(envelope: &TaskEnvelope) -> bool {
    envelope.content_type.as_str().starts_with("text/")
}

/// The payload of a prompt in JSON: `{"prompt": …}`.
fn prompt_payload(prompt: &str) -> Bytes {
    serde_json::json!({ "prompt": prompt }).to_string().into()
}

/// The prompt of a payload that is nothing else: plain text, or an object with only that member.
fn prompt_in(envelope: &TaskEnvelope) -> Option<String> {
    let payload = &envelope.payload;
    let prompt = if is_text(envelope) {
        std::str::from_utf8(payload).ok()?.to_owned()
    } else {
        let value: serde_json::Value = serde_json::from_slice(payload).ok()?;
        let prompt = value.as_object()?.get("prompt")?.as_str()?.to_owned();
        (prompt_payload(&prompt) == payload).then_some(prompt)?
    };
    (!prompt.is_empty()).then_some(prompt)
}

fn held_lease(item: &Item) -> Option<Result<HeldLease>> {
    let token = u128::from_str_radix(item.text("lease_token")?, 16).ok()?;
    let held = || {
        Some(HeldLease {
            worker: WorkerId::try_from(item.text("lease_worker")?).ok()?,
            token: LeaseToken(token),
            epoch: Epoch(item.number("lease_epoch")?),
            started_at: item.instant("lease_started_at_us")?,
            expires_at: item.instant("lease_expires_at_us")?,
            ttl: Duration::from_micros(item.number("lease_ttl_us")?),
        })
    };
    Some(held().ok_or_else(|| damaged("the lease of a task")))
}

/// The attribute values of a lease, for an update expression.
pub(crate) fn lease_values(held: &HeldLease) -> [(&'static str, AttributeValue); 7] {
    [
        (":token", s(keys::token_text(held.token))),
        (":worker", s(held.worker.as_str())),
        (":epoch", n(held.epoch.0)),
        (":started", us(held.started_at)),
        (":expires", us(held.expires_at)),
        (":ttl", n(micros(held.ttl))),
        (":span", n(micros(held.expires_at.since(held.started_at)))),
    ]
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::Unavailable { reason: format!("a record cannot be encoded: {error}") })
}

fn parse<T: DeserializeOwned>(text: &[u8], key: &TaskKey, what: &str) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| damaged(format!("task {key}: its `{what}` ({error})")))
}

/// Text truncated to the inline limit.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(INLINE_MAX_BYTES)]
}
