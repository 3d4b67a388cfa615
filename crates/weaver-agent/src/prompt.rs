//! Prompts as tasks: the text is the payload, one run is all there is, and a session's prompts come one after another.

use bytes::Bytes;
use serde::Deserialize;
use weaver_client::wire;
use weaver_core::name::SharedText;
use weaver_core::task::{ContentType, NewTask, TaskEnvelope};

/// The type of tasks that are prompts.
pub const PROMPT_TASK_TYPE: &str = "prompt";
/// The form of their payload: the text itself, so that as much of it fits as a store takes.
pub const PROMPT_CONTENT_TYPE: &str = "text/plain; charset=utf-8";
/// An agent has changed files by the time it fails: nothing starts it again unless somebody asks for that.
pub const MAX_ATTEMPTS: u32 = 1;
/// A dead runner is an error, never a silent second run.
pub const MAX_LOSSES: u32 = 0;

/// A prompt, to be run once.
pub fn new_task(text: impl Into<Bytes>) -> NewTask {
    NewTask::new(PROMPT_TASK_TYPE)
        .payload(text, ContentType::other(PROMPT_CONTENT_TYPE))
        .max_attempts(MAX_ATTEMPTS)
        .max_losses(MAX_LOSSES)
}

/// The same, as the next of a session: its prompts never run at once, and in the order they were given.
pub fn in_session(task: NewTask, session: impl Into<SharedText>) -> NewTask {
    let session = session.into();
    task.session_id(session.clone()).serial_key(session)
}

/// What a prompt is if the request leaves it open; other tasks stay as they are.
#[must_use]
pub fn with_defaults(mut task: wire::NewTask) -> wire::NewTask {
    if task.task_type == PROMPT_TASK_TYPE {
        task.max_attempts.get_or_insert(MAX_ATTEMPTS);
        task.max_losses.get_or_insert(MAX_LOSSES);
        task.serial_key = task.serial_key.or_else(|| task.session_id.clone());
    }
    task
}

/// The text of a prompt: a payload of text, a JSON string, or `{"prompt": "…"}`.
///
/// # Errors
/// What it is instead.
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
            Err(_) => Err("the prompt is no text: its bytes are not UTF-8".to_owned()),
        };
    }
    match envelope.decode::<Written>() {
        Ok(Written::Text(prompt) | Written::Named { prompt }) => Ok(prompt.into()),
        Err(_) => Err("a prompt is a text, a JSON string, or an object with the text as `prompt`".to_owned()),
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

    #[test]
    fn a_prompt_runs_once_and_in_its_sessions_turn_unless_asked_otherwise() {
        let prompt = || wire::NewTask {
            task_type: "prompt".into(),
            session_id: Some("s".into()),
            ..Default::default()
        };
        let open = with_defaults(prompt());
        assert_eq!(
            (open.max_attempts, open.max_losses, open.serial_key.as_deref()),
            (Some(1), Some(0), Some("s"))
        );
        let asked = wire::NewTask {
            max_attempts: Some(3),
            max_losses: Some(2),
            serial_key: Some("k".into()),
            ..prompt()
        };
        assert_eq!(with_defaults(asked.clone()), asked);
        let other = wire::NewTask { task_type: "mail".into(), ..prompt() };
        assert_eq!(with_defaults(other.clone()), other);
    }
}
