//! Workers: status, last heartbeat, running tasks; drain and resume.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use weaver_api::{DirectiveRequest, ListTasksQuery, NamespacePageQuery, Task, Worker};
use weaver_core::ports::Directive;
use weaver_core::task::TaskState;

use super::form::Fields;
use super::gate::redirect;
use super::layout::{self, Head, Html};
use super::text::{plain, when};
use super::view::View;
use crate::api::extract::{Body, Name, Params};
use crate::api::{Permission, list, workers as api};
use crate::problem::Problem;

const WORKERS_MAX: u32 = 200;
/// Running tasks read to show which worker has which.
const RUNNING_MAX: u32 = 500;
/// Tasks listed per worker.
const NAMED_MAX: usize = 5;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let state = || State(view.state.clone());
    let namespace = Some(view.namespace.to_string());
    let query = NamespacePageQuery {
        namespace: namespace.clone(),
        cursor: view.query.text("cursor"),
        limit: Some(WORKERS_MAX),
    };
    let page = api::list_workers(state(), view.caller.clone(), Params(query)).await?.0;
    let running = ListTasksQuery {
        namespace,
        state: Some(TaskState::Running.to_string()),
        limit: Some(RUNNING_MAX),
        ..ListTasksQuery::default()
    };
    let running = list::list_tasks(state(), view.caller.clone(), Params(running)).await?.0.items;
    let mut workers = page.items;
    workers.sort_by_key(|worker| (!worker.alive, worker.heartbeat.worker_id.clone()));
    let body = html! {
        h1 { "Workers" }
        @if workers.is_empty() {
            (layout::empty("No worker has sent a heartbeat here yet.", "Start one:", "weaver worker"))
        } @else { (table(&view, &workers, &running)) }
        @if let Some(next) = &page.next {
            (layout::next_page(&format!("/workers?{}", view.query.with("cursor", Some(next)))))
        }
        p.fine { "A draining worker leases no new tasks and finishes the ones it has. A worker without a heartbeat for two minutes counts as stopped." }
    };
    Ok(layout::page(&view, &Head { title: "Workers", section: "Workers", live: "any" }, &body))
}

fn table(view: &View, workers: &[Worker], running: &[Task]) -> Markup {
    let may = view.may(Permission::ManageWorkers);
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Worker" } th.fit scope="col" { "Status" } th.fit scope="col" { "Last heartbeat" } th.n scope="col" { "Running" }
                th scope="col" { "Tasks" } th.wide-only scope="col" { "Queues" } th.wide-only scope="col" { "Types" } @if may { th.fit scope="col" { "Actions" } }
            } }
            tbody { @for worker in workers { (row(view, worker, running, may)) } }
        } }
    }
}

fn row(view: &View, worker: &Worker, running: &[Task], may: bool) -> Markup {
    let heartbeat = &worker.heartbeat;
    let has = |task: &&Task| task.lease.as_ref().is_some_and(|held| held.worker == heartbeat.worker_id);
    let mine: Vec<&Task> = running.iter().filter(has).collect();
    let types = heartbeat.types.as_ref().map_or("any".to_owned(), |types| types.join(", "));
    let (word, class) = match (worker.alive, heartbeat.draining || worker.directive != Directive::Run) {
        (false, _) => ("stopped", "state cancelled"),
        (true, true) => ("draining", "state retry_scheduled"),
        (true, false) => ("running", "state succeeded"),
    };
    html! {
        tr data-key=(heartbeat.worker_id) {
            td.name { (plain(&heartbeat.worker_id)) @if let Some(root) = &heartbeat.project_root { br; span.soft { (plain(root)) } } }
            td.fit { span class=(class) { (word) } }
            td.fit { (when(worker.last_heartbeat_at, view.now)) }
            td.n { (heartbeat.running) "/" (heartbeat.capacity) }
            td {
                @for task in mine.iter().take(NAMED_MAX) { a.id href=(view.task_link(&task.id)) { (task.id) } " " }
                @if mine.len() > NAMED_MAX { span.soft { "and " (mine.len() - NAMED_MAX) " more" } }
                @if mine.is_empty() { span.soft { "–" } }
            }
            td.wide-only { (plain(&heartbeat.queues.join(", "))) }
            td.wide-only { (plain(&types)) }
            @if may { td.fit { @if worker.alive { (actions(view, worker)) } } }
        }
    }
}

fn actions(view: &View, worker: &Worker) -> Markup {
    let (label, directive) =
        if worker.directive == Directive::Run { ("Drain", "drain") } else { ("Resume", "run") };
    let fields = [("worker", worker.heartbeat.worker_id.as_str()), ("directive", directive)];
    layout::button(view, &view.link("/workers", &[]), label, &fields, "")
}

pub(super) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    let directive = match fields.get("directive") {
        Some("drain") => Directive::Drain,
        Some("run") => Directive::Run,
        _ => {
            return Err(Problem::bad_request(
                "no_directive",
                "the form has no directive",
                "go back and use the Drain or Resume button",
            ));
        }
    };
    let name = Name(fields.text("worker").unwrap_or_default());
    let (query, body) = (Params(view.namespace_query()), Body(DirectiveRequest { directive }));
    api::direct_worker(State(view.state.clone()), view.caller.clone(), name, query, body).await?;
    Ok(redirect(&view.link("/workers", &[])))
}
