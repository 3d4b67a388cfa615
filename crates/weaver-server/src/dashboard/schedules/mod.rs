//! Schedules: the list, and what the pages of schedules share.

mod act;
mod fields;
mod form;
mod one;

pub(super) use act::{act, check, save};
pub(super) use form::{show_edit, show_new};
pub(super) use one::show as show_one;

use std::collections::HashMap;

use axum::extract::State;
use maud::{Markup, html};
use weaver_api::{NamespaceQuery, Schedule, SchedulesQuery, Trigger, UpcomingRun};
use weaver_core::id::TaskKey;
use weaver_core::task::TaskState;
use weaver_scheduler::calendar::{Schedule as Calendar, ScheduleSpec as Written};

use super::layout::{self, Head, Html};
use super::text::{plain, plain_attribute, when};
use super::view::View;
use crate::api::extract::{Name, Params};
use crate::api::{Permission, schedules as api};
use crate::problem::Problem;

const SCHEDULES: u32 = 50;
/// Upcoming runs of all namespaces that are read to find those of one.
const UPCOMING_READ: u32 = 100;
/// Upcoming runs shown of a schedule.
pub(super) const UPCOMING_MAX: u32 = 5;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    let query = SchedulesQuery {
        namespace: Some(view.namespace.to_string()),
        prefix: view.query.text("prefix"),
        cursor: view.query.text("cursor"),
        limit: Some(SCHEDULES),
    };
    let prefix = query.prefix.clone();
    let page = api::list_schedules(State(view.state.clone()), view.caller.clone(), Params(query)).await?.0;
    let last = page.items.iter().filter_map(|schedule| schedule.last_tasks.last());
    let states = states(&view, last).await?;
    let body = html! {
        h1 { "Schedules" }
        @if view.may(Permission::ManageSchedules) {
            p { a.button.primary href=(view.link("/schedules/new", &[])) { "New schedule" } }
        }
        @if prefix.is_some() || page.next.is_some() || view.query.get("cursor").is_some() { (search(&view, prefix.as_deref())) }
        @if page.items.is_empty() && prefix.is_none() {
            (layout::empty("No schedules in this namespace yet. A schedule enqueues tasks at given times, or for each event of a type.",
                "Create one with the button above, or from a terminal:",
                "weaver schedules add ping http '{\"url\": \"https://example.org\"}' --cron 'daily at 07:00' --tz Europe/Berlin"))
        } @else if page.items.is_empty() { p.soft { "No schedule name starts with this prefix." } }
        @else { (table(&view, &page.items, &states)) }
        @if let Some(next) = &page.next {
            (layout::next_page(&format!("/schedules?{}", view.query.with("cursor", Some(next)))))
        }
    };
    Ok(layout::page(&view, &Head { title: "Schedules", section: "Schedules", live: "any" }, &body))
}

fn search(view: &View, prefix: Option<&str>) -> Markup {
    html! {
        form.filters method="get" action="/schedules" role="search" {
            input type="hidden" name="namespace" value=(view.namespace);
            label { "Name prefix" input name="prefix" value=[prefix.map(plain_attribute)]; }
            button { "Search" }
            @if prefix.is_some() { a href=(view.link("/schedules", &[])) { "Clear" } }
        }
    }
}

fn table(view: &View, schedules: &[Schedule], states: &HashMap<String, TaskState>) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Schedule" } th scope="col" { "Trigger" } th.fit.wide-only scope="col" { "Time zone" } th.fit.wide-only scope="col" { "Status" }
                th.fit scope="col" { "Next run" } th.fit scope="col" { "Last task" }
            } }
            tbody { @for schedule in schedules { (row(view, schedule, states)) } }
        } }
    }
}

fn row(view: &View, schedule: &Schedule, states: &HashMap<String, TaskState>) -> Markup {
    html! {
        tr data-key=(schedule.name) {
            td.name { a href=(link(view, &schedule.name)) { (plain(&schedule.name)) } br; span.soft { (plain(&schedule.spec.task.task_type)) } }
            td.when { (trigger(&schedule.spec.trigger)) }
            td.fit.wide-only { @match &schedule.spec.trigger { Trigger::Time { tz: Some(tz), .. } => (plain(tz)), _ => span.soft { "–" } } }
            td.fit.wide-only { (enabled(schedule)) }
            td.fit { (next(view, schedule)) }
            td.fit { @match schedule.last_tasks.last() {
                Some(id) => { a.id href=(view.task_link(id)) { (id) } " " @if let Some(state) = states.get(id) { (layout::state(*state)) } }
                None => span.soft { "none" },
            } }
        }
    }
}

