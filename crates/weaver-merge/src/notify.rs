//! Telling people. A webhook and a command are tasks like any other (`http`, `exec`): retried, logged, and
//! held to the operator's policy on addresses and commands. They are in the queue of the checks, so that
//! whoever runs those runs them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::name::Namespace;
use weaver_core::ports::Store;
use weaver_core::queue::QueueExt;
use weaver_core::task::NewTask;

use crate::check::{CHECK_QUEUE, MERGE_RETRY};
use crate::domain::{Departure, MergeQueue, Notice, QueueEntry, Reason, RunEnd};
use crate::engine::EngineError;

/// How often a message is tried: some seven minutes, as long as a receiver may take to come back from a
/// restart.
const SEND_ATTEMPTS: u32 = 10;

/// Who is told, and in which words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Notifications {
    /// Called with every message as JSON: `{kind, queue, message}`.
    pub webhook: Option<String>,
    /// The name of a command the operator allowed for `exec`, which gets `kind`, `queue` and `message` as
    /// values.
    pub command: Option<String>,
    /// Other words for a kind of message. `{queue}`, `{base}`, `{entry}`, `{change}`, `{position}` and
    /// `{details}` are replaced.
    pub templates: BTreeMap<Kind, String>,
}

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An entry came.
    Enqueued,
    /// An entry left because of a conflict.
    Conflict,
    /// An entry left because a check failed.
    CheckFailed,
    /// An entry left for another reason.
    Removed,
    /// An entry landed.
    Merged,
    /// A move of the base by others was accepted.
    Foreign,
    /// The queue paused.
    Paused,
    /// Something goes wrong and is tried again.
    Error,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Conflict => "conflict",
            Self::CheckFailed => "check_failed",
            Self::Removed => "removed",
            Self::Merged => "merged",
            Self::Foreign => "foreign",
            Self::Paused => "paused",
            Self::Error => "error",
        }
    }

    fn template(self) -> &'static str {
        match self {
            Self::Enqueued => "`{change}` is in the queue for `{base}` at position {position}",
            Self::Conflict => "`{change}` conflicts with `{base}` and left the queue: {details}",
            Self::CheckFailed => "`{change}` left the queue for `{base}`: {details}",
            Self::Removed => "`{change}` left the queue for `{base}`: {details}",
            Self::Merged => "`{change}` landed on `{base}`: {details}",
            Self::Foreign => "`{base}` was moved outside of the queue, which is accepted: {details}",
            Self::Paused => "the queue for `{base}` is paused: {details}",
            Self::Error => "entry {entry} of the queue for `{base}`: {details}",
        }
    }
}

impl Notifications {
    /// The message a notice makes.
    pub fn render(&self, queue: &MergeQueue, notice: &Notice) -> (Kind, String) {
        let (kind, entry, details) = facts(notice);
        let template = self.templates.get(&kind).map_or(kind.template(), String::as_str);
        let position = match notice {
            Notice::Added { position, .. } => position.to_string(),
            _ => String::new(),
        };
        let number = match notice {
            Notice::Trouble { entry, .. } => entry.to_string(),
            _ => entry.map_or_else(String::new, |entry| entry.id.to_string()),
        };
        let change = entry.map_or("", |entry| entry.pull_request.id.as_str());
        let values = [
            ("queue", queue.id.0.as_str()),
            ("base", &queue.base_branch),
            ("entry", &number),
            ("change", change),
            ("position", &position),
            ("details", &details),
        ];
        (kind, fill(template, &values))
    }

    pub(crate) async fn send(
        &self,
        store: &dyn Store,
        namespace: &Namespace,
        queue: &MergeQueue,
        notice: &Notice,
        key: &str,
    ) -> Result<(), EngineError> {
        let (kind, message) = self.render(queue, notice);
        tracing::info!(queue = %queue.id, kind = kind.word(), "{message}");
        let body = serde_json::json!({ "kind": kind, "queue": queue.id, "message": message });
        let webhook =
            self.webhook.as_ref().map(|url| ("http", serde_json::json!({ "url": url, "body": body })));
        let command = self.command.as_ref();
        let command = command.map(|name| ("exec", serde_json::json!({ "command": name, "values": body })));
        for (task_type, payload) in webhook.into_iter().chain(command) {
            let task = NewTask::new(task_type).json(&payload).map_err(|error| EngineError::Unreadable {
                what: key.to_owned(),
                problem: error.to_string(),
            })?;
            // Told twice by two engines, it is sent once.
            let task =
                task.namespace(namespace).queue(CHECK_QUEUE).idempotency_key(format!("{key}:{task_type}"));
            let task = task.max_attempts(SEND_ATTEMPTS).retry(MERGE_RETRY);
            store.enqueue(task).await?;
        }
        Ok(())
    }
}

fn facts(notice: &Notice) -> (Kind, Option<&QueueEntry>, String) {
    match notice {
        Notice::Added { entry, .. } => (Kind::Enqueued, Some(&**entry), String::new()),
        Notice::Left { entry, departure: Departure::Landed, .. } => {
            let commit = entry.merged().map(|merged| merged.commit.to_string());
            (Kind::Merged, Some(&**entry), commit.unwrap_or_default())
        }
        Notice::Left { entry, departure: Departure::Removed(reason), .. } => {
            let (kind, details) = match reason {
                Reason::Conflicted { paths } => (Kind::Conflict, paths.join(", ")),
                Reason::ChecksFailed { .. } => (Kind::CheckFailed, failures(entry)),
                Reason::HookDeclined { text } => (Kind::Removed, format!("a hook declined it: {text}")),
                Reason::MergedOutside => (
                    Kind::Removed,
                    "the base has it through a move outside of this queue, untested".to_owned(),
                ),
                other => (Kind::Removed, other.word().replace('_', " ")),
            };
            (kind, Some(&**entry), details)
        }
        Notice::Foreign { moved, accepted_by, .. } => {
            (Kind::Foreign, None, format!("from {}; accepted by {accepted_by}", moved.describe()))
        }
        Notice::Paused { reason } => (Kind::Paused, None, reason.clone()),
        Notice::Trouble { message, .. } => (Kind::Error, None, message.clone()),
    }
}

/// Which checks failed, with the end of their logs and the task that has all of it.
fn failures(entry: &QueueEntry) -> String {
    let mut lines = Vec::new();
    for check in &entry.checks {
        let red = check.runs.iter().rfind(|run| {
            run.on == crate::domain::On::Candidate && run.end.as_ref().is_some_and(RunEnd::is_red)
        });
        let Some(run) = red else { continue };
        let task = run.task.map_or_else(String::new, |task| format!(" (task {task})"));
        lines.push(match &run.end {
            Some(RunEnd::Failed { summary, .. }) => format!("{summary}{task}"),
            _ => format!("`{}` timed out{task}", check.name),
        });
    }
    lines.join("\n")
}

/// Replaces each `{name}` once over: what is filled in is not looked at again.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let (before, after) = rest.split_at(start);
        text += before;
        let named = values.iter().find_map(|(name, value)| {
            let tail = after[1..].strip_prefix(name)?.strip_prefix('}')?;
            Some((*value, tail))
        });
        match named {
            Some((value, tail)) => {
                text += value;
                rest = tail;
            }
            None => {
                text.push('{');
                rest = &after[1..];
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_and_not_looked_at_again() {
        let values = [("change", "{base}"), ("base", "main")];
        assert_eq!(fill("{change} on {base}, {unknown} {", &values), "{base} on main, {unknown} {");
    }
}
