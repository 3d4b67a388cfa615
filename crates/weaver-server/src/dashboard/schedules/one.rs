//! One schedule: upcoming runs, recent tasks, details, actions.

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{ConcurrencyPolicy, ListTasksQuery, Misfire, Order, Schedule, Task, Trigger, UpcomingQuery};
use weaver_scheduler::definition::{DEFINITION_LABEL, RUNS_SHOWN_MAX};

use super::super::layout::{self, Head, Html};
use super::super::tasks;
use super::super::text::{plain, plain_attribute, shell_word, span, when};
use super::super::view::View;
use super::{UPCOMING_MAX, link, next, read, trigger, upcoming};
use crate::api::extract::{Name, Params};
use crate::api::{Permission, list, schedules as api};
use crate::problem::Problem;

pub(in crate::dashboard) async fn show(view: View) -> Result<Html, Problem> {
    let name = view.query.text("name").unwrap_or_default();
    let schedule = read(&view, &name).await?;
    let task = &schedule.spec.task;
    let body = html! {
        h1 { "Schedule " (plain(&name)) " " (super::enabled(&schedule)) }
        p { a href=(view.link("/schedules", &[])) { "All schedules" } }
        @if view.may(Permission::ManageSchedules) { (actions(&view, &schedule)) }
        @if let Some(notice) = &schedule.last_notice {
            p.alert { "Last notice, " (when(notice.at, view.now)) ": " (plain(&notice.kind)) ", " (plain(&notice.reason)) "." }
        }
        div.columns {
            div {
                h2 { "Upcoming runs" }
                (upcoming_runs(&view, &schedule).await?)
                h2 { "Recent tasks" }
                (recent_tasks(&view, &schedule).await?)
                (tasks::document("Payload", task.payload.as_ref(), None, ""))
                (commands(&view, &schedule))
            }
            div { h2 { "Details" } (details(&view, &schedule)) }
        }
    };
    let title = format!("Schedule {name}");
    Ok(layout::page(&view, &Head { title: &title, section: "Schedules", live: "any" }, &body))
}

fn actions(view: &View, schedule: &Schedule) -> Markup {
    let (action, label) = if schedule.spec.enabled { ("disable", "Disable") } else { ("enable", "Enable") };
    let (here, version) = (link(view, &schedule.name), schedule.version.to_string());
    html! {
        div.row {
            (layout::button(view, &here, "Run now", &[("action", "run")], "primary"))
            (layout::button(view, &here, label, &[("action", action)], ""))
            a.button href=(view.link("/schedule/edit", &[("name", &schedule.name)])) { "Edit" }
            details {
                summary { "Delete…" }
                p.fine { "It will not run again. Tasks it already enqueued are kept." }
                (layout::button(view, &here, &format!("Delete {}", plain_attribute(&schedule.name)),
                    &[("action", "delete"), ("version", &version)], "danger"))
            }
        }
    }
}

async fn upcoming_runs(view: &View, schedule: &Schedule) -> Result<Markup, Problem> {
    if !schedule.spec.enabled {
        return Ok(html! { p.soft { "None while the schedule is disabled." } });
    }
    if matches!(schedule.spec.trigger, Trigger::Event { .. }) {
        return Ok(html! { p.soft { "Runs for each event of its type." } });
    }
    let query =
        UpcomingQuery { namespace: Some(view.namespace.to_string()), from: None, count: Some(UPCOMING_MAX) };
    let request = api::upcoming_runs(
        State(view.state.clone()),
        view.caller.clone(),
        Name(schedule.name.clone()),
        Params(query),
    );
    let found = request.await?.0.runs;
    let paused = view.state.scheduler.settings().current().paused;
    Ok(html! {
        @if paused { p.alert { "All schedules are paused by the setting " code { "scheduler.paused" } ": nothing runs until it is reset." } }
        @if found.is_empty() { p.soft { "No more runs." } } @else { (upcoming(view, &found)) }
    })
}

