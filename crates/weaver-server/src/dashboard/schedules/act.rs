//! Form submissions for schedules: each is a call of the API.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use weaver_api::{ExpectQuery, PreviewRequest, PutSchedule, Trigger};

use super::super::form::Fields;
use super::super::gate::redirect;
use super::super::layout::Html;
use super::super::text::{plain, sentence};
use super::super::view::View;
use super::fields::{field_of, label, spec, trigger};
use super::form::{Reshown, check_result, page};
use super::{UPCOMING_MAX, link, read, upcoming, words};
use crate::api::extract::{Body, Name, Params};
use crate::api::{Permission, schedules as api};
use crate::problem::Problem;

pub(in crate::dashboard) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    let (state, caller) = (State(view.state.clone()), view.caller.clone());
    let name = view.query.text("name").unwrap_or_default();
    let expected_version = fields.get("version").and_then(|text| text.parse().ok());
    let expect = Params(ExpectQuery { namespace: Some(view.namespace.to_string()), expected_version });
    let to = link(&view, &name);
    match fields.get("action") {
        Some("enable") => drop(api::enable_schedule(state, caller, Name(name), expect).await?),
        Some("disable") => drop(api::disable_schedule(state, caller, Name(name), expect).await?),
        Some("run") => {
            let query = Params(view.namespace_query());
            let (_, created) = api::run_schedule_now(state, caller, Name(name), query).await?;
            return Ok(redirect(&view.task_link(&created.0.id)));
        }
        Some("delete") => {
            api::remove_schedule(state, caller, Name(name), expect).await?;
            return Ok(redirect(&view.link("/schedules", &[])));
        }
        _ => {
            return Err(Problem::bad_request(
                "no_action",
                "the form has no action",
                "go back and use one of the buttons",
            ));
        }
    }
    Ok(redirect(&to))
}

/// Stores a submitted form, or shows it again with its input and the reason.
pub(in crate::dashboard) async fn save(view: View, fields: Fields) -> Result<Response, Problem> {
    view.caller.require(Permission::ManageSchedules, &view.namespace)?;
    let problem = match put(&view, &fields).await {
        Ok(name) => return Ok(redirect(&link(&view, &name))),
        Err(problem) => problem,
    };
    let name = fields.get("name").unwrap_or_default();
    let reason = match problem.code() {
        "version_conflict" => Reshown::Stale(Box::new(read(&view, name).await?)),
        "schedule_not_found" => Reshown::Removed,
        _ => Reshown::Invalid(problem.to_wire()),
    };
    // The page shows the conflict, so the next submission may overwrite the version shown.
    let fields = match &reason {
        Reshown::Stale(now) => fields.set("version", &now.version.to_string()),
        Reshown::Removed => fields.set("version", "0"),
        Reshown::Invalid(_) => fields,
    };
    Ok(page(&view, &fields, Some(&reason)).await)
}

async fn put(view: &View, fields: &Fields) -> Result<String, Problem> {
    let name = Name(fields.get("name").unwrap_or_default().trim().to_owned());
    let body = Body(wanted(view, fields).await?);
    let query = Params(view.namespace_query());
    let put = api::put_schedule(State(view.state.clone()), view.caller.clone(), name, query, body);
    Ok(put.await?.1.0.name)
}

async fn wanted(view: &View, fields: &Fields) -> Result<PutSchedule, Problem> {
    let expected_version = fields.get("version").and_then(|text| text.parse().ok()).unwrap_or(0);
    let before = match expected_version {
        0 => None,
        _ => Some(read(view, fields.get("name").unwrap_or_default()).await?.spec),
    };
    Ok(PutSchedule { expected_version, spec: spec(fields, before)? })
}

/// Validates a form while it is being filled in. Nothing is stored.
pub(in crate::dashboard) async fn check(view: View, fields: Fields) -> Result<Response, Problem> {
    view.caller.require(Permission::ManageSchedules, &view.namespace)?;
    Ok(Html(checked(&view, &fields, false).await).into_response())
}

/// The upcoming runs, and the first invalid field. An empty field is not invalid until the form is submitted.
pub(super) async fn checked(view: &View, fields: &Fields, was_submitted: bool) -> Markup {
    let (preview, trigger_problem) = preview(view, fields).await;
    let problem = match trigger_problem {
        Some(problem) => Some(problem),
        None => validate(view, fields).await.err(),
    };
    let Some(problem) = problem.map(|problem| problem.to_wire()) else {
        return check_result(None, &html! { (preview) });
    };
    let field = problem.field.as_deref().map_or("name", field_of);
    let is_blank = fields.get(field).is_none_or(|text| text.trim().is_empty());
    if is_blank && !was_submitted {
        return check_result(None, &html! { (preview) p.fine { "Required: " (label(field)) "." } });
    }
    check_result(
        Some(field),
        &html! {
            (preview)
            p.alert { b { (label(field)) } ": " (plain(&problem.detail)) ". " (plain(&sentence(&problem.hint))) }
        },
    )
}

/// The upcoming runs of a time trigger.
async fn preview(view: &View, fields: &Fields) -> (Markup, Option<Problem>) {
    let trigger = trigger(fields);
    let described = words(&trigger).unwrap_or_default();
    let Trigger::Time { schedule, tz, gap, fold } = trigger else { return (html! {}, None) };
    let request = PreviewRequest { schedule, tz, gap, fold, from: None, count: Some(UPCOMING_MAX) };
    match api::preview_schedule(State(view.state.clone()), view.caller.clone(), Body(request)).await {
        Ok(found) if found.0.runs.is_empty() => {
            (html! { p { (plain(&described)) ": this time is in the past." } }, None)
        }
        Ok(found) => (
            html! { p { b { (plain(&described)) } ". Upcoming runs:" } (upcoming(view, &found.0.runs)) },
            None,
        ),
        Err(problem) => (html! {}, Some(problem)),
    }
}

async fn validate(view: &View, fields: &Fields) -> Result<(), Problem> {
    let name = fields.get("name").unwrap_or_default().trim().to_owned();
    let wanted = wanted(view, fields).await?;
    api::check_schedule(&view.state, &view.caller, &view.namespace, &name, wanted.spec)
}
