//! The first page: how it is going.

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

/// How many queues are shown; there is a page for all.
const QUEUES_MAX: u32 = 50;
/// How many runners are counted.
const RUNNERS_MAX: u32 = 1000;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let state = || State(view.state.clone());
    let counts = CountsQuery { namespace: Some(view.namespace.to_string()), queue: None };
    // A store that is elsewhere is asked for all of it at once.
    let (counts, queues, runners, hour, oldest, fires, merges, unreadable) = tokio::try_join!(
        async { Ok::<_, Problem>(api::get_counts(state(), view.caller.clone(), Params(counts)).await?.0) },
        queues::page(&view, None, QUEUES_MAX),
        async {
            Ok::<_, Problem>(view.state.store.list_runners(&view.namespace, None, RUNNERS_MAX).await?.items)
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
        (figures(&view, &counts, &runners))
        @if let Some((id, waits)) = &oldest {
            p { "The task that has waited longest is " a.id href=(view.task_link(id)) { (id) } ", " (waits) "." }
        }
        h2 { "The last hour" }
        (chart::hour(&hour))
        p.fine { "Workers write down what they did once a minute." }
        h2 { "Queues" }
        (queue_part(&view, &queues, &hour))
        h2 { "Next fires" }
        (fires)
        (merges)
    };
    Ok(layout::page(&view, &Head { title: "Overview", section: "Overview", live: "any" }, &body))
}

fn figures(view: &View, counts: &Counts, runners: &[RunnerRecord]) -> Markup {
    let alive = runners.iter().filter(|runner| runner.is_alive(view.now)).count() as u64;
    let always = |state: TaskState| !matches!(state, TaskState::Assigned | TaskState::Orphaned);
    html! {
        dl.figures aria-label="Tasks by state" {
            @for state in TaskState::ALL {
                @let count = counts.states.0.get(&state).copied().unwrap_or(0);
                @if always(state) || count > 0 {
                    div data-key=(state) {
                        dt { (layout::state(state)) }
                        dd { a href=(view.link("/tasks", &[("state", state.as_str())])) { (number(count)) } }
                    }
                }
            }
            div data-key="runners" {
                dt { "runners alive" }
                dd { a href=(view.link("/runners", &[])) { (number(alive)) } }
            }
        }
        @if !counts.exact { p.fine { "These counts are estimates." } }
    }
}

/// Of those that are queued, the oldest.
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
        let waits = html! { "for " (span(view.now.since(task.ready_at))) ", created " (when(task.created_at, view.now)) };
        (task.id, waits)
    }))
}

fn queue_part(view: &View, queues: &Queues, hour: &LastHour) -> Markup {
    if queues.items.is_empty() {
        return html! { p.soft { "None yet." } };
    }
    html! {
        (queues::table(view, &queues.items, hour, false))
        @if queues.next.is_some() { p { a href=(view.link("/queues", &[])) { "All queues" } } }
    }
}

fn first_steps() -> Markup {
    html! {
        div.empty {
            p { "Nothing has been put in yet. In a terminal on this machine:" }
            (layout::command("weaver enqueue http '{\"url\": \"https://example.org\"}'"))
            p { "A worker inside this server runs it. This page shows it by itself." }
        }
    }
}
