//! The form of a schedule. The script has it validated while it is filled in; without it, on submission.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use weaver_api::{Problem as WireProblem, Schedule};
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

/// Why a submitted form is shown again.
pub(super) enum Reshown {
    /// A field is invalid.
    Invalid(WireProblem),
    /// The version it was based on is outdated. Holds the current one.
    Stale(Box<Schedule>),
    /// The schedule was deleted meanwhile.
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

/// The form filled with these fields, with the reason if it is shown again.
pub(super) async fn page(view: &View, fields: &Fields, reason: Option<&Reshown>) -> Response {
    let is_new = view.path == "/schedules/new";
    let name = fields.get("name").unwrap_or_default();
    let title = if is_new { "New schedule".to_owned() } else { format!("Edit schedule {name}") };
    let invalid = match reason {
        Some(Reshown::Invalid(problem)) => Some(problem.field.as_deref().map_or("name", field_of)),
        _ => None,
    };
    let form = Form { view, fields, invalid, is_new };
    let checked = act::checked(view, fields, reason.is_some()).await;
    let body = html! {
        h1 { (plain(&title)) }
        p {
            @if is_new { a href=(view.link("/schedules", &[])) { "All schedules" } }
            @else { a href=(link(view, name)) { "Back to schedule" } }
        }
        @if let Some(reason) = reason { (alert(reason, fields)) }
        (form.shown(matches!(reason, Some(Reshown::Stale(_))), &checked))
    };
    let status = match reason {
        None => StatusCode::OK,
        Some(Reshown::Invalid(problem)) => {
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST)
        }
        Some(Reshown::Stale(_) | Reshown::Removed) => StatusCode::CONFLICT,
    };
    // Not live: a refresh must not change a form that is being filled in.
    let head = Head { title: &title, section: "Schedules", live: "" };
    layout::with_status(status, layout::page(view, &head, &body).0)
}

fn alert(reason: &Reshown, fields: &Fields) -> Markup {
    match reason {
        Reshown::Invalid(problem) => {
            let field = problem.field.as_deref().map_or("name", field_of);
            html! {
                div.alert role="alert" {
                    p { b { "Not saved. " } a href=(format!("#{field}")) { (label(field)) } ": " (plain(&problem.detail)) "." }
                    p { (plain(&sentence(&problem.hint))) }
                }
            }
        }
        Reshown::Removed => html! {
            div.alert role="alert" { p { b { "Not saved. " } "This schedule was deleted while you were editing it. Save again to recreate it." } }
        },
        Reshown::Stale(now) => stale(now, fields),
    }
}

/// An edit conflict: the differences between the stored version and the input.
fn stale(now: &Schedule, fields: &Fields) -> Markup {
    let stored = of_schedule(now);
    let lines = |text: Option<&str>| text.unwrap_or_default().replace("\r\n", "\n");
    let differing = LABELS.iter().filter(|(name, _)| lines(stored.get(name)) != lines(fields.get(name)));
    html! {
        div.alert role="alert" {
            p { b { "Not saved. " } "This schedule was changed while you were editing it. Your input is kept below." }
            p { "Saving again overwrites version " (now.version) "." }
        }
        div.wide { table {
            caption { "Differences" }
            thead { tr { th.fit scope="col" { "Field" } th scope="col" { "Saved version" } th scope="col" { "Your input" } } }
            tbody { @for (name, label) in differing {
                tr { td.fit { (label) } td { (plain(stored.get(name).unwrap_or("–"))) } td { (plain(fields.get(name).unwrap_or("–"))) } }
            } }
        } }
    }
}

struct Form<'a> {
    view: &'a View,
    fields: &'a Fields,
    invalid: Option<&'static str>,
    is_new: bool,
}

