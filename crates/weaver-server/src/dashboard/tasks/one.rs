//! One task: state and its explanation, timeline, payload, result, log, actions.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use weaver_api::{Explanation, Task};
use weaver_core::task::TaskState;

use super::super::form::path_part;
use super::super::gate::redirect;
use super::super::layout::{self, Head, Html};
use super::super::text::{plain, sentence};
use super::super::view::View;
use super::{log, parts};
use crate::api::extract::{Name, Params};
use crate::api::{Permission, task as api};
use crate::problem::Problem;

pub(in crate::dashboard) async fn show(view: View, Path(id): Path<String>) -> Result<Html, Problem> {
    let (state, caller) = (|| State(view.state.clone()), || view.caller.clone());
    let query = || Params(view.namespace_query());
    let task = api::get_task(state(), caller(), Name(id.clone()), query()).await?.0;
    let explanation = api::explain_task(state(), caller(), Name(id), query()).await?.0;
    let log = log::section(&view, &task).await?;
    let body = html! {
        h1 { "Task " code { (task.id) } " " (layout::state(task.state)) }
        p.soft { (plain(&task.task_type)) " in queue " a href=(view.link("/tasks", &[("queue", &task.queue)])) { (plain(&task.queue)) } }
        (actions(&view, &task))
        (reasons(&view, &explanation))
        @if let Some(progress) = &task.progress {
            @let percent = format!("{:.0}", progress.fraction * 100.0);
            div.row {
                progress max="100" value=(percent) aria-label="Progress" {}
                span { (percent) " % " (plain(&progress.message)) }
            }
        }
        div.columns {
            div {
                (log)
                (parts::document("Payload", task.payload.as_ref(), task.payload_hex.as_deref(), &task.content_type))
                (parts::document("Result", task.result.as_ref(), task.result_hex.as_deref(), ""))
                (parts::commands(&view, &task))
            }
            div {
                h2 { "Timeline" }
                (parts::timeline(&view, &task))
                h2 { "Details" }
                (parts::details(&view, &task))
            }
        }
    };
    let title = format!("Task {}", task.id);
    Ok(layout::page(&view, &Head { title: &title, section: "Tasks", live: &task.id }, &body))
}

fn actions(view: &View, task: &Task) -> Markup {
    let action = |verb: &str| view.link(&format!("/tasks/{}/{verb}", path_part(&task.id)), &[]);
    html! {
        @if view.may(Permission::ManageTasks) {
            div.row {
                @if task.state.is_terminal() { (layout::button(view, &action("retry"), "Retry as a new task", &[], "primary")) }
                @else { (layout::button(view, &action("cancel"), "Cancel", &[], "danger")) }
                @if matches!(task.state, TaskState::Scheduled | TaskState::RetryScheduled) {
                    (layout::button(view, &action("run-now"), "Run now", &[], ""))
                }
            }
        }
    }
}

/// Each reason as a sentence, with a link to the object it names.
fn reasons(view: &View, explanation: &Explanation) -> Markup {
    html! {
        ul.reasons aria-label="Explanation" {
            @for reason in &explanation.reasons {
                li {
                    (plain(&sentence(&reason.message)))
                    @if let Some(id) = &reason.task_id { " " a href=(view.task_link(id)) { "Task " (id) } }
                    @else if let Some(queue) = &reason.queue { " " a href=(view.link("/queues", &[])) { "Queue " (plain(queue)) } }
                    @else if reason.worker.is_some() { " " a href=(view.link("/workers", &[])) { "Workers" } }
                }
            }
        }
    }
}

pub(in crate::dashboard) async fn cancel(view: View, Path(id): Path<String>) -> Result<Response, Problem> {
    let query = Params(view.namespace_query());
    drop(api::cancel_task(State(view.state.clone()), view.caller.clone(), Name(id.clone()), query).await?);
    Ok(redirect(&view.task_link(&id)))
}

pub(in crate::dashboard) async fn run_now(view: View, Path(id): Path<String>) -> Result<Response, Problem> {
    let query = Params(view.namespace_query());
    drop(api::run_task_now(State(view.state.clone()), view.caller.clone(), Name(id.clone()), query).await?);
    Ok(redirect(&view.task_link(&id)))
}

/// Redirects to the new task.
pub(in crate::dashboard) async fn retry(view: View, Path(id): Path<String>) -> Result<Response, Problem> {
    let query = Params(view.namespace_query());
    let (_, created) =
        api::retry_task(State(view.state.clone()), view.caller.clone(), Name(id), query).await?;
    Ok(redirect(&view.task_link(&created.0.id)))
}
