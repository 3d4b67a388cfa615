//! Workers and runners: who is alive, what they do, and drain.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use weaver_api::{DirectRequest, ListTasksQuery, NamespacePageQuery, Runner, Task};
use weaver_core::ports::Directive;
use weaver_core::task::TaskState;

use super::form::Fields;
use super::gate::redirect;
use super::layout::{self, Head, Html};
use super::text::{plain, when};
use super::view::View;
use crate::api::extract::{Body, Name, Params};
use crate::api::{Permission, list, runners as api};
use crate::problem::Problem;

/// How many are shown.
const RUNNERS_MAX: u32 = 200;
/// How many running tasks are looked at, to say which runner has which.
const RUNNING_MAX: u32 = 500;
/// How many tasks are named per runner.
const NAMED_MAX: usize = 5;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let state = || State(view.state.clone());
    let namespace = Some(view.namespace.to_string());
    let query = NamespacePageQuery {
        namespace: namespace.clone(),
        cursor: view.query.text("cursor"),
        limit: Some(RUNNERS_MAX),
    };
    let page = api::list_runners(state(), view.caller.clone(), Params(query)).await?.0;
    let running = ListTasksQuery {
        namespace,
        state: Some(TaskState::Running.to_string()),
        limit: Some(RUNNING_MAX),
        ..ListTasksQuery::default()
    };
    let running = list::list_tasks(state(), view.caller.clone(), Params(running)).await?.0.items;
    let mut runners = page.items;
    runners.sort_by_key(|runner| (!runner.alive, runner.beat.runner_id.clone()));
    let body = html! {
        h1 { "Runners" }
        @if runners.is_empty() {
            (layout::empty("No worker or runner has reported here yet.", "Start one:", "weaver worker"))
        } @else { (table(&view, &runners, &running)) }
        @if let Some(next) = &page.next {
            nav.row aria-label="Pages of the list" { a.button rel="next" href=(format!("/runners?{}", view.query.with("cursor", Some(next)))) { "More" } }
        }
        p.fine { "A runner that drains takes nothing new and finishes what it has. One is alive while it has been heard of within two minutes." }
    };
    Ok(layout::page(&view, &Head { title: "Runners", section: "Runners", live: "any" }, &body))
}

fn table(view: &View, runners: &[Runner], running: &[Task]) -> Markup {
    let may = view.may(Permission::ManageRunners);
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Runner" } th.fit scope="col" { "Status" } th.fit scope="col" { "Heard of" } th.n scope="col" { "Running" }
                th scope="col" { "Tasks" } th.wide-only scope="col" { "Queues" } th.wide-only scope="col" { "Types" } @if may { th.fit scope="col" { "Tell it" } }
            } }
            tbody { @for runner in runners { (row(view, runner, running, may)) } }
        } }
    }
}

fn row(view: &View, runner: &Runner, running: &[Task], may: bool) -> Markup {
    let beat = &runner.beat;
    let has = |task: &&Task| task.lease.as_ref().is_some_and(|held| held.worker == beat.runner_id);
    let mine: Vec<&Task> = running.iter().filter(has).collect();
    let types = beat.types.as_ref().map_or("any".to_owned(), |types| types.join(", "));
    let (word, class) = match (runner.alive, beat.draining || runner.directive != Directive::Run) {
        (false, _) => ("stopped", "state cancelled"),
        (true, true) => ("draining", "state retry_scheduled"),
        (true, false) => ("alive", "state succeeded"),
    };
    html! {
        tr data-key=(beat.runner_id) {
            td.name { (plain(&beat.runner_id)) @if let Some(root) = &beat.project_root { br; span.soft { (plain(root)) } } }
            td.fit { span class=(class) { (word) } }
            td.fit { (when(runner.last_heartbeat, view.now)) }
            td.n { (beat.running) "/" (beat.capacity) }
            td {
                @for task in mine.iter().take(NAMED_MAX) { a.id href=(view.task_link(&task.id)) { (task.id) } " " }
                @if mine.len() > NAMED_MAX { span.soft { "and " (mine.len() - NAMED_MAX) " more" } }
                @if mine.is_empty() { span.soft { "–" } }
            }
            td.wide-only { (plain(&beat.queues.join(", "))) }
            td.wide-only { (plain(&types)) }
            @if may { td.fit { @if runner.alive { (tell(view, runner)) } } }
        }
    }
}

fn tell(view: &View, runner: &Runner) -> Markup {
    let (label, directive) =
        if runner.directive == Directive::Run { ("Drain", "drain") } else { ("Take work again", "run") };
    let fields = [("runner", runner.beat.runner_id.as_str()), ("directive", directive)];
    layout::button(view, &view.link("/runners", &[]), label, &fields, "")
}

pub(super) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    let directive = match fields.get("directive") {
        Some("drain") => Directive::Drain,
        Some("run") => Directive::Run,
        _ => {
            return Err(Problem::bad_request(
                "no_directive",
                "the form does not say what to tell the runner",
                "go back and use a button",
            ));
        }
    };
    let name = Name(fields.text("runner").unwrap_or_default());
    let (query, body) = (Params(view.namespace_query()), Body(DirectRequest { directive }));
    api::direct_runner(State(view.state.clone()), view.caller.clone(), name, query, body).await?;
    Ok(redirect(&view.link("/runners", &[])))
}
