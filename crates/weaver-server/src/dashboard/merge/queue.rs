//! One merge queue: its entries, its history, and forms to change it.

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{MergeEntriesQuery, MergeEntry, MergeQueue, OnForeign, Problem as WireProblem};

use super::super::layout::{self, Head, Html};
use super::super::text::{number, plain, plain_attribute, sentence, shell_word, when};
use super::super::view::View;
use super::{checks, entry_link, may, queue_link, reason, short, since, status};
use crate::api::extract::{Name, Params};
use crate::api::{Permission, merge as api};
use crate::problem::Problem;

const HISTORY: u32 = 30;
const PRIORITIES: std::ops::RangeInclusive<u8> = 0..=9;

/// A change that could not be enqueued.
pub(super) struct Refused {
    pub(super) change: String,
    pub(super) problem: WireProblem,
}

pub(in crate::dashboard) async fn show(view: View) -> Result<Html, Problem> {
    let id = view.query.text("id").unwrap_or_default();
    page(&view, &id, None).await
}

pub(super) async fn page(view: &View, id: &str, refused: Option<&Refused>) -> Result<Html, Problem> {
    let (state, caller) = (|| State(view.state.clone()), || view.caller.clone());
    let queue = api::get_merge_queue(state(), caller(), Name(id.to_owned())).await?.0;
    let query = Params(MergeEntriesQuery { history: Some(HISTORY) });
    let entries = api::list_merge_entries(state(), caller(), Name(id.to_owned()), query).await?.0;
    let body = html! {
        h1 { "Merge queue " (plain(id)) @if queue.paused.is_some() { " " span.state.cancelled { "paused" } } }
        p { a href=(view.link("/merge", &[])) { "All merge queues" } span.soft { " · " (plain(&queue.location)) ", branch " (plain(&queue.base_branch)) ", namespace " (plain(&queue.namespace)) } }
        @if let Some(pause) = &queue.paused { p.alert { "Paused " (when(pause.since, view.now)) ": " (plain(&pause.reason)) ". Nothing new starts until it is resumed." } }
        @if let Some(removal) = &queue.removed { p.alert { "Removed " (when(removal.at, view.now)) @if let Some(by) = &removal.by { " by " (plain(by)) } ". Its history and its signed chain are kept, and continue if it is added again." } }
        @else if may(view, Permission::ManageMerge, &queue.namespace) { (actions(view, &queue)) }
        @if let Some(chain) = &queue.chain {
            p.soft { "Landing chain: link " (chain.sequence) ", base branch at " (short(&chain.commit)) "; pushes from outside the queue " @match queue.on_foreign { OnForeign::Accept => "are accepted", OnForeign::Pause => "pause the queue" } "." }
        }
        h2 #queued { "Queued: " (number(queue.waiting)) }
        @if queue.removed.is_some() { p.soft { "A removed queue takes no changes." } }
        @else if entries.waiting.is_empty() {
            (layout::empty("The queue is empty.", "Enqueue a change below, or from a terminal:", &format!("weaver merge enqueue --queue {} --head my-branch", shell_word(id))))
        } @else { (queued(view, &entries.waiting, may(view, Permission::ManageMerge, &queue.namespace))) }
        @if queue.removed.is_none() && may(view, Permission::Enqueue, &queue.namespace) { (new_form(view, id, refused)) }
        h2 #history { "History" }
        @if entries.history.is_empty() { p.soft { "No completed entries yet." } }
        @else { (history(view, &entries.history)) }
    };
    let title = format!("Merge queue {id}");
    let live = if refused.is_none() { "any" } else { "" };
    Ok(layout::page(view, &Head { title: &title, section: "Merge queues", live }, &body))
}

fn actions(view: &View, queue: &MergeQueue) -> Markup {
    let here = queue_link(view, &queue.id);
    html! {
        div.row {
            @if let Some(pause) = &queue.paused {
                (layout::button(view, &here, "Resume", &[("action", "resume")], "primary"))
                @if matches!(pause.cause.as_str(), "foreign" | "moved_back") { (accept(view, &here)) }
            }
            @else {
                form.inline method="post" action=(here) {
                    (layout::key(view))
                    input name="reason" maxlength="1000" placeholder="Reason, shown to others" aria-label="Pause reason";
                    " " button name="action" value="pause" { "Pause" }
                }
            }
            span.soft { "Queue priority" }
            (priority(view, &here, queue.priority, "Priority of the queue"))
            (layout::button(view, &here, "Remove queue…", &[("action", "remove")], "danger"))
        }
    }
}