impl Form<'_> {
    fn shown(&self, is_stale: bool, checked: &Markup) -> Markup {
        let action = if self.is_new {
            self.view.link("/schedules/new", &[])
        } else {
            self.view.link("/schedule/edit", &[("name", self.value("name"))])
        };
        html! {
            form.stack.checked method="post" action=(action) data-check=(self.view.link("/schedules/check", &[])) {
                (layout::key(self.view))
                input type="hidden" name="version" value=(self.value("version"));
                @if self.is_new { (self.input("name", "", &html! { "Unique in this namespace" }, DEFINITION_NAME_MAX_BYTES, true)) }
                @else { input type="hidden" name="name" value=(self.value("name")); }
                (self.when())
                (checked)
                (self.task())
                (self.more())
                div.row {
                    button.primary { @if is_stale { "Overwrite" } @else if self.is_new { "Create schedule" } @else { "Save" } }
                    label { input type="checkbox" name="enabled" value="yes" checked[self.fields.get("enabled").is_some()]; " Enabled" }
                }
            }
        }
    }

    // Not passed through `plain`: the form must submit exactly what it was given.
    fn value(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_default()
    }

    fn input(&self, name: &'static str, kind: &str, hint: &Markup, max: usize, required: bool) -> Markup {
        let is_invalid = self.invalid == Some(name);
        let list = (name == "tz").then_some("zones");
        html! {
            label for=(name) { (label(name)) " " span.soft { (hint) } }
            input id=(name) name=(name) type=[(!kind.is_empty()).then_some(kind)] value=(self.value(name)) maxlength=[(max > 0).then_some(max)]
                list=[list] required[required] step=[(name == "timeout").then_some("any")] min=[(kind == "number").then_some("0")] autocomplete="off" spellcheck="false"
                aria-invalid=[is_invalid.then_some("true")] aria-describedby="check";
        }
    }

    fn choice(&self, name: &'static str, options: &[(&str, &str)]) -> Markup {
        html! {
            label for=(name) { (label(name)) }
            select id=(name) name=(name) aria-invalid=[(self.invalid == Some(name)).then_some("true")] {
                @for (value, text) in options { option value=(value) selected[self.value(name) == *value] { (text) } }
            }
        }
    }

    fn when(&self) -> Markup {
        let is_event = self.fields.get("kind") == Some("event");
        html! {
            fieldset.row {
                legend { (label("kind")) }
                label { input #kind-time type="radio" name="kind" value="time" checked[!is_event]; " Time" }
                label { input #kind-event type="radio" name="kind" value="event" checked[is_event]; " Event" }
            }
            div.part.by-time {
                (self.input("schedule", "", &html! { "For example " code { "daily at 07:00" } ", " code { "every 5m" } " or cron, " code { "0 9 * * 1-5" } }, 255, false))
                (self.input("tz", "", &html! { "For example Europe/Berlin. Required for times of day" }, 255, false))
                datalist #zones { @for zone in ZONES { option value=(zone) {} } }
            }
            div.part.by-event { (self.input("event_type", "", &html! { "Exact match" }, EVENT_TYPE_MAX_BYTES, false)) }
        }
    }

    fn task(&self) -> Markup {
        html! {
            (self.input("task_type", "", &html! { "Selects the handler: http, exec, prompt or your own" }, 255, true))
            label for="payload" { (label("payload")) " " span.soft { "Empty: null; for an event trigger, the event" } }
            textarea #payload name="payload" spellcheck="false" aria-invalid=[(self.invalid == Some("payload")).then_some("true")] aria-describedby="check" {
                // HTML drops the first line break of a text area.
                "\n" (self.value("payload"))
            }
            (self.input("queue", "", &html! { "Empty: default" }, 255, false))
        }
    }

    fn more(&self) -> Markup {
        let rare =
            ["gap", "fold", "misfire_number", "event_field", "priority", "timeout", "max_attempts", "labels"];
        let is_used = |name: &&str| self.fields.get(name).is_some() || self.invalid == Some(*name);
        let concurrency = self.fields.get("concurrency").is_some_and(|policy| policy != "allow");
        html! {
            details open[concurrency || rare.iter().any(is_used)] {
                summary { "More: concurrency, missed runs, DST, retries, labels" }
                div.part {
                    (self.choice("concurrency", &[("allow", "Allow: runs may overlap"), ("forbid", "Forbid: skip the new run"), ("replace", "Replace: cancel the unfinished task")]))
                    (self.choice("misfire", &[("run_once", "Run once for all of them"), ("run_all", "Run all, at most the latest …"), ("skip_after", "Skip runs that are more than … seconds late")]))
                    (self.input("misfire_number", "number", &html! { "For the last two options" }, 0, false))
                    div.part.by-time {
                        (self.choice("gap", &[("", "Default: run at the end of the gap; intervals skip it"), ("shift", "Run at the end of the gap"), ("skip", "Skip")]))
                        (self.choice("fold", &[("", "Default: run at the first occurrence; intervals at both"), ("first", "Run at the first occurrence"), ("last", "Run at the second occurrence"), ("both", "Run at both")]))
                    }
                    div.part.by-event { (self.input("event_field", "", &html! { "The payload must be an object" }, 255, false)) }
                    (self.input("priority", "number", &html! { "0 (highest) to 9 (lowest). Empty: " (TypeDefaults::in_words(|of| of.priority.get().into())) }, 0, false))
                    (self.input("timeout", "number", &html! { "Per attempt. Empty: none" }, 0, false))
                    (self.input("max_attempts", "number", &html! { "Empty: " (TypeDefaults::in_words(|of| of.max_attempts)) }, 0, false))
                    label for="labels" { (label("labels")) " " span.soft { "One per line, as name=value" } }
                    textarea #labels.short name="labels" spellcheck="false" aria-invalid=[(self.invalid == Some("labels")).then_some("true")] { "\n" (self.value("labels")) }
                }
            }
        }
    }
}

/// Suggestions; any other IANA name can be entered.
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

/// The live region of the form with the result of validation.
pub(super) fn check_result(field: Option<&str>, body: &Markup) -> Markup {
    html! { div #check role="status" data-invalid=[field.map(plain_attribute)] { (body) } }
}
