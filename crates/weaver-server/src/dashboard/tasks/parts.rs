//! Sections of a task's page: documents, timeline, details, commands.

use maud::{Markup, html};
use weaver_api::{Attempt, Json, Task};
use weaver_core::task::AttemptOutcome;

use super::super::layout;
use super::super::schedules;
use super::super::text::{SHOWN_MAX_BYTES, beginning, plain, pretty_json, shell_word, span, when};
use super::super::view::View;
use super::namespace_flag;

/// A payload or a result, cut at [`SHOWN_MAX_BYTES`].
pub(in crate::dashboard) fn document(
    title: &str,
    json: Option<&Json>,
    hex: Option<&str>,
    content_type: &str,
) -> Markup {
    let is_text = content_type.starts_with("text/");
    let text = match (json, hex) {
        (Some(json), _) if is_text => json.decode::<String>().unwrap_or_else(|_| json.as_str().to_owned()),
        // Will be cut anyway, so it is not indented.
        (Some(json), _) if json.as_str().len() > SHOWN_MAX_BYTES => json.as_str().to_owned(),
        (Some(json), _) => pretty_json(json.as_str()),
        (None, Some(hex)) => hex.to_owned(),
        (None, None) => return html! {},
    };
    let (shown, whole) = beginning(&text);
    html! {
        section {
            h2 { (title) @if hex.is_some() { span.soft { " (binary, as hex)" } } }
            pre.wrap[is_text] tabindex="0" aria-label=(title) { (plain(shown)) }
            @if !whole { p.fine { "First " (SHOWN_MAX_BYTES / 1024) " KiB of " (text.len() / 1024) " KiB. The API returns all of it." } }
        }
    }
}

/// Attempts and state changes, oldest first.
pub(super) fn timeline(view: &View, task: &Task) -> Markup {
    html! {
        ol.timeline {
            li { "Created " (when(task.created_at, view.now)) @if let Some(id) = &task.retry_of { " as a retry of " a href=(view.task_link(id)) { "task " (id) } } }
            @for attempt in &task.attempts { (attempt_item(view, attempt)) }
            @if let Some(given) = &task.assignment { li { "Assigned to " (plain(&given.worker)) " " (when(given.assigned_at, view.now)) } }
            @if let Some(held) = task.lease.as_ref().filter(|_| !task.state.is_terminal()) {
                li { "Attempt " (task.attempt) " started " (when(held.started_at, view.now)) " on " (plain(&held.worker)) }
            }
            @if task.state.is_waiting() && task.ready_at > view.now { li { "Due " (when(task.ready_at, view.now)) } }
            @if let Some(at) = task.finished_at { li { "Final state " (layout::state(task.state)) " " (when(at, view.now)) } }
        }
    }
}

fn attempt_item(view: &View, attempt: &Attempt) -> Markup {
    html! {
        li {
            "Attempt " (attempt.attempt) " " b { (outcome(attempt.outcome)) } " " (when(attempt.ended_at, view.now))
            " on " (plain(&attempt.worker))
            @if let Some(started) = attempt.started_at { ", after " (span(attempt.ended_at.since(started))) }
            @if let Some(error) = &attempt.error { pre.wrap tabindex="0" aria-label=(format!("Error of attempt {}", attempt.attempt)) { (plain(beginning(error).0)) } }
        }
    }
}

fn outcome(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Succeeded => "succeeded",
        AttemptOutcome::Failed => "failed",
        AttemptOutcome::TimedOut => "timed out",
        AttemptOutcome::Lost => "lost (lease expired)",
        AttemptOutcome::Released => "released",
        AttemptOutcome::Snoozed => "snoozed",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Orphaned => "orphaned",
    }
}

pub(super) fn details(view: &View, task: &Task) -> Markup {
    let list = |name: &str, value: &str| view.link("/tasks", &[(name, value)]);
    html! {
        dl.details {
            dt { "Priority" } dd { (task.priority) }
            dt { "Attempts" } dd { (task.executions) " (failed " (task.failures) " of " (task.max_attempts) ", lost " (task.losses) " of " (task.max_losses) ")" }
            dt { "Version" } dd { (task.version) ", lease renewals " (task.renewals) }
            dt { "Created" } dd { time datetime=(task.created_at) { (task.created_at) } }
            @if let Some(at) = task.first_started_at { dt { "First started" } dd { time datetime=(at) { (at) } } }
            @if let Some(at) = task.finished_at { dt { "Finished" } dd { time datetime=(at) { (at) } } }
            @if let Some(group) = &task.task_group_id { dt { "Group" } dd { a href=(view.link("/group", &[("id", group)])) { (plain(group)) } } }
            @if let Some(session) = &task.session_id { dt { "Session" } dd { a href=(list("session", session)) { (plain(session)) } } }
            @if let Some(key) = &task.serial_key { dt { "Serial key" } dd { (plain(key)) } }
            @if let Some(key) = &task.idempotency_key { dt { "Idempotency key" } dd { (plain(key)) } }
            @if let Some(id) = &task.external_id { dt { "External ID" } dd { (plain(id)) } }
            @if let Some(id) = &task.job_definition_id { dt { "Schedule" } dd { a href=(schedules::link(view, id)) { (plain(id)) } @if let Some(at) = task.scheduled_for { ", scheduled for " (at) } } }
            @if let Some(ms) = task.timeout_ms { dt { "Timeout" } dd { (span(std::time::Duration::from_millis(ms))) } }
            @if let Some(at) = task.expires_at { dt { "Expires" } dd { (when(at, view.now)) } }
            @if !task.labels.is_empty() {
                dt { "Labels" }
                dd { @for (name, value) in &task.labels { a href=(list("label", &format!("{name}={value}"))) { (plain(name)) "=" (plain(value)) } " " } }
            }
        }
    }
}

pub(super) fn commands(view: &View, task: &Task) -> Markup {
    let flag = namespace_flag(view);
    let action = if task.state.is_terminal() { "retry" } else { "cancel" };
    let address = format!("$WEAVER_SERVER/api/v1/tasks/{}{}", task.id, view.link("", &[]));
    html! {
        section {
            h2 { "CLI" }
            (layout::command(&format!("weaver tasks show {}{flag}", task.id)))
            (layout::command(&format!("weaver tasks logs {} -f{flag}", task.id)))
            (layout::command(&format!("weaver tasks {action} {}{flag}", task.id)))
            (layout::command(&format!("weaver enqueue {} {}{flag}", shell_word(&task.task_type), shell_word(short(task)))))
            (layout::command(&format!("curl -H \"Authorization: Bearer $(weaver token)\" \"{address}\"")))
        }
    }
}

/// The payload if it fits a command line, else `…`.
fn short(task: &Task) -> &str {
    task.payload.as_ref().map(Json::as_str).filter(|text| text.len() <= 300).unwrap_or("…")
}
