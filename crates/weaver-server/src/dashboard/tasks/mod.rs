//! The list of tasks: filters, pages, and choosing many.

mod log;
mod one;
mod parts;

pub(super) use log::{download, lines, lines_of};
pub(super) use one::{cancel, retry, run_now, show as show_one};
pub(super) use parts::document;

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{ListTasksQuery, Page, Task};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

use super::form::Fields;
use super::layout::{self, Head, Html};
use super::text::{plain, when};
use super::view::View;
use crate::api::extract::Params;
use crate::api::{Permission, list};
use crate::problem::Problem;

/// Rows of a page.
const ROWS: u32 = 50;

/// The filters, as fields and as labels.
pub(super) const FILTERS: [(&str, &str); 7] = [
    ("task_type", "Type"),
    ("queue", "Queue"),
    ("group", "Group"),
    ("session", "Session"),
    ("label", "Label (name:value)"),
    ("created_from", "Created from"),
    ("created_before", "Created before"),
];

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let mut query = query_of(&view, &view.query)?;
    query.limit = Some(ROWS);
    query.cursor = view.query.text("cursor");
    let state = State(view.state.clone());
    let page = list::list_tasks(state, view.caller.clone(), Params(query)).await?.0;
    let body = html! {
        h1 { "Tasks" }
        (states(&view))
        (filters(&view))
        // The script keeps what is in here together while somebody chooses.
        div #list data-list { (table(&view, &page)) }
    };
    Ok(layout::page(&view, &Head { title: "Tasks", section: "Tasks", live: "any" }, &body))
}

/// What the API is asked for, by the fields of a filter.
pub(super) fn query_of(view: &View, fields: &Fields) -> Result<ListTasksQuery, Problem> {
    Ok(ListTasksQuery {
        namespace: Some(view.namespace.to_string()),
        state: fields.text("state"),
        task_type: fields.text("task_type"),
        queue: fields.text("queue"),
        group: fields.text("group"),
        session: fields.text("session"),
        label: fields.text("label"),
        created_from: instant(fields, "created_from")?,
        created_before: instant(fields, "created_before")?,
        ..ListTasksQuery::default()
    })
}

/// As a browser's field writes it (without a zone: UTC), or as anybody writes an instant.
fn instant(fields: &Fields, name: &'static str) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = fields.get(name) else { return Ok(None) };
    let with_seconds = if text.matches(':').count() == 1 { format!("{text}:00") } else { text.to_owned() };
    let tried = [text.to_owned(), format!("{with_seconds}Z"), format!("{text}T00:00:00Z")];
    let found = tried.iter().find_map(|text| serde_json::from_value(text.as_str().into()).ok());
    found.map(Some).ok_or_else(|| {
        let reason = format!("`{text}` is no instant; write it like 2026-11-16T09:30");
        Invalid::new(name, FieldProblem::Undecodable { reason }).into()
    })
}

fn states(view: &View) -> Markup {
    let chosen = view.query.get("state");
    let address = |state: Option<&str>| {
        let query = Fields::parse(view.query.with("cursor", None).as_bytes()).with("state", state);
        if query.is_empty() { "/tasks".to_owned() } else { format!("/tasks?{query}") }
    };
    html! {
        ul.states aria-label="States" {
            li { a href=(address(None)) aria-current=[chosen.is_none().then_some("true")] { "all" } }
            @for state in TaskState::ALL {
                @let word = state.as_str();
                li { a href=(address(Some(word))) aria-current=[(chosen == Some(word)).then_some("true")] { (layout::state(state)) } }
            }
        }
    }
}

fn filters(view: &View) -> Markup {
    html! {
        form.filters method="get" action="/tasks" role="search" {
            @for hidden in ["namespace", "state"] {
                @if let Some(value) = view.query.get(hidden) { input type="hidden" name=(hidden) value=(value); }
            }
            @for (name, label) in FILTERS {
                @let kind = if name.starts_with("created") { "datetime-local" } else { "text" };
                label { (label) input type=(kind) name=(name) value=[view.query.get(name)]; }
            }
            button { "Filter" }
            @if FILTERS.iter().any(|(name, _)| view.query.get(name).is_some()) {
                a href=(view.link("/tasks", &[])) { "Clear" }
            }
        }
    }
}

