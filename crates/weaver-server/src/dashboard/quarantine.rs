//! Quarantine: records that this server cannot decode, the reason, and the remedy.

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{NamespacePageQuery, Page, QuarantinedRecord, UnreadableCause};
use weaver_core::name::Namespace;
use weaver_core::quarantine::RecordKind;

use super::layout::{self, Head, Html};
use super::tasks::namespace_flag;
use super::text::{beginning, plain, sentence, shell_word, when};
use super::view::View;
use crate::api::extract::Params;
use crate::api::{Permission, quarantine as api};
use crate::problem::Problem;

const RECORDS: u32 = 100;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let of_server = view.query.get("of") == Some("server");
    let namespace = if of_server { Namespace::internal() } else { view.namespace.clone() };
    let page = page(&view, &namespace, view.query.text("cursor"), RECORDS).await?;
    let body = html! {
        h1 { "Unreadable records" }
        p { "This server cannot decode these records. It does not lease, expire or change them." }
        @if view.may_everywhere(Permission::Read) {
            ul.states aria-label="Scope" {
                li { a href=(view.link("/quarantine", &[])) aria-current=[(!of_server).then_some("true")] { "This namespace" } }
                li { a href=(view.link("/quarantine", &[("of", "server")])) aria-current=[of_server.then_some("true")] { "Server: tokens and settings" } }
            }
        }
        @if page.items.is_empty() {
            (layout::empty("No unreadable records found.", "To check a whole store:", "weaver store check"))
        } @else { (table(&view, &page.items)) }
        @if let Some(next) = &page.next {
            (layout::next_page(&format!("/quarantine?{}", view.query.with("cursor", Some(next)))))
        }
    };
    Ok(layout::page(&view, &Head { title: "Unreadable records", section: "Tasks", live: "any" }, &body))
}

/// The warning on the overview, if there are any.
pub(super) async fn notice(view: &View) -> Result<Markup, Problem> {
    let page = page(view, &view.namespace, None, RECORDS).await?;
    let more = if page.next.is_some() { "more than " } else { "" };
    Ok(match page.items.len() {
        0 => html! {},
        count => html! {
            p.alert role="note" {
                a href=(view.link("/quarantine", &[])) { (more) (count) @if count == 1 { " record" } @else { " records" } " cannot be read" }
                " and " @if count == 1 { "is" } @else { "are" } " quarantined."
            }
        },
    })
}

async fn page(
    view: &View,
    namespace: &Namespace,
    cursor: Option<String>,
    limit: u32,
) -> Result<Page<QuarantinedRecord>, Problem> {
    let query = NamespacePageQuery { namespace: Some(namespace.to_string()), cursor, limit: Some(limit) };
    Ok(api::list_quarantined(State(view.state.clone()), view.caller.clone(), Params(query)).await?.0)
}

fn table(view: &View, records: &[QuarantinedRecord]) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th.fit scope="col" { "Kind" } th scope="col" { "ID" } th scope="col" { "Reason" } th.fit scope="col" { "State" }
                th scope="col" { "Queue" } th scope="col" { "Holds" } th.fit scope="col" { "Found" } th scope="col" { "Remedy" }
            } }
            tbody { @for record in records { (row(view, record)) } }
        } }
    }
}

fn row(view: &View, record: &QuarantinedRecord) -> Markup {
    html! {
        tr data-key=(format!("{} {}", record.kind, record.id)) {
            td.fit { (word(record.kind)) }
            td.name { (plain(&record.id)) }
            td { (plain(beginning(&sentence(&record.reason)).0)) }
            td.fit { (plain(record.state.as_deref().unwrap_or("–"))) }
            td { (plain(record.queue.as_deref().unwrap_or("–"))) }
            td { (holds(record)) }
            td.fit { (when(record.found_at, view.now)) }
            td { (remedy(view, record)) }
        }
    }
}

fn word(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::QueueSettings => "queue settings",
        RecordKind::Runner => "worker",
        other => other.as_str(),
    }
}

fn holds(record: &QuarantinedRecord) -> Markup {
    html! {
        @if let Some(key) = &record.holds.serial_key { "serial key " (plain(key)) " " }
        @if record.holds.slot { "a slot of its queue" }
        @if record.holds.is_empty() { "nothing" }
    }
}

/// How to make it readable, or to remove it.
fn remedy(view: &View, record: &QuarantinedRecord) -> Markup {
    if record.cause == UnreadableCause::UnknownFormat {
        return html! { "Upgrade this node: the record was written by a newer Weaver." };
    }
    let flag = namespace_flag(view);
    match record.kind {
        RecordKind::Task => {
            layout::command(&format!("weaver tasks purge {} --yes{flag}", shell_word(&record.id)))
        }
        RecordKind::QueueSettings => {
            layout::command(&format!("weaver queues limit {} none{flag}", shell_word(&record.id)))
        }
        RecordKind::Runner => html! { "None needed: the worker counts as stopped until its next heartbeat." },
        RecordKind::Document => {
            html! { "Save it again where it is configured, or restore it from a backup." }
        }
    }
}
