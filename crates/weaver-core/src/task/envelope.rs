//! What a handler receives: a type and a payload, without any state.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bytes_text;
use crate::error::{Invalid, Problem};
use crate::name::TaskType;

/// What reaches the handler: a type, and a payload in the form that the content type names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnvelope {
    /// The type, which selects the handler.
    pub task_type: TaskType,
    /// JSON, unless the content type says otherwise. Shared, never copied.
    #[serde(with = "bytes_text")]
    pub payload: Bytes,
    /// The media type of the payload; `application/json` by default.
    pub content_type: ContentType,
}

impl TaskEnvelope {
    /// Reads the payload as JSON. What this version of a handler cannot decode, a newer one may: in a rolling
    /// deploy a task of the new form reaches old workers first. A handler that meets this error fails the
    /// attempt ([`Outcome::undecodable`](crate::outcome::Outcome::undecodable)), so that the task is retried
    /// within its budget (ADR 0066).
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        if self.content_type != ContentType::JSON {
            let reason = format!("its content type is `{}`, not `{}`", self.content_type, ContentType::JSON);
            return Err(Invalid::new("payload", Problem::Undecodable { reason }));
        }
        serde_json::from_slice(&self.payload).map_err(|error| {
            let reason = format!("{error} (task type `{}`, {} bytes)", self.task_type, self.payload.len());
            Invalid::new("payload", Problem::Undecodable { reason })
        })
    }
}

/// A media type, such as `application/json`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentType(Cow<'static, str>);

impl ContentType {
    /// `application/json`, the default of a task.
    pub const JSON: Self = Self(Cow::Borrowed("application/json"));

    /// Any other media type; checked like a name when the task is enqueued.
    pub fn other(text: impl Into<String>) -> Self {
        Self(Cow::Owned(text.into()))
    }

    /// The media type as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ContentType {
    fn default() -> Self {
        Self::JSON
    }
}

impl fmt::Display for ContentType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(payload: &'static [u8], content_type: ContentType) -> TaskEnvelope {
        let task_type = TaskType::new("send_email").unwrap();
        TaskEnvelope { task_type, payload: Bytes::from_static(payload), content_type }
    }

    #[test]
    fn a_payload_decodes_as_the_json_it_was() {
        assert_eq!(envelope(b"[1,2]", ContentType::JSON).decode::<Vec<u8>>().unwrap(), [1, 2]);
    }

    #[test]
    fn an_undecodable_payload_says_what_was_wrong_and_of_which_type() {
        let refusal = envelope(b"{\"to\":", ContentType::JSON).decode::<Vec<u8>>().unwrap_err().to_string();
        assert!(refusal.contains("send_email") && refusal.contains("column"), "{refusal}");
        let refusal =
            envelope(b"x", ContentType::other("text/plain")).decode::<u8>().unwrap_err().to_string();
        assert!(refusal.contains("text/plain"), "{refusal}");
    }
}
