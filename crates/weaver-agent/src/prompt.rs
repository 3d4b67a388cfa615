//! Prompts as tasks: the text is the payload. They run once, and in order within a session: the defaults of
//! their type ([`TypeDefaults::PROMPT`](weaver_core::task::TypeDefaults::PROMPT)).

use bytes::Bytes;
use serde::Deserialize;
use weaver_core::task::{ContentType, NewTask, TaskEnvelope};

pub use weaver_core::task::PROMPT_TASK_TYPE;

/// The content type of a prompt: plain text, so that it can be as large as a store's payload limit.
pub const PROMPT_CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// A task with a prompt; its session and other options are set by the caller.
pub fn new_task(text: impl Into<Bytes>) -> NewTask {
    NewTask::new(PROMPT_TASK_TYPE).payload(text, ContentType::other(PROMPT_CONTENT_TYPE))
}

/// The text of a prompt: a payload of text, a JSON string, or `{"prompt": "…"}`.
///
/// # Errors
/// If it is none of these; permanent, so the task is dead.
pub fn text_of(envelope: &TaskEnvelope) -> Result<Bytes, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Named { prompt: String },
    }
    if envelope.content_type.as_str().starts_with("text/") {
        return match std::str::from_utf8(&envelope.payload) {
            Ok(_) => Ok(envelope.payload.clone()),
            Err(_) => Err("the prompt is not valid UTF-8".to_owned()),
        };
    }
    match envelope.decode::<Written>() {
        Ok(Written::Text(prompt) | Written::Named { prompt }) => Ok(prompt.into()),
        Err(_) => {
            Err("invalid prompt: expected text, a JSON string, or an object with the string `prompt`"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use weaver_core::name::TaskType;

    use super::*;

    fn envelope(payload: &'static [u8], content_type: ContentType) -> TaskEnvelope {
        let task_type = TaskType::new(PROMPT_TASK_TYPE).unwrap();
        TaskEnvelope { task_type, payload: Bytes::from_static(payload), content_type }
    }

    #[test]
    fn a_prompt_is_text_in_any_of_three_forms_and_nothing_else() {
        let text = || ContentType::other(PROMPT_CONTENT_TYPE);
        assert_eq!(text_of(&envelope(b"-rf \"x\"", text())).unwrap(), "-rf \"x\"");
        assert_eq!(text_of(&envelope(b"\"h\\u00e9\"", ContentType::JSON)).unwrap(), "hé");
        assert_eq!(text_of(&envelope(b"{\"prompt\": \"hi\"}", ContentType::JSON)).unwrap(), "hi");
        for (payload, form) in
            [(&b"\xff"[..], text()), (b"null", ContentType::JSON), (b"[1]", ContentType::JSON)]
        {
            assert!(text_of(&envelope(payload, form)).is_err(), "{payload:?}");
        }
    }
}
