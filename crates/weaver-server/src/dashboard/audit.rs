//! The audit log: actor, action and target of every change.

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{AuditEntry, AuditQuery};

use super::layout::{self, Head, Html};
use super::text::{plain, when};
use super::view::View;
use super::{merge, schedules};
use crate::api::extract::Params;
use crate::api::{Permission, audit as api};
use crate::problem::Problem;
use weaver_core::name::Namespace;

const ENTRIES: u32 = 100;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let of_server = view.query.get("of") == Some("server");
    let namespace = if of_server { Namespace::internal() } else { view.namespace.clone() };
    let before: Option<u64> = view.query.get("before").and_then(|text| text.parse().ok());
    // The log is read forwards: the page before an entry begins one page length before it.
    let after = before.map(|seq| seq.saturating_sub(u64::from(ENTRIES) + 1));
    let query = AuditQuery { namespace: Some(namespace.to_string()), after, limit: Some(ENTRIES) };
    let mut entries =
        api::list_audit(State(view.state.clone()), view.caller.clone(), Params(query)).await?.0.entries;
    entries.retain(|entry| before.is_none_or(|before| entry.seq < before));
    entries.reverse();
    let first = entries.last().map(|entry| entry.seq).filter(|seq| *seq > 1);
    let body = html! {
        h1 { "Audit log" }
        @if view.may_everywhere(Permission::ReadAudit) {
            ul.states aria-label="Scope" {
                li { a href=(view.link("/audit", &[])) aria-current=[(!of_server).then_some("true")] { "This namespace" } }
                li { a href=(view.link("/audit", &[("of", "server")])) aria-current=[of_server.then_some("true")] { "Server: tokens, settings and logins" } }
            }
        }
        @if entries.is_empty() { div.empty { p { "No changes recorded yet. Every change is recorded here with the token that made it." } } }
        @else { (table(&view, &entries)) }
        @if let Some(first) = first {
            nav.row aria-label="Pagination" {
                a.button rel="next" href=(format!("/audit?{}", view.query.with("before", Some(&first.to_string())))) { "Older" }
            }
        }
    };
    Ok(layout::page(
        &view,
        &Head { title: "Audit log", section: "Audit log", live: if before.is_none() { "any" } else { "" } },
        &body,
    ))
}

fn table(view: &View, entries: &[AuditEntry]) -> Markup {
    html! {
        div.wide { table {
            caption { "Newest first." }
            thead { tr { th.fit scope="col" { "Time" } th scope="col" { "Actor" } th.fit scope="col" { "Action" } th scope="col" { "Target" } th scope="col" { "Details" } } }
            tbody #entries data-rows { @for entry in entries {
                tr data-key=(entry.seq) {
                    td.fit { (when(entry.at, view.now)) }
                    td { (plain(&entry.actor)) }
                    td.fit { code { (plain(&entry.action)) } }
                    td { (target(view, &entry.target)) }
                    td { (plain(entry.detail.as_deref().unwrap_or(""))) }
                }
            } }
        } }
    }
}

fn target(view: &View, target: &str) -> Markup {
    let address = match target.split_once('/') {
        Some(("task", id)) => view.task_link(id),
        Some(("schedule", name)) => schedules::link(view, name),
        Some(("merge", target)) => merge::target_link(view, target),
        Some(("setting", key)) => format!("{}#{key}", view.link("/settings", &[])),
        _ => return plain(target),
    };
    html! { a href=(address) { (plain(target)) } }
}
