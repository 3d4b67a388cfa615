//! One entry of a merge queue: candidate, checks, landing certificate.

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{MergeCertificate, MergeCheck, MergeEntry, MergeRun};

use super::super::layout::{self, Head, Html};
use super::super::text::{beginning, plain, sentence, when};
use super::super::view::View;
use super::{conclusion, entry_link, may, queue_link, reason, status, task_link};
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
        @if may(&view, Permission::ManageMerge, &entry.namespace) && entry.position.is_some() {
            div.row { (layout::button(&view, &here, "Remove", &[("action", "cancel")], "danger")) }
        }
        (reasons(&view, &entry))
        div.columns {
            div {
                h2 { "Checks" }
                @if entry.checks.is_empty() { p.soft { "No checks yet: they run on the merge candidate." } }
                @for check in &entry.checks { (check_part(&view, &entry.namespace, check)) }
                @if let Some(certificate) = &entry.certificate { (certified(&view, certificate).await?) }
            }
            div { h2 { "Details" } (details(&view, &entry)) }
        }
    };
    let title = format!("Change {}", entry.change);
    Ok(layout::page(&view, &Head { title: &title, section: "Merge queues", live: "any" }, &body))
}

/// The entry in the query string.
pub(super) fn path(view: &View) -> Result<EntryPath, Problem> {
    let number = view.query.get("entry").and_then(|text| text.parse().ok()).ok_or_else(|| {
        Problem::bad_request(
            "invalid_path",
            "the URL has no entry number",
            "open the queue and select an entry",
        )
    })?;
    EntryPath::new(view.query.text("queue").unwrap_or_default(), number)
}

fn reasons(view: &View, entry: &MergeEntry) -> Markup {
    html! {
        ul.reasons aria-label="Explanation" {
            @match (&entry.reason, entry.position) {
                (Some(cause), _) => li { "Not landed: " (reason(cause)) "." },
                (None, Some(position)) => li { "Queued at position " (position) "." },
                (None, None) => li { "Landed: the base branch was moved to exactly the tested commit." },
            }
            @if let Some(fault) = &entry.fault {
                li { (plain(&sentence(&fault.message))) " Failed " (fault.count) " times in a row; next retry " (when(fault.retry_at, view.now)) "." }
            }
        }
    }
}

fn check_part(view: &View, namespace: &str, check: &MergeCheck) -> Markup {
    html! {
        section {
            h3 { (plain(&check.name)) " " (conclusion(check)) }
            ol.timeline { @for run in &check.runs { (run_item(view, namespace, check, run)) } }
            @if check.runs.is_empty() { p.soft { "Not run: the same tree has already passed it." } }
        }
    }
}

fn run_item(view: &View, namespace: &str, check: &MergeCheck, run: &MergeRun) -> Markup {
    let on = if run.on == "base" { "on the base branch, for comparison" } else { "on the candidate" };
    let outcome = match run.outcome.as_deref() {
        None => "running",
        Some("timed_out") => "timed out",
        Some("unusable") => "cannot be checked out",
        Some("lost") => "lost",
        Some(other) => other,
    };
    html! {
        li {
            b { (plain(outcome)) } " " (on) ", requested " (when(run.requested_at, view.now))
            @if let Some(task) = &run.task { ": " a href=(task_link(namespace, task)) { "log of task " (task) } }
            @if let Some(summary) = &run.summary {
                pre.wrap tabindex="0" aria-label=(format!("Summary of {}", super::super::text::plain_attribute(&check.name))) { (plain(beginning(summary).0)) }
            }
        }
    }
}

fn details(view: &View, entry: &MergeEntry) -> Markup {
    html! {
        dl.details {
            @if let Some(position) = entry.position { dt { "Position" } dd { (position) } }
            dt { "Priority" } dd { (entry.priority) }
            dt { "Head" } dd { code { (plain(&entry.head)) } }
            dt { "Enqueued" } dd { (when(entry.enqueued_at, view.now)) @if let Some(by) = &entry.enqueued_by { " by " (plain(by)) } }
            @if let Some(at) = entry.started_at { dt { "Started" } dd { (when(at, view.now)) } }
            @if let Some(at) = entry.completed_at { dt { "Completed" } dd { (when(at, view.now)) } }
            @if let Some(candidate) = &entry.candidate {
                dt { "Candidate" } dd { "number " (candidate.number) }
                dt { "Base" } dd { code { (candidate.base) } }
                @if let Some(tree) = &candidate.tree { dt { "Tree" } dd { code { (tree) } } }
                @if let Some(commit) = &candidate.commit { dt { "Commit" } dd { code { (commit) } } }
            }
        }
    }
}

/// The landing certificate; with `verify` in the query, checked against the repository.
async fn certified(view: &View, certificate: &MergeCertificate) -> Result<Markup, Problem> {
    let here =
        [("queue", certificate.queue.as_str()), ("entry", &certificate.entry.to_string()), ("verify", "yes")];
    let verified = match view.query.get("verify") {
        Some(_) => {
            let request = api::verify_merge(State(view.state.clone()), view.caller.clone(), path(view)?);
            Some(request.await?.0.differences)
        }
        None => None,
    };
    Ok(html! {
        section #certificate {
            h2 { "Landing certificate" }
            dl.details {
                dt { "Base commit" } dd { code { (certificate.base) } }
                dt { "Merged head" } dd { code { (certificate.head) } }
                dt { "Tested tree" } dd { code { (certificate.tree) } }
                dt { "Landed commit" } dd { code { (certificate.commit) } }
                @if let Some(at) = certificate.landed_at { dt { "Landed" } dd { (when(at, view.now)) } }
                @for check in &certificate.checks {
                    dt { "Passed " (plain(&check.name)) @if check.result == "flaky" { " on retry" } }
                    dd { @match &check.log_hash { Some(hash) => { "log " code { (hash) } }, None => "earlier, on the same tree" } }
                }
            }
            @match &verified {
                None => p { a.button href=(format!("{}#certificate", view.link("/merge/entry", &here))) { "Verify against the repository" } },
                Some(differences) if differences.is_empty() => p.done role="status" { "Verified: the signed landing chain contains it, and merging its parents again gives the same tree. What is on the branch is what was tested." },
                Some(differences) => div.alert role="alert" { @for difference in differences { p { (plain(difference)) } } },
            }
        }
    })
}