fn table(view: &View, page: &Page<Task>) -> Markup {
    if page.items.is_empty() {
        return nothing(view, page);
    }
    let may = view.may(Permission::ManageTasks);
    html! {
        form method="post" action=(view.link("/bulk", &[])) {
            (layout::key(view))
            (filter_fields(&view.query))
            @if may { (actions()) }
            div.wide {
                table {
                    caption { "Newest first." @if !page.complete { " Not everything was looked through: go on, or filter by group, session, type or queue." } }
                    thead { tr {
                        @if may { th.fit scope="col" { input type="checkbox" data-all aria-label="Choose all on this page"; } }
                        th.fit scope="col" { "Task" } th.fit scope="col" { "State" } th scope="col" { "Type" } th scope="col" { "Queue" }
                        th.wide-only scope="col" { "About" } th.n scope="col" { "Attempts" } th.fit scope="col" { "Changed" }
                    } }
                    tbody #rows data-rows { @for task in &page.items { (row(view, task, may)) } }
                }
            }
        }
        (pager(view, page))
    }
}

/// The filter, carried along by the form that acts on everything it matches.
fn filter_fields(query: &Fields) -> Markup {
    html! {
        @for name in FILTERS.iter().map(|(name, _)| *name).chain(["state"]) {
            @if let Some(value) = query.get(name) { input type="hidden" name=(name) value=(value); }
        }
    }
}

fn actions() -> Markup {
    html! {
        div.row {
            span.soft { "Chosen tasks:" }
            button name="action" value="cancel" data-chosen="Cancel" { "Cancel" }
            button name="action" value="retry" data-chosen="Retry" { "Retry" }
            span.soft { "Everything that matches the filter:" }
            button name="action" value="cancel-all" { "Cancel all…" }
            button name="action" value="retry-all" { "Retry all…" }
        }
    }
}

fn row(view: &View, task: &Task, may: bool) -> Markup {
    html! {
        tr data-key=(task.id) {
            @if may { td.fit { input type="checkbox" name="id" value=(task.id) aria-label=(format!("Choose task {}", task.id)); } }
            td.fit { a.id href=(view.task_link(&task.id)) { (task.id) } }
            td.fit { (layout::state(task.state)) }
            td.name { (plain(&task.task_type)) }
            td.name { (plain(&task.queue)) }
            td.wide-only { (about(task)) }
            td.n { (task.executions) "/" (task.max_attempts) }
            td.fit { (when(task.updated_at, view.now)) }
        }
    }
}

/// The one thing to know about a task besides its state.
fn about(task: &Task) -> Markup {
    let error = task.last_error.as_deref().filter(|_| task.state != TaskState::Succeeded);
    let shown: String = error.unwrap_or_default().chars().take(160).collect();
    html! {
        @if !shown.is_empty() { span.soft { (plain(&shown)) } }
        @else if let Some(progress) = &task.progress { span.soft { (plain(&progress.message)) } }
        @else if let Some(group) = &task.task_group_id { span.soft { "group " (plain(group)) } }
    }
}

fn pager(view: &View, page: &Page<Task>) -> Markup {
    html! {
        nav.row aria-label="Pages of the list" {
            @if view.query.get("cursor").is_some() {
                a.button href=(format!("/tasks?{}", view.query.with("cursor", None))) { "Newest" }
            }
            @if let Some(next) = &page.next {
                a.button rel="next" href=(format!("/tasks?{}", view.query.with("cursor", Some(next)))) { "Older" }
            }
        }
    }
}

fn nothing(view: &View, page: &Page<Task>) -> Markup {
    let filtered =
        view.query.get("state").is_some() || FILTERS.iter().any(|(name, _)| view.query.get(name).is_some());
    html! {
        @if filtered || page.next.is_some() {
            div.empty {
                p { "No task matches." @if !page.complete { " Not everything was looked through." } }
                p { a href=(view.link("/tasks", &[])) { "Show all tasks" } }
            }
        } @else {
            (layout::empty("There is no task here yet.", "Put one in:",
                &format!("weaver enqueue http '{{\"url\": \"https://example.org\"}}'{}", namespace_flag(view))))
        }
        (pager(view, page))
        // The script puts rows here as they come.
        table hidden { tbody #rows data-rows {} }
    }
}

/// What a command needs besides, to mean this namespace.
pub(super) fn namespace_flag(view: &View) -> String {
    if view.namespace == weaver_core::name::Namespace::default() {
        return String::new();
    }
    format!(" --namespace {}", super::text::shell_word(view.namespace.as_str()))
}
