//! Enqueuing: one task, or many.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::task::{ContentType, NewTask as CoreNewTask};
use weaver_core::time::Timestamp;

use super::json::from_hex;
use super::{Json, Problem, RetryPolicy};

/// A task to be enqueued. Everything but the type may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NewTask))]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// Selects the handler. Those that begin with `weaver.` are the server's own.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub task_type: String,
    /// `default` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: Option<String>,
    /// `default` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub queue: Option<String>,
    /// Any JSON; `null` if not given. With another `content_type`: a string, the text of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    /// The payload in hexadecimal digits, if it is not text. Excludes `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^([0-9a-fA-F]{2})*$"))]
    pub payload_hex: Option<String>,
    /// The form of the payload; `application/json` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub content_type: Option<String>,
    /// From 0, the most urgent, to 9. If not given, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub priority: Option<u8>,
    /// Not before this long from now. Excludes `run_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub delay_ms: Option<u64>,
    /// Not before this instant. Excludes `delay_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub run_at: Option<Timestamp>,
    /// Failed attempts before the task is dead. If not given, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub max_attempts: Option<u32>,
    /// Lost attempts that the task survives. If not given, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub max_losses: Option<u32>,
    /// How long to wait after a failed attempt. If not given, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// How long one execution may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub timeout_ms: Option<u64>,
    /// Cancelled if it has not started by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// Runs one at a time with others of this key in its namespace, in order. Of a `prompt`, its session if
    /// not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub serial_key: Option<String>,
    /// A second enqueue with this key in the namespace returns the first task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub idempotency_key: Option<String>,
    /// The piece of work it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub task_group_id: Option<String>,
    /// The conversation it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub session_id: Option<String>,
    /// Whatever to find it by; at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The trace of whoever enqueues it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// W3C trace context, as it came: printable ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// `traceparent`.
    pub traceparent: String,
    /// `tracestate`.
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
        set!(task_group_id session_id);
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
        // A string is text without its quotes; anything else is the text that it is.
        (Some(json), None) => Ok(json.decode::<String>().unwrap_or_else(|_| json.as_str().to_owned()).into()),
    }
}

/// One task, or `{"tasks": […]}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum EnqueueRequest {
    /// Many: all are checked before any is stored.
    Many {
        /// The tasks.
        tasks: Vec<NewTask>,
    },
    /// One.
    One(Box<NewTask>),
}

/// By hand, because `untagged` would read the whole request into memory first and could then neither keep
/// payloads as their text nor name the field that is wrong. A request that begins with `tasks` is many.
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

/// A map whose first key was read already.
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

/// A task that was enqueued, or was there before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enqueued {
    /// Its id.
    pub id: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether it was there before, under the same idempotency key.
    pub existing: bool,
}

/// The answer to one member of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum EnqueueMember {
    /// It is stored.
    Enqueued(Enqueued),
    /// It is not.
    Failed {
        /// Why.
        problem: Problem,
    },
}

/// The answer to [`EnqueueRequest`], in the same form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum EnqueueResponse {
    /// In the order of the request.
    Many {
        /// The answers.
        tasks: Vec<EnqueueMember>,
    },
    /// Of the one task.
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
