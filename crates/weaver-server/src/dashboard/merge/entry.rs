//! One entry of a merge queue: what is tested or was, how its checks ended, and what landed.

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{MergeCertificate, MergeCheck, MergeEntry, MergeRun};

use super::super::layout::{self, Head, Html};
use super::super::text::{beginning, plain, sentence, when};
use super::super::view::View;
use super::{entry_link, judgement, may, queue_link, reason, status, task_link};
use crate::api::merge::EntryPath;
use crate::api::{Permission, merge as api};
use crate::problem::Problem;

pub(in crate::dashboard) async fn show(view: View) -> Result<Html, Problem> {
    let (state, path) = (State(view.state.clone()), path(&view)?);
    let entry = api::get_merge_entry(state, view.caller.clone(), path).await?.0;
    let here = entry_link(&view, &entry.queue, entry.entry);
    let body = html! {
        h1 { "Change " (plain(&entry.change)) " " (status(entry.status)) }
        p { a href=(queue_link(&view, &entry.queue)) { "Merge queue " (plain(&entry.queue)) } span.soft { " · entry " (entry.entry) } }
        @if may(&view, Permission::ManageMerge) && entry.position.is_some() {
            div.row { (layout::button(&view, &here, "Cancel", &[("action", "cancel")], "danger")) }
        }
        (why(&view, &entry))
        div.columns {
            div {
                h2 { "Checks" }
                @if entry.checks.is_empty() { p.soft { "None yet: they run on its candidate." } }
                @for check in &entry.checks { (check_part(&view, check)) }
                @if let Some(certificate) = &entry.certificate { (certified(&view, certificate).await?) }
            }
            div { h2 { "Facts" } (facts(&view, &entry)) }
        }
    };
    let title = format!("Change {}", entry.change);
    Ok(layout::page(&view, &Head { title: &title, section: "Merge", live: "any" }, &body))
}

/// The entry that the address names.
pub(super) fn path(view: &View) -> Result<EntryPath, Problem> {
    let number = view.query.get("entry").and_then(|text| text.parse().ok()).ok_or_else(|| {
        Problem::bad_request("invalid_path", "the address names no entry", "go to the queue and choose one")
    })?;
    EntryPath::new(view.query.text("queue").unwrap_or_default(), number)
}

fn why(view: &View, entry: &MergeEntry) -> Markup {
    html! {
        ul.why aria-label="Why" {
            @match (&entry.reason, entry.position) {
                (Some(why), _) => li { "It left without landing: " (reason(why)) "." },
                (None, Some(position)) => li { "It is at position " (position) " of its line." },
                (None, None) => li { "It landed: the branch moved to exactly the commit that was tested." },
            }
            @if let Some(trouble) = &entry.trouble {
                li { (plain(&sentence(&trouble.message))) " This happened " (trouble.count) " times in a row; it is tried again " (when(trouble.retry_at, view.now)) "." }
            }
        }
    }
}

fn check_part(view: &View, check: &MergeCheck) -> Markup {
    html! {
        section {
            h3 { (plain(&check.name)) " " (judgement(check)) }
            ol.timeline { @for run in &check.runs { (run_item(view, check, run)) } }
            @if check.runs.is_empty() { p.soft { "It was not run: the same tree had passed it." } }
        }
    }
}

fn run_item(view: &View, check: &MergeCheck, run: &MergeRun) -> Markup {
    let on = if run.on == "base" { "on the branch alone, to compare" } else { "on the candidate" };
    let end = match run.end.as_deref() {
        None => "under way",
        Some("timed_out") => "timed out",
        Some("lost") => "was lost",
        Some(other) => other,
    };
    html! {
        li {
            b { (plain(end)) } " " (on) ", asked for " (when(run.requested_at, view.now))
            @if let Some(task) = &run.task { ": " a href=(task_link(view, task)) { "task " (task) " and its log" } }
            @if let Some(summary) = &run.summary {
                pre.wrap tabindex="0" aria-label=(format!("How {} ended", super::super::text::plain_attribute(&check.name))) { (plain(beginning(summary).0)) }
            }
        }
    }
}

fn facts(view: &View, entry: &MergeEntry) -> Markup {
    html! {
        dl.facts {
            @if let Some(position) = entry.position { dt { "Position" } dd { (position) } }
            dt { "Priority" } dd { (entry.priority) }
            dt { "Head" } dd { code { (plain(&entry.head)) } }
            dt { "Came" } dd { (when(entry.enqueued_at, view.now)) }
            @if let Some(at) = entry.started_at { dt { "First processed" } dd { (when(at, view.now)) } }
            @if let Some(at) = entry.completed_at { dt { "Left" } dd { (when(at, view.now)) } }
            @if let Some(candidate) = &entry.candidate {
                dt { "Candidate" } dd { "number " (candidate.number) }
                dt { "Built on" } dd { code { (candidate.base) } }
                @if let Some(tree) = &candidate.tree { dt { "Tree" } dd { code { (tree) } } }
                @if let Some(commit) = &candidate.commit { dt { "Commit" } dd { code { (commit) } } }
            }
        }
    }
}

/// What landed, and on demand whether the repository still says so.
async fn certified(view: &View, certificate: &MergeCertificate) -> Result<Markup, Problem> {
    let here =
        [("queue", certificate.queue.as_str()), ("entry", &certificate.entry.to_string()), ("verify", "yes")];
    let verified = match view.query.get("verify") {
        Some(_) => {
            let asked = api::verify_merge(State(view.state.clone()), view.caller.clone(), path(view)?);
            Some(asked.await?.0.differences)
        }
        None => None,
    };
    Ok(html! {
        section #certificate {
            h2 { "Landing certificate" }
            dl.facts {
                dt { "Branch was at" } dd { code { (certificate.base) } }
                dt { "Merged onto it" } dd { code { (certificate.head) } }
                dt { "Tested tree" } dd { code { (certificate.tree) } }
                dt { "Branch moved to" } dd { code { (certificate.commit) } }
                @if let Some(at) = certificate.landed_at { dt { "Landed" } dd { (when(at, view.now)) } }
                @for check in &certificate.checks {
                    dt { "Passed " (plain(&check.name)) @if check.result == "flaky" { " when repeated" } }
                    dd { @match &check.log_hash { Some(hash) => { "log " code { (hash) } }, None => "before, on the same tree" } }
                }
            }
            @match &verified {
                None => p { a.button href=(format!("{}#certificate", view.link("/merge/entry", &here))) { "Verify against the repository" } },
                Some(differences) if differences.is_empty() => p.done role="status" { "A signed link of the chain has it, and the merge was made again from its parents: what is on the branch is what was tested." },
                Some(differences) => div.alert role="alert" { @for difference in differences { p { (plain(difference)) } } },
            }
        }
    })
}
