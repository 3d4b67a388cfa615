//! Task groups: the tasks of a group in order, and a form for the next prompt.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use weaver_agent::prompt::{PROMPT_CONTENT_TYPE, PROMPT_TASK_TYPE};
use weaver_api::{
    EnqueueRequest, EnqueueResponse, Group, Json, ListTasksQuery, LogsQuery, NamespacePageQuery, NewTask,
    Order, Task,
};
use weaver_core::name::Namespace;

use super::form::Fields;
use super::gate::redirect;
use super::layout::{self, Head, Html};
use super::tasks;
use super::text::{number, plain, plain_attribute, when};
use super::view::View;
use crate::api::extract::{Body, Name, Params};
use crate::api::{Permission, enqueue, list, logs};
use crate::problem::Problem;

const GROUPS: u32 = 100;
/// Tasks of a group that are shown, the latest ones.
const PROMPTS: u32 = 50;
/// Log lines shown per task.
const LINES: u32 = 100;
/// Namespaces whose workers are counted.
const NAMESPACES_MAX: usize = 20;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let query = NamespacePageQuery {
        namespace: Some(view.namespace.to_string()),
        cursor: view.query.text("cursor"),
        limit: Some(GROUPS),
    };
    let page = list::list_groups(State(view.state.clone()), view.caller.clone(), Params(query)).await?.0;
    let body = html! {
        h1 { "Task groups" }
        (namespaces(&view).await?)
        @if page.items.is_empty() {
            (layout::empty("No task groups in this namespace yet. A group collects related tasks, such as the prompts of one piece of work.",
                "Submit a prompt below, or from a terminal:",
                "weaver prompt 'Fix the failing test' --group repairs"))
        } @else { (table(&view, &page.items)) }
        @if let Some(next) = &page.next {
            (layout::next_page(&format!("/groups?{}", view.query.with("cursor", Some(next)))))
        }
        (prompt_form(&view, "", ""))
    };
    Ok(layout::page(&view, &Head { title: "Task groups", section: "Groups", live: "any" }, &body))
}

/// The namespaces, each with its workers.
async fn namespaces(view: &View) -> Result<Markup, Problem> {
    let mut marks = Vec::new();
    for namespace in view.namespaces.iter().take(NAMESPACES_MAX) {
        let workers = view.state.store.list_runners(namespace, None, 100).await?.items;
        let alive = workers.iter().filter(|worker| worker.is_alive(view.now)).count();
        marks.push((namespace, alive, workers.len() - alive));
    }
    let address = |namespace: &Namespace| {
        format!("/groups?{}", super::form::encoded([("namespace", namespace.as_str())]))
    };
    Ok(html! {
        ul.states aria-label="Namespaces" {
            @for (namespace, alive, stopped) in marks {
                li { a href=(address(namespace)) aria-current=[(*namespace == view.namespace).then_some("true")] {
                    (plain(namespace.as_str())) " "
                    @if alive > 0 { span.state.succeeded { "workers: " (alive) " running" } } @else { span.state.cancelled { "workers: " (stopped) " stopped" } }
                } }
            }
        }
    })
}

fn table(view: &View, groups: &[Group]) -> Markup {
    html! {
        div.wide { table {
            thead { tr { th scope="col" { "Group" } th scope="col" { "Tasks" } th.fit scope="col" { "Updated" } } }
            tbody { @for group in groups {
                tr data-key=(group.id) {
                    td.name { a href=(view.link("/group", &[("id", &group.id)])) { (plain(&group.id)) } }
                    td { @for (state, count) in group.counts.0.iter().filter(|(_, count)| **count > 0) {
                        a href=(view.link("/tasks", &[("group", &group.id), ("state", state.as_str())])) {
                            (number(*count)) " " (layout::state(*state))
                        } " "
                    } }
                    td.fit { (when(group.last_at, view.now)) }
                }
            } }
        } }
    }
}

