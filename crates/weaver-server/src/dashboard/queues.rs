//! Queues: depth, wait times, pause and concurrency limit.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use weaver_api::{Dispatch, PutQueue, Queue, Queues, QueuesQuery};
use weaver_core::task::TaskState;

use super::form::Fields;
use super::gate::redirect;
use super::layout::{self, Head, Html};
use super::stats::{LastHour, QueueHour};
use super::text::{number, plain, span};
use super::view::View;
use crate::api::extract::{Body, Name, Params};
use crate::api::{Permission, queues as api};
use crate::problem::Problem;

const QUEUES_PER_PAGE: u32 = 200;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let cursor = view.query.get("cursor").map(str::to_owned);
    let Queues { items: queues, next } = page(&view, cursor, QUEUES_PER_PAGE).await?;
    let hour = LastHour::read(&view).await?;
    let body = html! {
        h1 { "Queues" }
        @if queues.is_empty() {
            (layout::empty("No queues in this namespace yet. A queue is created with its first task.", "Enqueue a task:",
                "weaver enqueue http '{\"url\": \"https://example.org\"}' --queue web"))
        } @else { (table(&view, &queues, &hour, view.may(Permission::ManageQueues))) }
        @if let Some(next) = &next {
            (layout::next_page(&view.link("/queues", &[("cursor", next)])))
        }
        p.fine { "A paused queue starts no tasks; running tasks continue. The concurrency limit is shared by all workers." }
    };
    Ok(layout::page(&view, &Head { title: "Queues", section: "Queues", live: "any" }, &body))
}

pub(super) async fn page(view: &View, cursor: Option<String>, limit: u32) -> Result<Queues, Problem> {
    let query = QueuesQuery { namespace: Some(view.namespace.to_string()), cursor, limit: Some(limit) };
    Ok(api::list_queues(State(view.state.clone()), view.caller.clone(), Params(query)).await?.0)
}

/// The table of queues; on the overview without its forms.
pub(super) fn table(view: &View, queues: &[Queue], hour: &LastHour, may: bool) -> Markup {
    let nothing = QueueHour::default();
    html! {
        div.wide { table {
            caption { "Wait is the time from due to start, over the last hour." }
            thead { tr {
                th scope="col" { "Queue" } th.n scope="col" { "Waiting" } th.n scope="col" { "Running" } th.n.wide-only scope="col" { "Dead" }
                th.n.wide-only scope="col" { "Oldest wait" } th.n.wide-only scope="col" { "Wait p50" } th.n.wide-only scope="col" { "Wait p95" }
                @if may { th.fit scope="col" { "Actions" } }
                th.fit scope="col" { "Concurrency limit" }
            } }
            tbody { @for queue in queues { (row(view, queue, hour.queue(&queue.name).unwrap_or(&nothing), may)) } }
        } }
    }
}

fn row(view: &View, queue: &Queue, hour: &QueueHour, may: bool) -> Markup {
    let count = |state| queue.counts.states.0.get(&state).copied().unwrap_or(0);
    let list = |state: &str| view.link("/tasks", &[("queue", &queue.name), ("state", state)]);
    let waiting = count(TaskState::Queued) + count(TaskState::Scheduled) + count(TaskState::RetryScheduled);
    let under = |bound: Option<std::time::Duration>| {
        bound.map_or("–".to_owned(), |bound| format!("< {}", span(bound)))
    };
    html! {
        tr data-key=(queue.name) {
            td.name { a href=(view.link("/tasks", &[("queue", &queue.name)])) { (plain(&queue.name)) } @if queue.paused { " " b.cancelled { "paused" } } }
            td.n { a href=(list("queued,scheduled,retry_scheduled")) { (number(waiting)) } }
            td.n { a href=(list("running")) { (number(count(TaskState::Running))) } }
            td.n.wide-only { a href=(list("dead")) { (number(count(TaskState::Dead))) } }
            td.n.wide-only { (queue.counts.oldest_wait_ms.map_or("–".to_owned(), |ms| span(std::time::Duration::from_millis(ms)))) }
            td.n.wide-only { (under(hour.wait_within(50))) } td.n.wide-only { (under(hour.wait_within(95))) }
            @if may { td.fit.actions { (actions(view, queue)) } }
            td.fit { @if may { (limit_form(view, queue)) } @else { (queue.max_running.map_or("none".to_owned(), |max| max.to_string())) } }
        }
    }
}

fn limit_form(view: &View, queue: &Queue) -> Markup {
    html! {
        form.inline method="post" action=(view.link("/queues", &[])) {
            (layout::key(view))
            input type="hidden" name="queue" value=(queue.name);
            input type="hidden" name="version" value=(queue.version);
            input type="hidden" name="paused" value=[queue.paused.then_some("yes")];
            input type="hidden" name="dispatch" value=(queue.dispatch.as_str());
            input type="number" name="max_running" min="1" max="4294967295" size="6" value=[queue.max_running]
                placeholder="none" aria-label=(format!("Concurrency limit of queue {}", super::text::plain_attribute(&queue.name)));
            " " button name="action" value="limit" { "Set" }
        }
    }
}

fn actions(view: &View, queue: &Queue) -> Markup {
    let (action, label) = if queue.paused { ("resume", "Resume") } else { ("pause", "Pause") };
    layout::button(view, &view.link("/queues", &[]), label, &[("queue", &queue.name), ("action", action)], "")
}

pub(super) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    let state = State(view.state.clone());
    let name = Name(fields.text("queue").unwrap_or_default());
    let query = Params(view.namespace_query());
    match fields.get("action") {
        Some("pause") => drop(api::pause_queue(state, view.caller.clone(), name, query).await?),
        Some("resume") => drop(api::resume_queue(state, view.caller.clone(), name, query).await?),
        _ => {
            let max_running = fields.get("max_running").map(str::parse).transpose().map_err(|_| {
                Problem::bad_request(
                    "invalid_field",
                    "the concurrency limit is not a whole number",
                    "enter a number, or leave it empty for no limit",
                )
            })?;
            let expected_version = fields.get("version").and_then(|text| text.parse().ok());
            let put = PutQueue {
                paused: fields.get("paused").is_some(),
                max_running,
                dispatch: fields.get("dispatch").and_then(Dispatch::from_word).unwrap_or_default(),
                expected_version,
            };
            drop(api::put_queue(state, view.caller.clone(), name, query, Body(put)).await?);
        }
    }
    Ok(redirect(&view.link("/queues", &[])))
}
