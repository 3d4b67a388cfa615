//! The overview: tasks by state, workers, the last hour, queues, upcoming runs, merge queues.

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{Counts, CountsQuery, ListTasksQuery, Order, Queues};
use weaver_core::ports::RunnerRecord;
use weaver_core::task::TaskState;

use super::layout::{self, Head, Html};
use super::stats::LastHour;
use super::text::{number, span, when};
use super::view::View;
use super::{chart, merge, quarantine, queues, schedules};
use crate::api::extract::Params;
use crate::api::{list, queues as api};
use crate::problem::Problem;

/// Queues shown here; the queues page shows all.
const QUEUES_MAX: u32 = 50;
/// Workers read for the count; with more, the number shown is too low.
const WORKERS_MAX: u32 = 1000;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let state = || State(view.state.clone());
    let counts = CountsQuery { namespace: Some(view.namespace.to_string()), queue: None };
    // Concurrently: each of these is a round trip to a remote store.
    let (counts, queues, workers, hour, oldest, upcoming, merges, unreadable) = tokio::try_join!(
        async { Ok::<_, Problem>(api::get_counts(state(), view.caller.clone(), Params(counts)).await?.0) },
        queues::page(&view, None, QUEUES_MAX),
        async {
            Ok::<_, Problem>(view.state.store.list_runners(&view.namespace, None, WORKERS_MAX).await?.items)
        },
        LastHour::read(&view),
        oldest(&view),
        schedules::soon(&view),
        merge::section(&view),
        quarantine::notice(&view),
    )?;
    let body = html! {
        h1 { "Overview" }
        (unreadable)
        @if counts.states.0.values().sum::<u64>() == 0 { (first_steps()) }
        (totals(&view, &counts, &workers))
        @if let Some((id, wait)) = &oldest {
            p { "Oldest queued task: " a.id href=(view.task_link(id)) { (id) } ", " (wait) "." }
        }
        h2 { "Last hour" }
        (chart::hour(&hour))
        p.fine { "Workers report once a minute." }
        h2 { "Queues" }
        (queue_part(&view, &queues, &hour))
        h2 { "Upcoming runs" }
        (upcoming)
        (merges)
    };
    Ok(layout::page(&view, &Head { title: "Overview", section: "Overview", live: "any" }, &body))
}

fn totals(view: &View, counts: &Counts, workers: &[RunnerRecord]) -> Markup {
    let alive = workers.iter().filter(|worker| worker.is_alive(view.now)).count() as u64;
    let always = |state: TaskState| !matches!(state, TaskState::Assigned | TaskState::Orphaned);
    html! {
        dl.totals aria-label="Tasks by state" {
            @for state in TaskState::ALL {
                @let count = counts.states.0.get(&state).copied().unwrap_or(0);
                @if always(state) || count > 0 {
                    div data-key=(state) {
                        dt { (layout::state(state)) }
                        dd { a href=(view.link("/tasks", &[("state", state.as_str())])) { (number(count)) } }
                    }
                }
            }
            div data-key="workers" {
                dt { "workers running" }
                dd { a href=(view.link("/workers", &[])) { (number(alive)) } }
            }
        }
        @if !counts.exact { p.fine { "These counts are estimates." } }
    }
}

/// The oldest queued task, and how long it has waited.
async fn oldest(view: &View) -> Result<Option<(String, Markup)>, Problem> {
    let query = ListTasksQuery {
        namespace: Some(view.namespace.to_string()),
        state: Some(TaskState::Queued.to_string()),
        order: Some(Order::OldestFirst),
        limit: Some(1),
        ..ListTasksQuery::default()
    };
    let page = list::list_tasks(State(view.state.clone()), view.caller.clone(), Params(query)).await?.0;
    Ok(page.items.into_iter().next().map(|task| {
        let wait = html! { "waiting for " (span(view.now.since(task.ready_at))) ", created " (when(task.created_at, view.now)) };
        (task.id, wait)
    }))
}

fn queue_part(view: &View, queues: &Queues, hour: &LastHour) -> Markup {
    if queues.items.is_empty() {
        return html! { p.soft { "No queues yet." } };
    }
    html! {
        (queues::table(view, &queues.items, hour, false))
        @if queues.next.is_some() { p { a href=(view.link("/queues", &[])) { "All queues" } } }
    }
}

fn first_steps() -> Markup {
    html! {
        div.empty {
            p { "No tasks yet. Enqueue one from a terminal on this machine:" }
            (layout::command("weaver enqueue http '{\"url\": \"https://example.org\"}'"))
            p { "The worker built into this server runs it, and this page updates automatically." }
        }
    }
}
