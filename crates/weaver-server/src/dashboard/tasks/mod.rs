//! The list of tasks: filters, pagination, selection for bulk actions.

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

const ROWS: u32 = 50;

/// The filters: query parameter and label.
pub(super) const FILTERS: [(&str, &str); 7] = [
    ("task_type", "Type"),
    ("queue", "Queue"),
    ("group", "Group"),
    ("session", "Session"),
    ("label", "Label (name=value)"),
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
        // The script keeps this list unchanged while rows in it are selected.
        div #list data-list { (table(&view, &page)) }
    };
    Ok(layout::page(&view, &Head { title: "Tasks", section: "Tasks", live: "any" }, &body))
}

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

/// As an input of type `datetime-local` submits it (without an offset: UTC), or RFC 3339.
fn instant(fields: &Fields, name: &'static str) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = fields.get(name) else { return Ok(None) };
    let with_seconds = if text.matches(':').count() == 1 { format!("{text}:00") } else { text.to_owned() };
    let candidates = [text.to_owned(), format!("{with_seconds}Z"), format!("{text}T00:00:00Z")];
    let found = candidates.iter().find_map(|text| serde_json::from_value(text.as_str().into()).ok());
    found.map(Some).ok_or_else(|| {
        let reason = format!("`{text}` is not a timestamp; write it like 2026-11-16T09:30");
        Invalid::new(name, FieldProblem::Undecodable { reason }).into()
    })
}

fn states(view: &View) -> Markup {
    let current = view.query.get("state");
    let address = |state: Option<&str>| {
        let query = Fields::parse(view.query.with("cursor", None).as_bytes()).with("state", state);
        if query.is_empty() { "/tasks".to_owned() } else { format!("/tasks?{query}") }
    };
    html! {
        ul.states aria-label="Filter by state" {
            li { a href=(address(None)) aria-current=[current.is_none().then_some("true")] { "all" } }
            @for state in TaskState::ALL {
                @let word = state.as_str();
                li { a href=(address(Some(word))) aria-current=[(current == Some(word)).then_some("true")] { (layout::state(state)) } }
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
                a href=(view.link("/tasks", &[])) { "Clear filters" }
            }
        }
    }
}

fn table(view: &View, page: &Page<Task>) -> Markup {
    if page.items.is_empty() {
        return empty(view, page);
    }
    let may = view.may(Permission::ManageTasks);
    html! {
        form method="post" action=(view.link("/bulk", &[])) {
            (layout::key(view))
            (filter_fields(&view.query))
            @if may { (actions()) }
            div.wide {
                table {
                    caption { "Newest first." @if !page.complete { " Partial result: the scan limit was reached. Show older tasks, or filter by group, session, type or queue." } }
                    thead { tr {
                        @if may { th.fit scope="col" { input type="checkbox" data-all aria-label="Select all on this page"; } }
                        th.fit scope="col" { "Task" } th.fit scope="col" { "State" } th scope="col" { "Type" } th scope="col" { "Queue" }
                        th.wide-only scope="col" { "Error or progress" } th.n scope="col" { "Attempts" } th.fit scope="col" { "Updated" }
                    } }
                    tbody #rows data-rows { @for task in &page.items { (row(view, task, may)) } }
                }
            }
        }
        (pager(view, page))
    }
}

/// The filter as hidden fields, for actions on all matching tasks.
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
            span.soft { "Selected tasks:" }
            button name="action" value="cancel" data-selected="Cancel" { "Cancel" }
            button name="action" value="retry" data-selected="Retry" { "Retry" }
            span.soft { "All matching tasks:" }
            button name="action" value="cancel-all" { "Cancel all…" }
            button name="action" value="retry-all" { "Retry all…" }
        }
    }
}

fn row(view: &View, task: &Task, may: bool) -> Markup {
    html! {
        tr data-key=(task.id) {
            @if may { td.fit { input type="checkbox" name="id" value=(task.id) aria-label=(format!("Select task {}", task.id)); } }
            td.fit { a.id href=(view.task_link(&task.id)) { (task.id) } }
            td.fit { (layout::state(task.state)) }
            td.name { (plain(&task.task_type)) }
            td.name { (plain(&task.queue)) }
            td.wide-only { (note(task)) }
            td.n { (task.executions) "/" (task.max_attempts) }
            td.fit { (when(task.updated_at, view.now)) }
        }
    }
}

/// The last error, else the progress message, else the group.
fn note(task: &Task) -> Markup {
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
        nav.row aria-label="Pagination" {
            @if view.query.get("cursor").is_some() {
                a.button href=(format!("/tasks?{}", view.query.with("cursor", None))) { "Newest" }
            }
            @if let Some(next) = &page.next {
                a.button rel="next" href=(format!("/tasks?{}", view.query.with("cursor", Some(next)))) { "Older" }
            }
        }
    }
}

fn empty(view: &View, page: &Page<Task>) -> Markup {
    let filtered =
        view.query.get("state").is_some() || FILTERS.iter().any(|(name, _)| view.query.get(name).is_some());
    html! {
        @if filtered || page.next.is_some() {
            div.empty {
                p { "No matching tasks." @if !page.complete { " Not all tasks were scanned." } }
                p { a href=(view.link("/tasks", &[])) { "Show all tasks" } }
            }
        } @else {
            (layout::empty("No tasks in this namespace yet.", "Enqueue one:",
                &format!("weaver enqueue http '{{\"url\": \"https://example.org\"}}'{}", namespace_flag(view))))
        }
        (pager(view, page))
        // The script adds new rows here.
        table hidden { tbody #rows data-rows {} }
    }
}

/// The `--namespace` option for a command, empty in the default namespace.
pub(super) fn namespace_flag(view: &View) -> String {
    if view.namespace == weaver_core::name::Namespace::default() {
        return String::new();
    }
    format!(" --namespace {}", super::text::shell_word(view.namespace.as_str()))
}
