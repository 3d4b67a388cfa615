//! One merge queue: its line, what left it, and the ways to change it.

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{MergeEntriesQuery, MergeEntry, MergeQueue, OnForeign, Problem as Wrong};

use super::super::layout::{self, Head, Html};
use super::super::text::{number, plain, plain_attribute, sentence, shell_word, when};
use super::super::view::View;
use super::{checks, entry_link, may, queue_link, reason, short, since, status};
use crate::api::extract::{Name, Params};
use crate::api::{Permission, merge as api};
use crate::problem::Problem;

/// Entries that left and are shown.
const LEFT: u32 = 30;
const PRIORITIES: std::ops::RangeInclusive<u8> = 0..=9;

/// A change that was not let into the line.
pub(super) struct Refused {
    pub(super) change: String,
    pub(super) why: Wrong,
}

pub(in crate::dashboard) async fn show(view: View) -> Result<Html, Problem> {
    let id = view.query.text("id").unwrap_or_default();
    page(&view, &id, None).await
}

pub(super) async fn page(view: &View, id: &str, refused: Option<&Refused>) -> Result<Html, Problem> {
    let (state, caller) = (|| State(view.state.clone()), || view.caller.clone());
    let queue = api::get_merge_queue(state(), caller(), Name(id.to_owned())).await?.0;
    let query = Params(MergeEntriesQuery { departed: Some(LEFT) });
    let entries = api::list_merge_entries(state(), caller(), Name(id.to_owned()), query).await?.0;
    let body = html! {
        h1 { "Merge queue " (plain(id)) @if queue.paused.is_some() { " " span.state.cancelled { "paused" } } }
        p { a href=(view.link("/merge", &[])) { "All merge queues" } span.soft { " · " (plain(&queue.location)) ", branch " (plain(&queue.base_branch)) } }
        @if let Some(pause) = &queue.paused { p.alert { "Paused " (when(pause.since, view.now)) ": " (plain(&pause.reason)) ". Nothing new is started." } }
        @if may(view, Permission::ManageMerge) { (taps(view, &queue)) }
        @if let Some(chain) = &queue.chain {
            p.soft { "Chain of landings: link " (chain.sequence) ", branch at " (short(&chain.commit)) "; moves by others " @match queue.on_foreign { OnForeign::Accept => "are accepted", OnForeign::Pause => "pause the queue" } "." }
        }
        h2 #waiting { "In line: " (number(queue.waiting)) }
        @if entries.waiting.is_empty() {
            (layout::empty("Nothing is in line.", "Put a change in below, or in a terminal:", &format!("weaver merge enqueue --queue {} --head my-branch", shell_word(id))))
        } @else { (line(view, &entries.waiting)) }
        @if may(view, Permission::Enqueue) { (new_form(view, id, refused)) }
        h2 #left { "Left" }
        @if entries.departed.is_empty() { p.soft { "Nothing has left yet." } } @else { (gone(view, &entries.departed)) }
    };
    let title = format!("Merge queue {id}");
    let live = if refused.is_none() { "any" } else { "" };
    Ok(layout::page(view, &Head { title: &title, section: "Merge", live }, &body))
}

fn taps(view: &View, queue: &MergeQueue) -> Markup {
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
                    input name="reason" maxlength="1000" placeholder="Why, for others" aria-label="Reason for the pause";
                    " " button name="action" value="pause" { "Pause" }
                }
            }
            span.soft { "Priority among the queues" }
            (priority(view, &here, queue.priority, "Priority of the queue"))
        }
    }
}

/// What others did to the branch is accepted by its commit: whoever accepts it has looked at it.
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
                @for value in PRIORITIES { option value=(value) selected[value == now] { (value) @if value == 0 { " first" } @else if value == 9 { " last" } } }
            }
            " " button name="action" value="priority" { "Set" }
        }
    }
}

fn line(view: &View, entries: &[MergeEntry]) -> Markup {
    let may = may(view, Permission::ManageMerge);
    html! {
        div.wide { table {
            thead { tr {
                th.n.fit scope="col" { "Position" } th scope="col" { "Change" } th.fit scope="col" { "Status" } th.fit scope="col" { "Since" } th.fit scope="col" { "Candidate" }
                th scope="col" { "Checks" } th.fit scope="col" { "Priority" } @if may { th.fit scope="col" { "Take out" } }
            } }
            tbody { @for entry in entries {
                @let here = entry_link(view, &entry.queue, entry.entry);
                tr data-key=(entry.entry) {
                    td.n.fit { (entry.position.unwrap_or_default()) }
                    td.name {
                        a href=(here) { (plain(&entry.change)) }
                        @if let Some(trouble) = &entry.trouble { br; span.soft { (plain(&sentence(&trouble.message))) " Tried again " (when(trouble.retry_at, view.now)) "." } }
                    }
                    td.fit { (status(entry.status)) }
                    td.fit { (since(view, entry)) }
                    td.fit { @match entry.candidate.as_ref().and_then(|candidate| candidate.commit.as_deref()) { Some(commit) => (short(commit)), None => span.soft { "–" } } }
                    td { (checks(view, entry)) }
                    td.fit { @if may { (priority(view, &here, entry.priority, &format!("Priority of {}", plain_attribute(&entry.change)))) } @else { (entry.priority) } }
                    @if may { td.fit { (layout::button(view, &here, "Cancel", &[("action", "cancel")], "danger")) } }
                }
            } }
        } }
    }
}

fn gone(view: &View, entries: &[MergeEntry]) -> Markup {
    html! {
        div.wide { table {
            caption { "The latest first." }
            thead { tr {
                th.n.fit scope="col" { "Entry" } th scope="col" { "Change" } th.fit scope="col" { "How" } th scope="col" { "Why" } th scope="col" { "Checks" }
                th.fit scope="col" { "Landed as" } th.fit scope="col" { "When" }
            } }
            tbody { @for entry in entries {
                tr data-key=(format!("left-{}", entry.entry)) {
                    td.n.fit { (entry.entry) }
                    td.name { a href=(entry_link(view, &entry.queue, entry.entry)) { (plain(&entry.change)) } }
                    td.fit { (status(entry.status)) }
                    td.when { @match &entry.reason { Some(why) => (reason(why)), None => span.soft { "–" } } }
                    td { (checks(view, entry)) }
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
                p { b { "Not put in line. " } (plain(&sentence(&refused.why.detail))) }
                p { (plain(&sentence(&refused.why.next))) }
            }
        }
        form.filters.join method="post" action=(queue_link(view, id)) {
            (layout::key(view))
            label { "Put a change in line: its branch" input name="change" required maxlength="255" value=[refused.map(|refused| &refused.change)] autocomplete="off" spellcheck="false" aria-invalid=[refused.map(|_| "true")]; }
            button.primary name="action" value="enqueue" { "Put in line" }
        }
    }
}