pub(super) async fn show_one(view: View) -> Result<Html, Problem> {
    let id = view.query.text("id").unwrap_or_default();
    let query = ListTasksQuery {
        namespace: Some(view.namespace.to_string()),
        group: Some(id.clone()),
        order: Some(Order::NewestFirst),
        limit: Some(PROMPTS),
        ..ListTasksQuery::default()
    };
    let mut page = list::list_tasks(State(view.state.clone()), view.caller.clone(), Params(query)).await?.0;
    page.items.reverse();
    let session = page.items.iter().rev().find_map(|task| task.session_id.clone()).unwrap_or_default();
    let mut parts = Vec::new();
    for task in &page.items {
        parts.push((task.id.clone(), part(&view, task).await?));
    }
    let body = html! {
        h1 { "Group " (plain(&id)) }
        p { a href=(view.link("/groups", &[])) { "All groups" } " · " a href=(view.link("/tasks", &[("group", &id)])) { "Show as task list" } }
        @if page.next.is_some() { p.fine { "Showing the latest " (PROMPTS) "." } }
        @if parts.is_empty() { p.soft { "No tasks in this group yet." } }
        @for (id, part) in &parts { article.prompt data-key=(id) { (part) } }
        (prompt_form(&view, &id, &session))
    };
    let title = format!("Group {id}");
    Ok(layout::page(&view, &Head { title: &title, section: "Groups", live: "any" }, &body))
}

/// One task of the group: payload, log, result or error.
async fn part(view: &View, task: &Task) -> Result<Markup, Problem> {
    let query =
        LogsQuery { namespace: Some(view.namespace.to_string()), last: Some(LINES), ..LogsQuery::default() };
    let log =
        logs::task_logs(State(view.state.clone()), view.caller.clone(), Name(task.id.clone()), Params(query))
            .await?
            .0;
    let label = format!("Log of task {}", task.id);
    let title = if task.task_type == PROMPT_TASK_TYPE { "Prompt" } else { "Payload" };
    Ok(html! {
        header {
            a.id href=(view.task_link(&task.id)) { (task.id) } (layout::state(task.state)) span.soft { (when(task.created_at, view.now)) }
            @if task.task_type != PROMPT_TASK_TYPE { span.soft { (plain(&task.task_type)) } }
            @if let Some(session) = &task.session_id { span.soft { "session " (plain(session)) } }
        }
        (tasks::document(title, task.payload.as_ref(), task.payload_hex.as_deref(), &task.content_type))
        @if !log.lines.is_empty() {
            details open[!task.state.is_terminal()] { summary { "Log" } pre.log.wrap tabindex="0" aria-label=(label) { (tasks::lines_of(&log.lines)) } }
        }
        (tasks::document("Result", task.result.as_ref(), task.result_hex.as_deref(), ""))
        @if let Some(error) = task.last_error.as_deref().filter(|_| task.result.is_none()) { p.alert { (plain(error)) } }
    })
}

fn prompt_form(view: &View, group: &str, session: &str) -> Markup {
    html! {
        @if view.may(Permission::EnqueueExec) {
            section {
                h2 { "New prompt" }
                form.stack method="post" action=(view.link("/prompts", &[])) {
                    (layout::key(view))
                    label for="prompt" { "Prompt" }
                    textarea #prompt name="prompt" required {}
                    label for="group" { "Group (existing or new)" }
                    input #group name="group" value=(plain_attribute(group)) maxlength="255";
                    label for="session" { "Session (prompts of a session run sequentially)" }
                    input #session name="session" value=(plain_attribute(session)) maxlength="255";
                    button.primary { "Submit" }
                }
            }
        }
    }
}

pub(super) async fn prompt(view: View, fields: Fields) -> Result<Response, Problem> {
    // Browsers submit line breaks as CRLF.
    let text = fields.get("prompt").unwrap_or_default().replace("\r\n", "\n");
    if text.trim().is_empty() {
        return Err(Problem::bad_request(
            "prompt_empty",
            "the prompt is empty",
            "go back and enter a prompt",
        ));
    }
    let payload = Json::of(&text).map_err(|error| {
        Problem::bad_request("prompt_unreadable", error.to_string(), "go back and enter plain text")
    })?;
    let task = NewTask {
        task_type: PROMPT_TASK_TYPE.to_owned(),
        namespace: Some(view.namespace.to_string()),
        payload: Some(payload),
        content_type: Some(PROMPT_CONTENT_TYPE.to_owned()),
        task_group_id: fields.text("group"),
        session_id: fields.text("session"),
        ..NewTask::default()
    };
    let request = Body(EnqueueRequest::One(Box::new(task)));
    let (_, enqueued) =
        enqueue::enqueue_tasks(State(view.state.clone()), view.caller.clone(), request).await?;
    Ok(redirect(&match (fields.get("group"), enqueued.0) {
        (Some(group), _) => view.link("/group", &[("id", group)]),
        (None, EnqueueResponse::One(created)) => view.task_link(&created.id),
        (None, EnqueueResponse::Many { .. }) => view.link("/tasks", &[]),
    }))
}
