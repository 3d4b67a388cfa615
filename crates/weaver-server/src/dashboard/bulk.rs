//! Cancelling and retrying many: how many, are you sure, and what came of it.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use weaver_api::ListTasksQuery;

use super::form::Fields;
use super::layout::{self, Head};
use super::tasks::{FILTERS, query_of};
use super::text::{number, plain};
use super::view::View;
use crate::api::bulk::{Action, act as bulk};
use crate::api::extract::{Name, Params};
use crate::api::task as api;
use crate::problem::Problem;

/// The most pages that one confirmation goes through; what is left is said.
const PAGES_MAX: usize = 20;

/// What the form asks for.
struct Asked {
    action: Action,
    /// By filter rather than by id.
    all: bool,
    ids: Vec<String>,
    fields: Fields,
}

#[derive(Default)]
struct Tally {
    matched: u64,
    done: u64,
    refused: u64,
    why: Option<String>,
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
                "the form does not say what to do",
                "go back and choose an action",
            ));
        }
    };
    let asked = Asked { action, all, ids: fields.all("id"), fields };
    if !asked.all && asked.ids.is_empty() {
        return Err(Problem::bad_request(
            "nothing_chosen",
            "no task was chosen",
            "go back and tick the tasks you mean",
        ));
    }
    let confirmed = asked.fields.get("confirmed").is_some();
    let tally = match (asked.all, confirmed) {
        (true, confirmed) => by_filter(&view, &asked, !confirmed).await?,
        (false, true) => by_id(&view, &asked).await,
        (false, false) => Tally { matched: asked.ids.len() as u64, ..Tally::default() },
    };
    let body = if confirmed { report(&view, &asked, &tally) } else { question(&view, &asked, &tally) };
    let head = Head { title: asked.title(), section: "Tasks", live: "" };
    Ok(layout::page(&view, &head, &body).into_response())
}

impl Asked {
    fn title(&self) -> &'static str {
        match self.action {
            Action::Cancel => "Cancel tasks",
            Action::Retry => "Retry tasks",
        }
    }
}

async fn by_filter(view: &View, asked: &Asked, dry_run: bool) -> Result<Tally, Problem> {
    let query = query_of(view, &asked.fields)?;
    let (mut tally, mut cursor) = (Tally::default(), None);
    for _ in 0..PAGES_MAX {
        let query = ListTasksQuery { cursor, ..query.clone() };
        let answer = bulk(&view.state, &view.caller, query, asked.action, dry_run).await?;
        tally.matched += answer.matched;
        tally.done += answer.done;
        tally.refused += answer.refused;
        tally.why = tally.why.or(answer.problem.map(|problem| problem.detail));
        cursor = answer.next;
        if cursor.is_none() {
            break;
        }
    }
    tally.more = cursor.is_some();
    Ok(tally)
}

async fn by_id(view: &View, asked: &Asked) -> Tally {
    let mut tally = Tally { matched: asked.ids.len() as u64, ..Tally::default() };
    for id in &asked.ids {
        let (state, caller) = (State(view.state.clone()), view.caller.clone());
        let (name, query) = (Name(id.clone()), Params(view.namespace_query()));
        let done = match asked.action {
            Action::Cancel => api::cancel_task(state, caller, name, query).await.map(drop),
            Action::Retry => api::retry_task(state, caller, name, query).await.map(drop),
        };
        match done {
            Ok(()) => tally.done += 1,
            Err(problem) => {
                tally.refused += 1;
                tally.why.get_or_insert(problem.to_wire().detail);
            }
        }
    }
    tally
}

fn question(view: &View, asked: &Asked, tally: &Tally) -> Markup {
    let count = format!("{}{}", if tally.more { "at least " } else { "" }, counted(tally.matched));
    let (verb, note) = match asked.action {
        Action::Cancel => {
            ("Cancel", "What has ended stays as it ended. A running handler is told at its next heartbeat.")
        }
        Action::Retry => (
            "Retry",
            "Each becomes a new task; the old ones stay as they ended. Without a state in the filter, dead ones are meant.",
        ),
    };
    html! {
        h1 { (verb) " " (count) "?" }
        @if asked.all { (filter_in_words(&asked.fields)) }
        p { (note) }
        form.row method="post" action=(view.link("/bulk", &[])) {
            (layout::key(view))
            input type="hidden" name="action" value=[asked.fields.get("action")];
            input type="hidden" name="confirmed" value="yes";
            @for id in &asked.ids { input type="hidden" name="id" value=(id); }
            @for name in FILTERS.iter().map(|(name, _)| *name).chain(["state"]) {
                @if let Some(value) = asked.fields.get(name) { input type="hidden" name=(name) value=(value); }
            }
            @if tally.matched > 0 { button.danger[asked.action == Action::Cancel].primary[asked.action == Action::Retry] { (verb) " " (count) } }
            a.button href=(view.link("/tasks", &[])) { "Back" }
        }
    }
}

fn counted(count: u64) -> String {
    if count == 1 { "1 task".to_owned() } else { format!("{} tasks", number(count)) }
}

fn filter_in_words(fields: &Fields) -> Markup {
    let set: Vec<(&str, &str)> = FILTERS
        .iter()
        .copied()
        .chain([("state", "State")])
        .filter_map(|(name, label)| Some((label, fields.get(name)?)))
        .collect();
    html! {
        @if set.is_empty() { p { "All of this namespace." } }
        @else { dl.facts { @for (label, value) in set { dt { (label) } dd { (plain(value)) } } } }
    }
}

fn report(view: &View, asked: &Asked, tally: &Tally) -> Markup {
    let done = match asked.action {
        Action::Cancel => "cancelled",
        Action::Retry => "put in again",
    };
    html! {
        h1 { (asked.title()) }
        p.done role="status" { (counted(tally.done)) " " (done) "." }
        @if tally.refused > 0 {
            p.alert role="alert" { (counted(tally.refused)) " refused. The first: " (plain(tally.why.as_deref().unwrap_or("no reason given"))) "." }
        }
        @if tally.more { p { "There are more: repeat it for the rest." } }
        p { a.button href=(view.link("/tasks", &[])) { "Tasks" } }
    }
}
