//! Enqueue requests: one task, or a batch.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::task::{ContentType, Dispatch, NewTask as CoreNewTask};
use weaver_core::time::Timestamp;

use super::json::from_hex;
use super::{Json, Problem, RetryPolicy};

/// A task to enqueue. Only `task_type` is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NewTask))]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// Selects the handler. Types that begin with `weaver.` are reserved for the server.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub task_type: String,
    /// The namespace; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: Option<String>,
    /// The queue; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub queue: Option<String>,
    /// Any JSON; default `null`. With another `content_type`: a string with the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    /// The payload in hexadecimal digits, if it is not text. Excludes `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^([0-9a-fA-F]{2})*$"))]
    pub payload_hex: Option<String>,
    /// The media type of the payload; default `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub content_type: Option<String>,
    /// From 0, the most urgent, to 9. If absent, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub priority: Option<u8>,
    /// Run after this delay. Excludes `run_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub delay_ms: Option<u64>,
    /// Run at this instant or later. Excludes `delay_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub run_at: Option<Timestamp>,
    /// Failed attempts before the task is dead. If absent, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub max_attempts: Option<u32>,
    /// Lost attempts (lease expired) that the task survives. If absent, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub max_losses: Option<u32>,
    /// Backoff after a failed attempt. If absent, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// How long one attempt may take; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub timeout_ms: Option<u64>,
    /// Cancel the task if it has not started by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// Tasks with the same key in a namespace run one at a time, in order. Of a `prompt`, its session if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub serial_key: Option<String>,
    /// A second enqueue with this key in the namespace returns the first task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub idempotency_key: Option<String>,
    /// The task group it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub task_group_id: Option<String>,
    /// The conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub session_id: Option<String>,
    /// For finding tasks; at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether workers pull it or a leader assigns it. If absent, as its queue says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    /// The trace context of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// W3C trace context, unchanged: printable ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// As in the `traceparent` header; at most 64 bytes.
    pub traceparent: String,
    /// As in the `tracestate` header; at most 448 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl TryFrom<NewTask> for CoreNewTask {
    type Error = Invalid;

    fn try_from(wire: NewTask) -> Result<Self, Invalid> {
        let content_type =
            wire.content_type.filter(|text| text != ContentType::JSON.as_str()).map(ContentType::other);
        let payload = payload_bytes(wire.payload, wire.payload_hex, content_type.is_none())?;
        let mut task = Self::new(wire.task_type).payload(payload, content_type.unwrap_or(ContentType::JSON));
        macro_rules! set {
            ($($field:ident)*) => { $(if let Some(value) = wire.$field { task = task.$field(value); })* };
        }
        set!(namespace queue priority run_at max_attempts max_losses expires_at serial_key idempotency_key);
        set!(task_group_id session_id dispatch);
        if let Some(ms) = wire.delay_ms {
            task = task.delay(Duration::from_millis(ms));
        }
        if let Some(ms) = wire.timeout_ms {
            task = task.timeout(Duration::from_millis(ms));
        }
        if let Some(policy) = wire.retry {
            task = task.retry(policy.into());
        }
        for (name, value) in wire.labels {
            task = task.label(name, value);
        }
        if let Some(trace) = wire.trace {
            task = task.trace(trace.into());
        }
        Ok(task)
    }
}

/// The payload as bytes: JSON as it is written, other text without its quotes.
pub(super) fn payload_bytes(
    json: Option<Json>,
    hex: Option<String>,
    is_json: bool,
) -> Result<Bytes, Invalid> {
    match (json, hex) {
        (Some(_), Some(_)) => Err(Invalid::new("payload_hex", FieldProblem::Conflicts { other: "payload" })),
        (None, Some(hex)) => Ok(from_hex("payload_hex", &hex)?.into()),
        (None, None) => Ok(Bytes::from_static(if is_json { b"null" } else { b"" })),
        (Some(json), None) if is_json => Ok(Bytes::copy_from_slice(json.as_str().as_bytes())),
        // A string loses its quotes; any other JSON is taken as its text.
        (Some(json), None) => Ok(json.decode::<String>().unwrap_or_else(|_| json.as_str().to_owned()).into()),
    }
}

/// One task, or `{"tasks": […]}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum EnqueueRequest {
    /// A batch: if one task is invalid, none is stored.
    Many {
        /// Stored in this order.
        tasks: Vec<NewTask>,
    },
    /// A single task, without `tasks` around it.
    One(Box<NewTask>),
}

/// By hand: `untagged` buffers the whole request, and could then neither keep payloads as their text nor name
/// the invalid field. A request that begins with `tasks` is a batch.
impl<'de> Deserialize<'de> for EnqueueRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OneOrMany)
    }
}

struct OneOrMany;

impl<'de> Visitor<'de> for OneOrMany {
    type Value = EnqueueRequest;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a task, or an object with `tasks`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EnqueueRequest, A::Error> {
        let first: Option<Cow<'de, str>> = map.next_key()?;
        if first.as_deref() != Some("tasks") {
            let all = MapAccessDeserializer::new(WithFirst { first, map });
            return Box::<NewTask>::deserialize(all).map(EnqueueRequest::One);
        }
        let tasks = map.next_value()?;
        match map.next_key::<Cow<'de, str>>()? {
            None => Ok(EnqueueRequest::Many { tasks }),
            Some(other) => Err(serde::de::Error::unknown_field(&other, &["tasks"])),
        }
    }
}

/// A map whose first key has been read.
struct WithFirst<'de, A> {
    first: Option<Cow<'de, str>>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithFirst<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(first) => seed.deserialize(CowStrDeserializer::new(first)).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A task that was enqueued, or found by its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enqueued {
    /// Its address is `/api/v1/tasks/{id}`.
    pub id: String,
    /// The namespace it is in.
    pub namespace: String,
    /// Whether it was stored before, under the same idempotency key.
    pub existing: bool,
}

/// The result of one member of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum EnqueueMember {
    /// It is stored, or was before.
    Enqueued(Enqueued),
    /// The store refused it; the others are stored.
    Failed {
        /// Why it was refused.
        problem: Problem,
    },
}

/// The response to [`EnqueueRequest`], in the same form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum EnqueueResponse {
    /// For a batch, in the order of the request.
    Many {
        /// One result per task.
        tasks: Vec<EnqueueMember>,
    },
    /// For a single task.
    One(Enqueued),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<EnqueueRequest, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn a_request_is_one_task_or_many() {
        let one = parse(r#"{"task_type":"t","payload":{"a":1.0}}"#).unwrap();
        let EnqueueRequest::One(task) = one else { panic!("{one:?}") };
        assert_eq!(task.payload.unwrap().as_str(), r#"{"a":1.0}"#);
        let many = parse(r#"{"tasks":[{"payload":12345678901234567890123,"task_type":"t"}]}"#).unwrap();
        let EnqueueRequest::Many { tasks } = many else { panic!("{many:?}") };
        assert_eq!(tasks[0].payload.as_ref().unwrap().as_str(), "12345678901234567890123");
    }

    #[test]
    fn an_unknown_field_is_named() {
        for text in [r#"{"task_type":"t","qeue":"x"}"#, r#"{"qeue":"x"}"#, r#"{"tasks":[],"qeue":1}"#] {
            let refusal = parse(text).unwrap_err().to_string();
            assert!(refusal.contains("qeue"), "{text}: {refusal}");
        }
        assert!(parse("{}").unwrap_err().to_string().contains("task_type"));
        assert!(parse("[]").unwrap_err().to_string().contains("a task, or an object"));
    }
}