/// The trigger in words, and the expression if it differs.
pub(super) fn trigger(trigger: &Trigger) -> Markup {
    match trigger {
        Trigger::Event { event_type } => html! { "On event " code { (plain(event_type)) } },
        Trigger::Time { schedule, .. } => {
            let words = words(trigger);
            let same = words.as_ref().is_ok_and(|words| words.eq_ignore_ascii_case(schedule));
            html! {
                @match &words { Ok(words) => (plain(words)), Err(error) => { span.dead { (plain(error)) } } }
                @if !same { br; code.soft { (plain(schedule)) } }
            }
        }
    }
}

fn words(trigger: &Trigger) -> Result<String, String> {
    let Trigger::Time { schedule, tz, .. } = trigger else { return Ok(String::new()) };
    let written = Written { schedule: schedule.clone(), tz: tz.clone(), gap: None, fold: None };
    Calendar::new(written).map(|calendar| calendar.describe()).map_err(|bad| bad.to_string())
}

fn enabled(schedule: &Schedule) -> Markup {
    html! { @if schedule.spec.enabled { span.state.succeeded { "enabled" } } @else { span.state.cancelled { "disabled" } } }
}

fn next(view: &View, schedule: &Schedule) -> Markup {
    match (&schedule.spec.trigger, schedule.next_run_at) {
        _ if !schedule.spec.enabled => html! { span.soft { "disabled" } },
        // Late: schedules are paused, or no scheduler was running.
        (_, Some(at)) if at <= view.now => html! { "due " (when(at, view.now)) },
        (_, Some(at)) => when(at, view.now),
        (Trigger::Event { .. }, None) => html! { span.soft { "on event" } },
        (Trigger::Time { .. }, None) => html! { span.soft { "no more runs" } },
    }
}

/// Upcoming runs, each with its notes about DST gaps and folds.
pub(super) fn upcoming(view: &View, runs: &[UpcomingRun]) -> Markup {
    html! {
        ol.upcoming {
            @for run in runs {
                li {
                    time datetime=(run.at) title=(run.at) { (plain(&run.local)) } " " span.soft { (when(run.at, view.now)) }
                    @for note in &run.notes { span.note { (plain(note)) } }
                }
            }
        }
    }
}

/// The upcoming runs of the namespace, for the overview.
pub(super) async fn soon(view: &View) -> Result<Markup, Problem> {
    let mut found = view.state.scheduler.upcoming(&view.namespace, UPCOMING_READ).await?;
    found.truncate(UPCOMING_MAX as usize);
    Ok(html! {
        @if found.is_empty() {
            p.soft { "No upcoming runs. " a href=(view.link("/schedules", &[])) { "Schedules" } }
        } @else {
            div.wide { table {
                thead { tr { th scope="col" { "Schedule" } th.fit scope="col" { "Next run" } th.fit scope="col" { "Time" } } }
                tbody { @for schedule in &found { @if let Some(at) = schedule.next_fire_at {
                    tr data-key=(schedule.name) {
                        td.name { a href=(link(view, &schedule.name)) { (plain(&schedule.name)) } }
                        td.fit { @if at <= view.now { "due " } (when(at, view.now)) }
                        td.fit { time datetime=(at) { (at.to_string().get(..19).unwrap_or_default().replace('T', " ")) " UTC" } }
                    }
                } } }
            } }
            p { a href=(view.link("/schedules", &[])) { "All schedules" } }
        }
    })
}

/// The URL of a schedule's page. Names may contain slashes, so they are in the query.
pub(super) fn link(view: &View, name: &str) -> String {
    view.link("/schedule", &[("name", name)])
}

async fn read(view: &View, name: &str) -> Result<Schedule, Problem> {
    let query = NamespaceQuery { namespace: Some(view.namespace.to_string()) };
    let found = api::get_schedule(
        State(view.state.clone()),
        view.caller.clone(),
        Name(name.to_owned()),
        Params(query),
    );
    Ok(found.await?.0)
}

/// States of tasks by id, without purged ones.
async fn states(
    view: &View,
    ids: impl Iterator<Item = &String>,
) -> Result<HashMap<String, TaskState>, Problem> {
    let keys: Vec<TaskKey> =
        ids.filter_map(|id| Some(TaskKey::new(view.namespace.clone(), id.parse().ok()?))).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let found = view.state.store.get_tasks(&keys).await?;
    Ok(found.into_iter().flatten().map(|task| (task.shown_id(), task.state)).collect())
}
