//! Merge queues: who is in line, what is tested, and what landed.

mod act;
mod entry;
mod queue;

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
            (layout::empty("There is no merge queue here yet. A merge queue tests each change on the tip of its branch, and lands exactly what it tested.",
                "Give one to a branch of a repository on the server's machine:", "weaver merge add-repo project.git --base main"))
        } @else { (table(&view, &queues)) }
    };
    Ok(layout::page(&view, &Head { title: "Merge queues", section: "Merge", live: "any" }, &body))
}

/// Whether there is anything for whoever looks: merge queues are in a namespace of their own.
pub(super) fn is_shown(view: &View) -> bool {
    view.caller.require(Permission::Read, view.state.merge.namespace()).is_ok()
}

fn may(view: &View, permission: Permission) -> bool {
    view.caller.require(permission, view.state.merge.namespace()).is_ok()
}

/// For the overview, if there are any.
pub(super) async fn section(view: &View) -> Result<Markup, Problem> {
    if !is_shown(view) {
        return Ok(html! {});
    }
    let queues = api::list_merge_queues(State(view.state.clone()), view.caller.clone()).await?.0.items;
    Ok(html! { @if !queues.is_empty() { h2 { "Merge queues" } (table(view, &queues)) } })
}

fn table(view: &View, queues: &[MergeQueue]) -> Markup {
    html! {
        div.wide { table {
            caption { "Times are of the last 100 changes, from coming to landing." }
            thead { tr {
                th scope="col" { "Queue" } th.n scope="col" { "In line" } th.n scope="col" { "Landed" } th.n scope="col" { "Turned away" }
                th.n scope="col" { "Time p50" } th.n scope="col" { "Time p95" } th.n.wide-only scope="col" { "Runs per landing" } th.n.wide-only scope="col" { "Flaky" }
            } }
            tbody { @for queue in queues { (row(view, queue)) } }
        } }
    }
}

fn row(view: &View, queue: &MergeQueue) -> Markup {
    let (figures, here) = (&queue.figures, queue_link(view, &queue.id));
    let time = |ms: Option<u64>| ms.map_or("–".to_owned(), |ms| span(std::time::Duration::from_millis(ms)));
    let removed: u64 = figures.removed.values().sum();
    html! {
        tr data-key=(queue.id) {
            td.name {
                a href=(here) { (plain(&queue.id)) }
                @if let Some(pause) = &queue.paused { " " b.cancelled { "paused" } br; span.soft { (plain(&pause.reason)) } }
            }
            td.n { a href=(format!("{here}#waiting")) { (number(queue.waiting)) } }
            td.n { a href=(format!("{here}#left")) { (number(figures.landed)) } }
            td.n { a href=(format!("{here}#left")) { (number(removed)) } }
            td.n { (time(figures.turnaround_p50_ms)) } td.n { (time(figures.turnaround_p95_ms)) }
            td.n.wide-only { (figures.check_runs_per_landing.map_or("–".to_owned(), |runs| format!("{runs:.1}"))) }
            td.n.wide-only { (figures.flake_rate.map_or("–".to_owned(), |rate| format!("{:.0} %", rate * 100.0))) }
        }
    }
}

/// The page of a queue. Its name holds what a path cannot.
fn queue_link(view: &View, id: &str) -> String {
    view.link("/merge/queue", &[("id", id)])
}

/// The page of an entry.
pub(super) fn entry_link(view: &View, queue: &str, entry: u64) -> String {
    view.link("/merge/entry", &[("queue", queue), ("entry", &entry.to_string())])
}

/// What a target of the journal is about: `queue` or `queue/entry`.
pub(super) fn target_link(view: &View, target: &str) -> String {
    match target.rsplit_once('/').and_then(|(queue, entry)| Some((queue, entry.parse().ok()?))) {
        // A branch may end in a number after a slash; then this is the entry of a queue that is not there.
        Some((queue, entry)) if queue.contains(':') => entry_link(view, queue, entry),
        _ => queue_link(view, target),
    }
}

/// A task of a check: it is where the merge queues are, whatever namespace is looked at.
fn task_link(view: &View, id: &str) -> String {
    let namespace = view.state.merge.namespace();
    let path = format!("/tasks/{}", path_part(id));
    if *namespace == Namespace::default() {
        return path;
    }
    format!("{path}?{}", encoded([("namespace", namespace.as_str())]))
}

fn status(status: MergeStatus) -> Markup {
    let (class, word) = match status {
        MergeStatus::Pending => ("queued", "waiting"),
        MergeStatus::Updating => ("running", "building"),
        MergeStatus::Checking => ("running", "checking"),
        MergeStatus::Ready => ("running", "landing"),
        MergeStatus::Landed => ("succeeded", "landed"),
        MergeStatus::Failed => ("dead", "failed"),
        MergeStatus::Cancelled => ("cancelled", "taken out"),
    };
    html! { span class=(format!("state {class}")) { (word) } }
}

fn reason(reason: &MergeReason) -> Markup {
    let said = match reason.reason.as_str() {
        "conflicted" => "it conflicts with the branch in",
        "checks_failed" => "a check fails on it and not without it:",
        "hook_declined" => "a hook of the repository declined it:",
        "already_merged" => "the branch has it already",
        "merged_outside" => "the branch has it through a move outside of this queue, untested",
        "closed" => "it was closed",
        "branch_deleted" => "its branch was deleted",
        "retargeted" => "it is for another branch now",
        "draft" => "it is a draft",
        "trigger_removed" => "what put it in line was taken back",
        "cancelled" => "somebody took it out",
        other => other,
    };
    html! { (plain(said)) @for (index, detail) in reason.details.iter().enumerate() { @if index > 0 { "," } " " code { (plain(detail)) } } }
}

fn judgement(check: &MergeCheck) -> Markup {
    let (class, word) = match check.judgement.as_str() {
        "passed" => ("succeeded", "passed"),
        "reused" => ("succeeded", "passed before"),
        "flaky" => ("retry_scheduled", "flaky"),
        "failed" => ("dead", "failed"),
        "broken_base" => ("dead", "fails on the branch too"),
        "gave_up" => ("dead", "cannot be run"),
        "open" => ("running", "under way"),
        other => ("queued", other),
    };
    html! { span class=(format!("state {class}")) { (plain(word)) } }
}

/// The checks in short: each links to the task that ran last, where its log is.
fn checks(view: &View, entry: &MergeEntry) -> Markup {
    html! {
        @for check in &entry.checks {
            div {
                @match check.runs.iter().rev().find_map(|run| run.task.as_deref()) {
                    Some(task) => a href=(task_link(view, task)) { (plain(&check.name)) },
                    None => (plain(&check.name)),
                }
                " " (judgement(check))
            }
        }
        @if entry.checks.is_empty() { span.soft { "–" } }
    }
}

/// A commit or a tree, as much of it as people read.
fn short(hash: &str) -> Markup {
    html! { code title=(hash) { (hash.get(..10).unwrap_or(hash)) } }
}

/// Since when it is as it is.
fn since(view: &View, entry: &MergeEntry) -> Markup {
    when(entry.completed_at.or(entry.started_at).unwrap_or(entry.enqueued_at), view.now)
}
