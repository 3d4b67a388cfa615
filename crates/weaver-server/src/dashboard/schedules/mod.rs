//! Schedules: what fires when, and what came of it.

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
use weaver_api::{Fire, NamespaceQuery, Schedule, SchedulesQuery, Trigger};
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
/// How many of the next fires of all namespaces are looked at for those of one.
const UPCOMING_LOOKED_AT: u32 = 100;
/// Fires to come that are shown of a schedule.
pub(super) const FIRES: u32 = 5;

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
        @if prefix.is_some() || page.next.is_some() || view.query.get("cursor").is_some() { (finder(&view, prefix.as_deref())) }
        @if page.items.is_empty() && prefix.is_none() {
            (layout::empty("There is no schedule here yet. A schedule makes tasks by the clock, or when an event happens.",
                "Make one with the button above, or in a terminal:",
                "weaver schedules add ping http '{\"url\": \"https://example.org\"}' --cron 'daily at 07:00' --tz Europe/Berlin"))
        } @else if page.items.is_empty() { p.soft { "No name begins so." } }
        @else { (table(&view, &page.items, &states)) }
        @if let Some(next) = &page.next {
            nav.row aria-label="Pages of the list" { a.button rel="next" href=(format!("/schedules?{}", view.query.with("cursor", Some(next)))) { "More" } }
        }
    };
    Ok(layout::page(&view, &Head { title: "Schedules", section: "Schedules", live: "any" }, &body))
}

fn finder(view: &View, prefix: Option<&str>) -> Markup {
    html! {
        form.filters method="get" action="/schedules" role="search" {
            input type="hidden" name="namespace" value=(view.namespace);
            label { "Name begins with" input name="prefix" value=[prefix.map(plain_attribute)]; }
            button { "Find" }
            @if prefix.is_some() { a href=(view.link("/schedules", &[])) { "All" } }
        }
    }
}

fn table(view: &View, schedules: &[Schedule], states: &HashMap<String, TaskState>) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Schedule" } th scope="col" { "When" } th.fit.wide-only scope="col" { "Zone" } th.fit.wide-only scope="col" { "Fires" }
                th.fit scope="col" { "Next" } th.fit scope="col" { "Last task" }
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

/// What makes it fire, in words, and as it was written.
pub(super) fn trigger(trigger: &Trigger) -> Markup {
    match trigger {
        Trigger::Event { event_type } => html! { "On event " code { (plain(event_type)) } },
        Trigger::Time { schedule, .. } => {
            let words = words(trigger);
            let same = words.as_ref().is_ok_and(|words| words.eq_ignore_ascii_case(schedule));
            html! {
                @match &words { Ok(words) => (plain(words)), Err(wrong) => { span.dead { (plain(wrong)) } } }
                @if !same { br; code.soft { (plain(schedule)) } }
            }
        }
    }
}

fn words(trigger: &Trigger) -> Result<String, String> {
    let Trigger::Time { schedule, tz, .. } = trigger else { return Ok(String::new()) };
    let written = Written { schedule: schedule.clone(), tz: tz.clone(), gap: None, overlap: None };
    Calendar::new(written).map(|calendar| calendar.words()).map_err(|bad| bad.to_string())
}

fn enabled(schedule: &Schedule) -> Markup {
    html! { @if schedule.spec.enabled { span.state.succeeded { "enabled" } } @else { span.state.cancelled { "disabled" } } }
}

fn next(view: &View, schedule: &Schedule) -> Markup {
    match (&schedule.spec.trigger, schedule.next_fire_at) {
        _ if !schedule.spec.enabled => html! { span.soft { "disabled" } },
        // Late, because all are paused, or nobody was there.
        (_, Some(at)) if at <= view.now => html! { "due " (when(at, view.now)) },
        (_, Some(at)) => when(at, view.now),
        (Trigger::Event { .. }, None) => html! { span.soft { "when it happens" } },
        (Trigger::Time { .. }, None) => html! { span.soft { "never again" } },
    }
}

/// Fires to come, each with what a change of the clocks has to do with it.
pub(super) fn fires(view: &View, fires: &[Fire]) -> Markup {
    html! {
        ol.fires {
            @for fire in fires {
                li {
                    time datetime=(fire.at) title=(fire.at) { (plain(&fire.local)) } " " span.soft { (when(fire.at, view.now)) }
                    @for note in &fire.notes { span.note { (plain(note)) } }
                }
            }
        }
    }
}

/// What fires next here, for the overview.
pub(super) async fn soon(view: &View) -> Result<Markup, Problem> {
    let mut found = view.state.scheduler.upcoming(&view.namespace, UPCOMING_LOOKED_AT).await?;
    found.truncate(FIRES as usize);
    Ok(html! {
        @if found.is_empty() {
            p.soft { "Nothing fires by the clock here. " a href=(view.link("/schedules", &[])) { "Schedules" } }
        } @else {
            div.wide { table {
                thead { tr { th scope="col" { "Schedule" } th.fit scope="col" { "Next" } th.fit scope="col" { "At" } } }
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

/// The page of a schedule. By query: a name may hold what a path cannot.
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

/// What became of tasks, by id. Those that were purged are not in it.
async fn states(
    view: &View,
    ids: impl Iterator<Item = &String>,
) -> Result<HashMap<String, TaskState>, Problem> {
    let keys: Vec<TaskKey> = ids
        .filter_map(|id| Some(TaskKey { namespace: view.namespace.clone(), id: id.parse().ok()? }))
        .collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let found = view.state.store.get_tasks(&keys).await?;
    Ok(found.into_iter().flatten().map(|task| (task.key.id.to_string(), task.state)).collect())
}
