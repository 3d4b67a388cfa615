//! The form of a schedule. It is looked at while it is filled in; without the script, when it is sent.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use weaver_api::{Problem as Wrong, Schedule};
use weaver_core::task::TypeDefaults;
use weaver_scheduler::definition::{DEFINITION_NAME_MAX_BYTES, EVENT_TYPE_MAX_BYTES};

use super::super::form::Fields;
use super::super::layout::{self, Head};
use super::super::text::{plain, plain_attribute, sentence};
use super::super::view::View;
use super::fields::{LABELS, field_of, label, of_schedule};
use super::{act, link, read};
use crate::api::Permission;
use crate::problem::Problem;

/// Why a form is shown again.
pub(super) enum Again {
    /// Something in it is wrong.
    Wrong(Wrong),
    /// Somebody changed the schedule, which is like this now.
    Stale(Box<Schedule>),
    /// Somebody removed it.
    Removed,
}

pub(in crate::dashboard) async fn show_new(view: View) -> Result<Response, Problem> {
    view.caller.require(Permission::ManageSchedules, &view.namespace)?;
    let fields =
        Fields::of([("kind", "time".to_owned()), ("enabled", "yes".to_owned()), ("version", "0".to_owned())]);
    Ok(page(&view, &fields, None).await)
}

pub(in crate::dashboard) async fn show_edit(view: View) -> Result<Response, Problem> {
    view.caller.require(Permission::ManageSchedules, &view.namespace)?;
    let schedule = read(&view, view.query.get("name").unwrap_or_default()).await?;
    Ok(page(&view, &of_schedule(&schedule), None).await)
}

/// The form with these fields.
pub(super) async fn page(view: &View, fields: &Fields, again: Option<&Again>) -> Response {
    let is_new = view.path == "/schedules/new";
    let name = fields.get("name").unwrap_or_default();
    let title = if is_new { "New schedule".to_owned() } else { format!("Edit schedule {name}") };
    let wrong = match again {
        Some(Again::Wrong(problem)) => Some(problem.field.as_deref().map_or("name", field_of)),
        _ => None,
    };
    let form = Form { view, fields, wrong, is_new };
    let looked_at = act::looked_at(view, fields, again.is_some()).await;
    let body = html! {
        h1 { (plain(&title)) }
        p {
            @if is_new { a href=(view.link("/schedules", &[])) { "All schedules" } }
            @else { a href=(link(view, name)) { "Back to the schedule" } }
        }
        @if let Some(again) = again { (why_again(again, fields)) }
        (form.shown(matches!(again, Some(Again::Stale(_))), &looked_at))
    };
    let status = match again {
        None => StatusCode::OK,
        Some(Again::Wrong(problem)) => {
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST)
        }
        Some(Again::Stale(_) | Again::Removed) => StatusCode::CONFLICT,
    };
    // Not live: nothing moves under somebody who types.
    let head = Head { title: &title, section: "Schedules", live: "" };
    layout::with_status(status, layout::page(view, &head, &body).0)
}

fn why_again(again: &Again, fields: &Fields) -> Markup {
    match again {
        Again::Wrong(problem) => {
            let field = problem.field.as_deref().map_or("name", field_of);
            html! {
                div.alert role="alert" {
                    p { b { "Not saved. " } a href=(format!("#{field}")) { (label(field)) } ": " (plain(&problem.detail)) "." }
                    p { (plain(&sentence(&problem.next))) }
                }
            }
        }
        Again::Removed => html! {
            div.alert role="alert" { p { b { "Not saved. " } "Somebody removed this schedule while you were editing it. Save once more to add it again." } }
        },
        Again::Stale(now) => stale(now, fields),
    }
}

/// What differs between what is stored and what was typed.
fn stale(now: &Schedule, fields: &Fields) -> Markup {
    let stored = of_schedule(now);
    let lines = |text: Option<&str>| text.unwrap_or_default().replace("\r\n", "\n");
    let differ = LABELS.iter().filter(|(name, _)| lines(stored.get(name)) != lines(fields.get(name)));
    html! {
        div.alert role="alert" {
            p { b { "Not saved. " } "Somebody changed this schedule while you were editing it. Nothing you typed is lost: it is below, as you left it." }
            p { "Saving again puts what you typed over what they saved (version " (now.version) ")." }
        }
        div.wide { table {
            caption { "What differs." }
            thead { tr { th.fit scope="col" { "Field" } th scope="col" { "Saved by somebody else" } th scope="col" { "Typed by you" } } }
            tbody { @for (name, label) in differ {
                tr { td.fit { (label) } td { (plain(stored.get(name).unwrap_or("–"))) } td { (plain(fields.get(name).unwrap_or("–"))) } }
            } }
        } }
    }
}

struct Form<'a> {
    view: &'a View,
    fields: &'a Fields,
    wrong: Option<&'static str>,
    is_new: bool,
}