/// Accepts a push from outside the queue. The commit is entered so that a later push is not accepted unseen.
fn accept(view: &View, here: &str) -> Markup {
    html! {
        form.inline method="post" action=(here) {
            (layout::key(view))
            input name="commit" required pattern="[0-9a-f]{40}|[0-9a-f]{64}" placeholder="Commit the branch was moved to" aria-label="Commit to accept" autocomplete="off" spellcheck="false";
            " " button name="action" value="accept" { "Accept untested" }
        }
    }
}

fn priority(view: &View, action: &str, now: u8, label: &str) -> Markup {
    html! {
        form.inline method="post" action=(action) {
            (layout::key(view))
            select name="priority" aria-label=(label) {
                @for value in PRIORITIES { option value=(value) selected[value == now] { (value) @if value == 0 { " (highest)" } @else if value == 9 { " (lowest)" } } }
            }
            " " button name="action" value="priority" { "Set" }
        }
    }
}

fn queued(view: &View, entries: &[MergeEntry], may: bool) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th.n.fit scope="col" { "Position" } th scope="col" { "Change" } th.fit scope="col" { "Status" } th.fit scope="col" { "Head" } th.fit scope="col" { "Since" } th.fit scope="col" { "Candidate" }
                th scope="col" { "Checks" } th.fit scope="col" { "Priority" } @if may { th.fit scope="col" { "Actions" } }
            } }
            tbody { @for entry in entries {
                @let here = entry_link(view, &entry.queue, entry.entry);
                tr data-key=(entry.entry) {
                    td.n.fit { (entry.position.unwrap_or_default()) }
                    td.name {
                        a href=(here) { (plain(&entry.change)) }
                        @if let Some(fault) = &entry.fault { br; span.soft { (plain(&sentence(&fault.message))) " Next retry " (when(fault.retry_at, view.now)) "." } }
                    }
                    td.fit { (status(entry.status)) }
                    td.fit { (pinned(entry)) }
                    td.fit { (since(view, entry)) }
                    td.fit { @match entry.candidate.as_ref().and_then(|candidate| candidate.commit.as_deref()) { Some(commit) => (short(commit)), None => span.soft { "–" } } }
                    td { (checks(entry)) }
                    td.fit { @if may { (priority(view, &here, entry.priority, &format!("Priority of {}", plain_attribute(&entry.change)))) } @else { (entry.priority) } }
                    @if may { td.fit { (layout::button(view, &here, "Remove", &[("action", "cancel")], "danger")) } }
                }
            } }
        } }
    }
}

/// The commit, and who enqueued it.
fn pinned(entry: &MergeEntry) -> Markup {
    html! { (short(&entry.head)) @if let Some(by) = &entry.enqueued_by { br; span.soft { "by " (plain(by)) } } }
}

fn history(view: &View, entries: &[MergeEntry]) -> Markup {
    html! {
        div.wide { table {
            caption { "Newest first." }
            thead { tr {
                th.n.fit scope="col" { "Entry" } th scope="col" { "Change" } th.fit scope="col" { "Head" } th.fit scope="col" { "Status" } th scope="col" { "Reason" } th scope="col" { "Checks" }
                th.fit scope="col" { "Landed commit" } th.fit scope="col" { "Completed" }
            } }
            tbody { @for entry in entries {
                tr data-key=(format!("history-{}", entry.entry)) {
                    td.n.fit { (entry.entry) }
                    td.name { a href=(entry_link(view, &entry.queue, entry.entry)) { (plain(&entry.change)) } }
                    td.fit { (pinned(entry)) }
                    td.fit { (status(entry.status)) }
                    td.when { @match &entry.reason { Some(cause) => (reason(cause)), None => span.soft { "–" } } }
                    td { (checks(entry)) }
                    td.fit { @match &entry.certificate { Some(landed) => (short(&landed.commit)), None => span.soft { "–" } } }
                    td.fit { (since(view, entry)) }
                }
            } }
        } }
    }
}

fn new_form(view: &View, id: &str, refused: Option<&Refused>) -> Markup {
    html! {
        @if let Some(refused) = refused {
            div.alert role="alert" {
                p { b { "Not enqueued. " } (plain(&sentence(&refused.problem.detail))) }
                p { (plain(&sentence(&refused.problem.hint))) }
            }
        }
        form.filters.enqueue method="post" action=(queue_link(view, id)) {
            (layout::key(view))
            label { "Branch to enqueue" input name="change" required maxlength="255" value=[refused.map(|refused| &refused.change)] autocomplete="off" spellcheck="false" aria-invalid=[refused.map(|_| "true")]; }
            button.primary name="action" value="enqueue" { "Enqueue" }
        }
    }
}
