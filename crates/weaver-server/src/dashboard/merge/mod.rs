//! Merge queues: the list, and what the pages of merge queues share.

mod act;
mod entry;
mod queue;
mod remove;

pub(super) use act::{act, act_on_entry};
pub(super) use entry::show as show_entry;
pub(super) use queue::show as show_queue;

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{MergeCheck, MergeEntry, MergeQueue, MergeReason, MergeStatus};
use weaver_core::name::Namespace;

use super::form::{encoded, path_part};
use super::layout::{self, Head, Html};
use super::text::{number, plain, span, when};
use super::view::View;
use crate::api::{Permission, merge as api};
use crate::problem::Problem;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let queues = api::list_merge_queues(State(view.state.clone()), view.caller.clone()).await?.0.items;
    let body = html! {
        h1 { "Merge queues" }
        @if queues.is_empty() {
            (layout::empty("No merge queues yet. A merge queue tests each change merged onto its base branch, and lands exactly the tested commit.",
                "Create one for a branch of a repository on the server's machine:", "weaver merge add-repo project.git --base main"))
        } @else { (table(&view, &queues)) }
    };
    Ok(layout::page(&view, &Head { title: "Merge queues", section: "Merge queues", live: "any" }, &body))
}

/// Whether the caller has a permission in the access namespace of a queue.
fn may(view: &View, permission: Permission, namespace: &str) -> bool {
    Namespace::new(namespace.to_owned())
        .is_ok_and(|namespace| view.caller.require(permission, &namespace).is_ok())
}

/// The section of the overview, empty without merge queues that the caller may see.
pub(super) async fn section(view: &View) -> Result<Markup, Problem> {
    let queues = api::list_merge_queues(State(view.state.clone()), view.caller.clone()).await?.0.items;
    Ok(html! { @if !queues.is_empty() { h2 { "Merge queues" } (table(view, &queues)) } })
}

fn table(view: &View, queues: &[MergeQueue]) -> Markup {
    html! {
        div.wide { table {
            caption { "Times are from enqueue to landing, over the last 100 changes." }
            thead { tr {
                th scope="col" { "Queue" } th.fit.wide-only scope="col" { "Namespace" } th.n scope="col" { "Queued" } th.n scope="col" { "Landed" } th.n scope="col" { "Removed" }
                th.n scope="col" { "Time to land p50" } th.n scope="col" { "Time to land p95" } th.n.wide-only scope="col" { "Check runs per landing" } th.n.wide-only scope="col" { "Flake rate" }
            } }
            tbody { @for queue in queues { (row(view, queue)) } }
        } }
    }
}

fn row(view: &View, queue: &MergeQueue) -> Markup {
    let (stats, here) = (&queue.stats, queue_link(view, &queue.id));
    let time = |ms: Option<u64>| ms.map_or("–".to_owned(), |ms| span(std::time::Duration::from_millis(ms)));
    let removed: u64 = stats.removed.values().sum();
    html! {
        tr data-key=(queue.id) {
            td.name {
                a href=(here) { (plain(&queue.id)) }
                @if let Some(pause) = &queue.paused { " " b.cancelled { "paused" } br; span.soft { (plain(&pause.reason)) } }
                @if queue.removed.is_some() { " " b.cancelled { "being removed" } }
            }
            td.fit.wide-only { (plain(&queue.namespace)) }
            td.n { a href=(format!("{here}#queued")) { (number(queue.waiting)) } }
            td.n { a href=(format!("{here}#history")) { (number(stats.landed)) } }
            td.n { a href=(format!("{here}#history")) { (number(removed)) } }
            td.n { (time(stats.turnaround_p50_ms)) } td.n { (time(stats.turnaround_p95_ms)) }
            td.n.wide-only { (stats.check_runs_per_landing.map_or("–".to_owned(), |runs| format!("{runs:.1}"))) }
            td.n.wide-only { (stats.flake_rate.map_or("–".to_owned(), |rate| format!("{:.0} %", rate * 100.0))) }
        }
    }
}

/// The URL of a queue's page. Its id may contain slashes, so it is in the query.
fn queue_link(view: &View, id: &str) -> String {
    view.link("/merge/queue", &[("id", id)])
}