impl Form<'_> {
    fn shown(&self, is_stale: bool, looked_at: &Markup) -> Markup {
        let action = if self.is_new {
            self.view.link("/schedules/new", &[])
        } else {
            self.view.link("/schedule/edit", &[("name", self.value("name"))])
        };
        html! {
            form.stack.checked method="post" action=(action) data-check=(self.view.link("/schedules/check", &[])) {
                (layout::key(self.view))
                input type="hidden" name="version" value=(self.value("version"));
                @if self.is_new { (self.input("name", "", &html! { "How it is called, in this namespace" }, DEFINITION_NAME_MAX_BYTES, true)) }
                @else { input type="hidden" name="name" value=(self.value("name")); }
                (self.when())
                (looked_at)
                (self.task())
                (self.more())
                div.row {
                    button.primary { @if is_stale { "Save mine anyway" } @else if self.is_new { "Add" } @else { "Save" } }
                    label { input type="checkbox" name="enabled" value="yes" checked[self.fields.get("enabled").is_some()]; " Enabled" }
                }
            }
        }
    }

    // What is typed here is kept as it is: a form must give back what it was given.
    fn value(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_default()
    }

    fn input(&self, name: &'static str, kind: &str, hint: &Markup, max: usize, required: bool) -> Markup {
        let is_wrong = self.wrong == Some(name);
        let list = (name == "tz").then_some("zones");
        html! {
            label for=(name) { (label(name)) " " span.soft { (hint) } }
            input id=(name) name=(name) type=[(!kind.is_empty()).then_some(kind)] value=(self.value(name)) maxlength=[(max > 0).then_some(max)]
                list=[list] required[required] step=[(name == "timeout").then_some("any")] min=[(kind == "number").then_some("0")] autocomplete="off" spellcheck="false"
                aria-invalid=[is_wrong.then_some("true")] aria-describedby="check";
        }
    }

    fn choice(&self, name: &'static str, options: &[(&str, &str)]) -> Markup {
        html! {
            label for=(name) { (label(name)) }
            select id=(name) name=(name) aria-invalid=[(self.wrong == Some(name)).then_some("true")] {
                @for (value, text) in options { option value=(value) selected[self.value(name) == *value] { (text) } }
            }
        }
    }

    fn when(&self) -> Markup {
        let is_event = self.fields.get("kind") == Some("event");
        html! {
            fieldset.row {
                legend { (label("kind")) }
                label { input #kind-time type="radio" name="kind" value="time" checked[!is_event]; " The clock" }
                label { input #kind-event type="radio" name="kind" value="event" checked[is_event]; " An event" }
            }
            div.part.by-time {
                (self.input("schedule", "", &html! { "Like " code { "daily at 07:00" } ", " code { "every 5m" } " or, in cron, " code { "0 9 * * 1-5" } }, 255, false))
                (self.input("tz", "", &html! { "Like Europe/Berlin. Needed wherever a time of day is named" }, 255, false))
                datalist #zones { @for zone in ZONES { option value=(zone) {} } }
            }
            div.part.by-event { (self.input("event_type", "", &html! { "Exactly this" }, EVENT_TYPE_MAX_BYTES, false)) }
        }
    }

    fn task(&self) -> Markup {
        html! {
            (self.input("task_type", "", &html! { "Selects the handler: http, exec, prompt or one of yours" }, 255, true))
            label for="payload" { (label("payload")) " " span.soft { "Empty: null, or for an event the event itself" } }
            textarea #payload name="payload" spellcheck="false" aria-invalid=[(self.wrong == Some("payload")).then_some("true")] aria-describedby="check" {
                // The first line break of a text area is no part of it.
                "\n" (self.value("payload"))
            }
            (self.input("queue", "", &html! { "Empty: default" }, 255, false))
        }
    }

    fn more(&self) -> Markup {
        let rare = [
            "gap",
            "overlap",
            "misfire_number",
            "event_field",
            "priority",
            "timeout",
            "max_attempts",
            "labels",
        ];
        let is_used = |name: &&str| self.fields.get(name).is_some() || self.wrong == Some(*name);
        let concurrency = self.fields.get("concurrency").is_some_and(|policy| policy != "allow");
        html! {
            details open[concurrency || rare.iter().any(is_used)] {
                summary { "More: missed fires, overlaps, retries, labels" }
                div.part {
                    (self.choice("concurrency", &[("allow", "Both run"), ("forbid", "No task is made"), ("replace", "It is cancelled")]))
                    (self.choice("misfire", &[("run_once", "One task for all missed fires"), ("run_all", "A task for each of the latest …"), ("skip_after", "A task for each that is less late than … seconds")]))
                    (self.input("misfire_number", "number", &html! { "For the last two" }, 0, false))
                    div.part.by-time {
                        (self.choice("gap", &[("", "As usual: moved to the end of the gap; intervals pass it over"), ("shift", "Moved to the end of the gap"), ("skip", "Passed over")]))
                        (self.choice("overlap", &[("", "As usual: the first; intervals both"), ("first", "The first"), ("last", "The second"), ("both", "Both")]))
                    }
                    div.part.by-event { (self.input("event_field", "", &html! { "For a payload that is an object" }, 255, false)) }
                    (self.input("priority", "number", &html! { "From 0, the most urgent, to 9. Empty: " (TypeDefaults::in_words(|of| of.priority.get().into())) }, 0, false))
                    (self.input("timeout", "number", &html! { "Of one attempt. Empty: none" }, 0, false))
                    (self.input("max_attempts", "number", &html! { "Empty: " (TypeDefaults::in_words(|of| of.max_attempts)) }, 0, false))
                    label for="labels" { (label("labels")) " " span.soft { "One per line, as name=value" } }
                    textarea #labels.short name="labels" spellcheck="false" aria-invalid=[(self.wrong == Some("labels")).then_some("true")] { "\n" (self.value("labels")) }
                }
            }
        }
    }
}

/// Some to choose from; every other one can be typed.
const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Paris",
    "America/New_York",
    "America/Chicago",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Asia/Tokyo",
    "Asia/Shanghai",
    "Asia/Kolkata",
    "Australia/Sydney",
];

/// The part of the form that says what was understood.
pub(super) fn verdict(field: Option<&str>, said: &Markup) -> Markup {
    html! { div #check role="status" data-wrong=[field.map(plain_attribute)] { (said) } }
}
