//! Notifications: a webhook and a command.
//!
//! Both are ordinary tasks (`http`, `exec`): retried, logged, and subject to the operator's policy on
//! addresses and commands. They are enqueued to the queue of the checks, so the same workers run them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::name::Namespace;
use weaver_core::ports::Store;
use weaver_core::queue::QueueExt;
use weaver_core::task::NewTask;

use crate::check::{CHECK_QUEUE, MERGE_RETRY};
use crate::domain::{EntryOutcome, MergeQueue, Notice, QueueEntry, Reason, RunOutcome};
use crate::engine::EngineError;

/// Attempts per notification: about seven minutes, enough for a receiver to restart.
const SEND_ATTEMPTS: u32 = 10;

/// Where notifications are sent, and their texts. Nothing is sent by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Notifications {
    /// URL that receives every notification as JSON: `{kind, queue, message}`.
    pub webhook: Option<String>,
    /// Name of a command that the operator allowed for `exec`. It gets the values `kind`, `queue` and
    /// `message`.
    pub command: Option<String>,
    /// Templates that replace the default text of a kind. Placeholders: `{queue}`, `{base}`, `{entry}`,
    /// `{change}`, `{head}`, `{by}` (who enqueued it), `{position}` and `{details}`.
    pub templates: BTreeMap<Kind, String>,
}

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An entry was enqueued.
    Enqueued,
    /// An entry was ejected because it conflicts with the base.
    Conflict,
    /// An entry was ejected because a check failed.
    CheckFailed,
    /// An entry was removed for another reason.
    Removed,
    /// An entry landed on the base.
    Merged,
    /// A change of the base outside the queue was accepted.
    Foreign,
    /// The queue was paused, by an operator or by itself.
    Paused,
    /// A step keeps failing and is retried.
    Error,
    /// The queue was removed by an operator.
    QueueRemoved,
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
            Self::QueueRemoved => "queue_removed",
        }
    }

    fn template(self) -> &'static str {
        match self {
            Self::Enqueued => {
                "`{change}` ({head}) was added to the merge queue for `{base}` at position {position} by {by}"
            }
            Self::Conflict => "`{change}` ({head}) was ejected: it conflicts with `{base}` in {details}",
            Self::CheckFailed => {
                "`{change}` ({head}) was ejected from the merge queue for `{base}`: {details}"
            }
            Self::Removed => "`{change}` ({head}) was removed from the merge queue for `{base}`: {details}",
            Self::Merged => "`{change}` ({head}) landed on `{base}`: {details}",
            Self::Foreign => "accepted a change of `{base}` outside the merge queue: {details}",
            Self::Paused => "the merge queue for `{base}` is paused: {details}",
            Self::QueueRemoved => "the merge queue for `{base}` was removed: {details}",
            Self::Error => {
                "entry {entry} of the merge queue for `{base}` keeps failing and is retried: {details}"
            }
        }
    }
}

impl Notifications {
    /// The kind and the text of a notice's notification.
    pub fn render(&self, queue: &MergeQueue, notice: &Notice) -> (Kind, String) {
        let (kind, entry, details) = describe(notice);
        let template = self.templates.get(&kind).map_or(kind.template(), String::as_str);
        let position = match notice {
            Notice::Added { position, .. } => position.to_string(),
            _ => String::new(),
        };
        let number = match notice {
            Notice::Fault { entry, .. } => entry.to_string(),
            _ => entry.map_or_else(String::new, |entry| entry.id.to_string()),
        };
        let change = entry.map_or("", |entry| entry.pull_request.id.as_str());
        let head = entry.map_or("", |entry| entry.pull_request.head.as_str());
        let by = entry.map_or("", |entry| entry.enqueued_by.as_deref().unwrap_or("an unknown user"));
        let values = [
            ("queue", queue.id.0.as_str()),
            ("base", &queue.base_branch),
            ("entry", &number),
            ("change", change),
            ("head", head),
            ("by", by),
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
            // Two engines may publish the same notice: the key makes it one task.
            let task =
                task.namespace(namespace).queue(CHECK_QUEUE).idempotency_key(format!("{key}:{task_type}"));
            let task = task.max_attempts(SEND_ATTEMPTS).retry(MERGE_RETRY);
            store.enqueue(task).await?;
        }
        Ok(())
    }
}

