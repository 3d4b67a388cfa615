//! Bulk cancel and retry: a confirmation with the number of tasks, then the result.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use weaver_api::ListTasksQuery;
use weaver_core::task::TaskState;

use super::form::Fields;
use super::layout::{self, Head};
use super::tasks::{FILTERS, query_of};
use super::text::{number, plain};
use super::view::View;
use crate::api::bulk::{Action, act as bulk};
use crate::api::extract::{Name, Params};
use crate::api::task as api;
use crate::problem::Problem;

/// Pages of tasks processed per confirmation; the report says whether more match.
const PAGES_MAX: usize = 20;

struct BulkForm {
    action: Action,
    /// All tasks that match the filter, rather than those in `ids`.
    all: bool,
    ids: Vec<String>,
    fields: Fields,
}

#[derive(Default)]
struct Tally {
    matched: u64,
    changed: u64,
    refused: u64,
    first_error: Option<String>,
    more: bool,
}

pub(super) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    let (action, all) = match fields.get("action") {
        Some("cancel") => (Action::Cancel, false),
        Some("retry") => (Action::Retry, false),
        Some("cancel-all") => (Action::Cancel, true),
        Some("retry-all") => (Action::Retry, true),
        _ => {
            return Err(Problem::bad_request(
                "no_action",
                "the form has no action",
                "go back and use one of the buttons",
            ));
        }
    };
    let form = BulkForm { action, all, ids: fields.all("id"), fields };
    if !form.all && form.ids.is_empty() {
        return Err(Problem::bad_request(
            "nothing_selected",
            "no task is selected",
            "go back and select at least one task",
        ));
    }
    let confirmed = form.fields.get("confirmed").is_some();
    let tally = match (form.all, confirmed) {
        (true, confirmed) => by_filter(&view, &form, !confirmed).await?,
        (false, true) => by_id(&view, &form).await,
        (false, false) => Tally { matched: form.ids.len() as u64, ..Tally::default() },
    };
    let body = if confirmed { report(&view, &form, &tally) } else { confirmation(&view, &form, &tally) };
    let head = Head { title: form.title(), section: "Tasks", live: "" };
    Ok(layout::page(&view, &head, &body).into_response())
}

impl BulkForm {
    fn title(&self) -> &'static str {
        match self.action {
            Action::Cancel => "Cancel tasks",
            Action::Retry => "Retry tasks",
        }
    }
}

async fn by_filter(view: &View, form: &BulkForm, dry_run: bool) -> Result<Tally, Problem> {
    let query = query_of(view, &form.fields)?;
    let (mut tally, mut cursor) = (Tally::default(), None);
    for _ in 0..PAGES_MAX {
        let query = ListTasksQuery { cursor, ..query.clone() };
        let result = bulk(&view.state, &view.caller, query, form.action, dry_run).await?;
        tally.matched += result.matched;
        tally.changed += result.changed;
        tally.refused += result.refused;
        tally.first_error = tally.first_error.or(result.problem.map(|problem| problem.detail));
        cursor = result.next;
        if cursor.is_none() {
            break;
        }
    }
    tally.more = cursor.is_some();
    Ok(tally)
}

async fn by_id(view: &View, form: &BulkForm) -> Tally {
    let mut tally = Tally { matched: form.ids.len() as u64, ..Tally::default() };
    for id in &form.ids {
        let (state, caller) = (State(view.state.clone()), view.caller.clone());
        let (name, query) = (Name(id.clone()), Params(view.namespace_query()));
        let result = match form.action {
            Action::Cancel => api::cancel_task(state, caller, name, query).await.map(drop),
            Action::Retry => api::retry_task(state, caller, name, query).await.map(drop),
        };
        match result {
            Ok(()) => tally.changed += 1,
            Err(problem) => {
                tally.refused += 1;
                tally.first_error.get_or_insert(problem.to_wire().detail);
            }
        }
    }
    tally
}

fn confirmation(view: &View, form: &BulkForm, tally: &Tally) -> Markup {
    let count = format!("{}{}", if tally.more { "at least " } else { "" }, counted(tally.matched));
    let (verb, note) = match form.action {
        Action::Cancel => {
            ("Cancel", "Finished tasks are not changed. A running handler is notified at its next heartbeat.")
        }
        Action::Retry => (
            "Retry",
            "Each is enqueued as a new task; the original is not changed. Without a state filter, only dead tasks are retried.",
        ),
    };
    html! {
        h1 { (verb) " " (count) "?" }
        @if form.all { (filter_in_words(&form.fields)) }
        p { (note) }
        form.row method="post" action=(view.link("/bulk", &[])) {
            (layout::key(view))
            input type="hidden" name="action" value=[form.fields.get("action")];
            input type="hidden" name="confirmed" value="yes";
            @for id in &form.ids { input type="hidden" name="id" value=(id); }
            @for name in FILTERS.iter().map(|(name, _)| *name).chain(["state"]) {
                @if let Some(value) = form.fields.get(name) { input type="hidden" name=(name) value=(value); }
            }
            @if tally.matched > 0 { button.danger[form.action == Action::Cancel].primary[form.action == Action::Retry] { (verb) " " (count) } }
            a.button href=(view.link("/tasks", &[])) { "Back" }
        }
    }
}

fn counted(count: u64) -> String {
    if count == 1 { "1 task".to_owned() } else { format!("{} tasks", number(count)) }
}

fn filter_in_words(fields: &Fields) -> Markup {
    // States as people read them: `retrying` for `retry_scheduled`.
    let retrying = TaskState::RetryScheduled;
    let set: Vec<(&str, String)> = FILTERS
        .iter()
        .copied()
        .chain([("state", "State")])
        .filter_map(|(name, label)| Some((name, label, fields.get(name)?)))
        .map(|(name, label, value)| match name {
            "state" => (label, value.replace(retrying.as_str(), layout::state_word(retrying))),
            _ => (label, value.to_owned()),
        })
        .collect();
    html! {
        @if set.is_empty() { p { "All tasks in this namespace." } }
        @else { dl.details { @for (label, value) in set { dt { (label) } dd { (plain(&value)) } } } }
    }
}

fn report(view: &View, form: &BulkForm, tally: &Tally) -> Markup {
    let verb = match form.action {
        Action::Cancel => "cancelled",
        Action::Retry => "retried",
    };
    html! {
        h1 { (form.title()) }
        p.done role="status" { (counted(tally.changed)) " " (verb) "." }
        @if tally.refused > 0 {
            p.alert role="alert" { (counted(tally.refused)) " not changed. First error: " (plain(tally.first_error.as_deref().unwrap_or("no reason given"))) "." }
        }
        @if tally.more { p { "More tasks match: repeat to process the rest." } }
        p { a.button href=(view.link("/tasks", &[])) { "Back to tasks" } }
    }
}