pub(super) fn entry_link(view: &View, queue: &str, entry: u64) -> String {
    view.link("/merge/entry", &[("queue", queue), ("entry", &entry.to_string())])
}

/// The URL for a target of the audit log: `queue` or `queue/entry`.
pub(super) fn target_link(view: &View, target: &str) -> String {
    match target.rsplit_once('/').and_then(|(queue, entry)| Some((queue, entry.parse().ok()?))) {
        // A branch name may end in a slash and a number; then this links to an entry that does not exist.
        Some((queue, entry)) if queue.contains(':') => entry_link(view, queue, entry),
        _ => queue_link(view, target),
    }
}

/// The URL of a check's task, which is in the access namespace of its queue.
fn task_link(namespace: &str, id: &str) -> String {
    let path = format!("/tasks/{}", path_part(id));
    if namespace == Namespace::default().as_str() {
        return path;
    }
    format!("{path}?{}", encoded([("namespace", namespace)]))
}

fn status(status: MergeStatus) -> Markup {
    let (class, word) = match status {
        MergeStatus::Pending => ("queued", "queued"),
        MergeStatus::Updating => ("running", "building"),
        MergeStatus::Checking => ("running", "checking"),
        MergeStatus::Ready => ("running", "landing"),
        MergeStatus::Landed => ("succeeded", "landed"),
        MergeStatus::Failed => ("dead", "failed"),
        MergeStatus::Cancelled => ("cancelled", "cancelled"),
    };
    html! { span class=(format!("state {class}")) { (word) } }
}

fn reason(reason: &MergeReason) -> Markup {
    let text = match reason.reason.as_str() {
        "conflicted" => "conflicts with the base branch in",
        "checks_failed" => "check failed that passes on the base branch:",
        "unusable" => "cannot be checked out:",
        "hook_declined" => "declined by a repository hook:",
        "head_changed" => "its branch was pushed to after it was enqueued, and is now at",
        "invalid_config" => "no change could be tested after it:",
        "already_merged" => "already on the base branch",
        "merged_outside" => "merged outside this queue, untested",
        "closed" => "closed",
        "branch_deleted" => "branch deleted",
        "retargeted" => "retargeted to another branch",
        "draft" => "draft",
        "trigger_removed" => "merge trigger removed",
        "cancelled" => "removed by a user",
        "queue_removed" => "the queue was removed",
        other => other,
    };
    html! { (plain(text)) @for (index, detail) in reason.details.iter().enumerate() { @if index > 0 { "," } " " code { (plain(detail)) } } @for landed in &reason.collides_with { "; collides with entry " (landed.entry) " (" (plain(&landed.change)) "), landed as " (short(&landed.commit)) } }
}

fn conclusion(check: &MergeCheck) -> Markup {
    let (class, word) = match check.conclusion.as_str() {
        "passed" => ("succeeded", "passed"),
        "reused" => ("succeeded", "passed (reused)"),
        "flaky" => ("retry_scheduled", "flaky"),
        "failed" => ("dead", "failed"),
        "broken_base" => ("dead", "fails on the base branch too"),
        "unusable" => ("dead", "cannot be checked out"),
        "gave_up" => ("dead", "could not run"),
        "open" => ("running", "running"),
        other => ("queued", other),
    };
    html! { span class=(format!("state {class}")) { (plain(word)) } }
}

/// The checks of an entry, each linked to its latest task.
fn checks(entry: &MergeEntry) -> Markup {
    html! {
        @for check in &entry.checks {
            div {
                @match check.runs.iter().rev().find_map(|run| run.task.as_deref()) {
                    Some(task) => a href=(task_link(&entry.namespace, task)) { (plain(&check.name)) },
                    None => (plain(&check.name)),
                }
                " " (conclusion(check))
            }
        }
        @if entry.checks.is_empty() { span.soft { "–" } }
    }
}

/// An abbreviated commit or tree hash.
fn short(hash: &str) -> Markup {
    html! { code title=(hash) { (hash.get(..10).unwrap_or(hash)) } }
}

/// When it reached its current stage.
fn since(view: &View, entry: &MergeEntry) -> Markup {
    when(entry.completed_at.or(entry.started_at).unwrap_or(entry.enqueued_at), view.now)
}