fn describe(notice: &Notice) -> (Kind, Option<&QueueEntry>, String) {
    match notice {
        Notice::Added { entry, .. } => (Kind::Enqueued, Some(&**entry), String::new()),
        Notice::Completed { entry, outcome: EntryOutcome::Landed, .. } => {
            let commit = entry.merged().map(|merged| merged.commit.to_string());
            (Kind::Merged, Some(&**entry), commit.unwrap_or_default())
        }
        Notice::Completed { entry, outcome: EntryOutcome::Removed(reason), .. } => {
            let (kind, details) = match reason {
                Reason::Conflicted { paths, with } => {
                    let with: String =
                        with.iter().map(|landed| format!("; with {}", landed.describe())).collect();
                    (Kind::Conflict, paths.join(", ") + &with)
                }
                Reason::InvalidConfig { problem } => {
                    (Kind::Removed, format!("no change could be tested after it: {problem}"))
                }
                Reason::ChecksFailed { .. } => (Kind::CheckFailed, failures(entry)),
                Reason::Unusable { problem } => (Kind::Removed, format!("unusable: {problem}")),
                Reason::HookDeclined { text } => (Kind::Removed, format!("declined by a hook: {text}")),
                Reason::HeadChanged { to } => {
                    let from = &entry.pull_request.head;
                    (
                        Kind::Removed,
                        format!("its branch was pushed to: {from} was enqueued, now it is at {to}"),
                    )
                }
                Reason::QueueRemoved => (Kind::Removed, "the queue itself was removed".to_owned()),
                Reason::MergedOutside => {
                    (Kind::Removed, "merged into the base outside this queue, untested".to_owned())
                }
                other => (Kind::Removed, other.word().replace('_', " ")),
            };
            (kind, Some(&**entry), details)
        }
        Notice::Foreign { moved, accepted_by, .. } => {
            (Kind::Foreign, None, format!("from {}; accepted by {accepted_by}", moved.describe()))
        }
        Notice::Paused { reason } => (Kind::Paused, None, reason.clone()),
        Notice::Fault { message, .. } => (Kind::Error, None, message.clone()),
        Notice::QueueRemoved { by, entries } => {
            let by = by.as_deref().unwrap_or("an operator");
            (Kind::QueueRemoved, None, format!("by {by}; {entries} entries were cancelled"))
        }
    }
}

/// The failed checks, each with the tail of its log and the task that has the whole log.
fn failures(entry: &QueueEntry) -> String {
    let mut lines = Vec::new();
    for check in &entry.checks {
        let failed = check.runs.iter().rfind(|run| {
            run.on == crate::domain::CheckTarget::Candidate
                && run.outcome.as_ref().is_some_and(RunOutcome::is_failure)
        });
        let Some(run) = failed else { continue };
        let task = run.task.map_or_else(String::new, |task| format!(" (task {task})"));
        lines.push(match &run.outcome {
            Some(RunOutcome::Failed { summary, .. }) => format!("{summary}{task}"),
            Some(RunOutcome::Unusable { problem }) => format!("cannot be checked out: {problem}{task}"),
            _ => format!("`{}` timed out{task}", check.name),
        });
    }
    lines.join("\n")
}

/// Replaces placeholders in one pass: a substituted value is not expanded again.
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
    fn placeholders_are_replaced_in_one_pass() {
        let values = [("change", "{base}"), ("base", "main")];
        assert_eq!(fill("{change} on {base}, {unknown} {", &values), "{base} on main, {unknown} {");
    }
}