async fn recent_tasks(view: &View, schedule: &Schedule) -> Result<Markup, Problem> {
    let label = format!("{DEFINITION_LABEL}={}", schedule.name);
    let query = ListTasksQuery {
        namespace: Some(view.namespace.to_string()),
        label: Some(label.clone()),
        order: Some(Order::NewestFirst),
        limit: Some(RUNS_SHOWN_MAX as u32),
        ..ListTasksQuery::default()
    };
    let page = list::list_tasks(State(view.state.clone()), view.caller.clone(), Params(query)).await?.0;
    let unscheduled = match schedule.spec.trigger {
        Trigger::Time { .. } => "manual run",
        Trigger::Event { .. } => "event or manual run",
    };
    Ok(html! {
        @if page.items.is_empty() { p.soft { "No tasks yet." } }
        @else {
            div.wide { table {
                thead { tr { th.fit scope="col" { "Task" } th.fit scope="col" { "State" } th scope="col" { "Scheduled for" } th.fit scope="col" { "Created" } } }
                tbody { @for task in &page.items { (row(view, task, unscheduled)) } }
            } }
            p { a href=(view.link("/tasks", &[("label", &label)])) { "All tasks of this schedule" } }
        }
    })
}

fn row(view: &View, task: &Task, unscheduled: &str) -> Markup {
    html! {
        tr data-key=(task.id) {
            td.fit { a.id href=(view.task_link(&task.id)) { (task.id) } }
            td.fit { (layout::state(task.state)) }
            td {
                @match task.scheduled_for { Some(at) => time datetime=(at) { (at) }, None => span.soft { (unscheduled) } }
                @if let Some(error) = &task.last_error { br; span.soft { (plain(error)) } }
            }
            td.fit { (when(task.created_at, view.now)) }
        }
    }
}

fn details(view: &View, schedule: &Schedule) -> Markup {
    let (spec, task) = (&schedule.spec, &schedule.spec.task);
    let ms = |ms: u64| span(std::time::Duration::from_millis(ms));
    html! {
        dl.details {
            dt { "Trigger" } dd { (trigger(&spec.trigger)) }
            @if let Trigger::Time { tz: Some(tz), .. } = &spec.trigger {
                dt { "Time zone" } dd { (plain(tz)) }
            }
            dt { "Next run" } dd { (next(view, schedule)) }
            dt { "Last run" }
            dd { @match schedule.last_run_at { Some(at) => (when(at, view.now)), None => "never" } }
            dt { "Task" } dd { (plain(&task.task_type)) " in queue " (plain(task.queue.as_deref().unwrap_or("default"))) }
            @if let Some(priority) = task.priority { dt { "Priority" } dd { (priority) } }
            @if let Some(timeout) = task.timeout_ms { dt { "Timeout" } dd { (ms(timeout)) } }
            @if let Some(attempts) = task.max_attempts { dt { "Max attempts" } dd { (attempts) } }
            @if !task.labels.is_empty() { dt { "Labels" } dd { @for (name, value) in &task.labels { (plain(name)) "=" (plain(value)) " " } } }
            dt { "Concurrency policy" } dd { (concurrency(spec.concurrency_policy)) }
            dt { "Missed runs" } dd { (misfire(spec.misfire)) }
            dt { "Version" } dd { (schedule.version) }
            dt { "Created" } dd { (when(schedule.created_at, view.now)) }
        }
    }
}

pub(super) fn concurrency(policy: ConcurrencyPolicy) -> &'static str {
    match policy {
        ConcurrencyPolicy::Allow => "allow: runs may overlap",
        ConcurrencyPolicy::Forbid => "forbid: skip the new run",
        ConcurrencyPolicy::Replace => "replace: cancel the unfinished task",
    }
}

fn misfire(misfire: Misfire) -> String {
    match misfire {
        Misfire::RunOnce => "run once".to_owned(),
        Misfire::RunAll { max } => format!("run all, at most the latest {max}"),
        Misfire::SkipAfter { seconds } => {
            let late = span(std::time::Duration::from_secs(seconds));
            format!("skip runs that are more than {late} late")
        }
    }
}

fn commands(view: &View, schedule: &Schedule) -> Markup {
    let flag = tasks::namespace_flag(view);
    let name = shell_word(&schedule.name);
    html! {
        section {
            h2 { "CLI" }
            (layout::command(&format!("weaver schedules show {name}{flag}")))
            (layout::command(&format!("weaver schedules run-now {name}{flag} --wait")))
            (layout::command(&format!("weaver schedules edit {name}{flag}")))
        }
    }
}
