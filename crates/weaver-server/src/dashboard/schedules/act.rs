//! What people do with schedules: each is a call of the API.

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
use super::form::{Again, page, verdict};
use super::{FIRES, fires, link, read, words};
use crate::api::extract::{Body, Name, Params};
use crate::api::{Permission, schedules as api};
use crate::problem::Problem;

/// A button of a schedule's page.
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
            let (_, made) = api::run_schedule_now(state, caller, Name(name), query).await?;
            return Ok(redirect(&view.task_link(&made.0.id)));
        }
        Some("delete") => {
            api::remove_schedule(state, caller, Name(name), expect).await?;
            return Ok(redirect(&view.link("/schedules", &[])));
        }
        _ => {
            return Err(Problem::bad_request(
                "no_action",
                "the form does not say what to do with the schedule",
                "go back and use a button",
            ));
        }
    }
    Ok(redirect(&to))
}

/// A form that was sent: stored, or shown again with everything that was typed.
pub(in crate::dashboard) async fn save(view: View, fields: Fields) -> Result<Response, Problem> {
    view.caller.require(Permission::ManageSchedules, &view.namespace)?;
    let problem = match put(&view, &fields).await {
        Ok(name) => return Ok(redirect(&link(&view, &name))),
        Err(problem) => problem,
    };
    let name = fields.get("name").unwrap_or_default();
    let again = match problem.code() {
        "version_conflict" => Again::Stale(Box::new(read(&view, name).await?)),
        "schedule_not_found" => Again::Removed,
        _ => Again::Wrong(problem.to_wire()),
    };
    // Whoever sends it again does so in the knowledge of what is there now.
    let fields = match &again {
        Again::Stale(now) => fields.set("version", &now.version.to_string()),
        Again::Removed => fields.set("version", "0"),
        Again::Wrong(_) => fields,
    };
    Ok(page(&view, &fields, Some(&again)).await)
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

/// What is to be said about a form that is being filled in. Nothing is stored.
pub(in crate::dashboard) async fn check(view: View, fields: Fields) -> Result<Response, Problem> {
    view.caller.require(Permission::ManageSchedules, &view.namespace)?;
    Ok(Html(looked_at(&view, &fields, false).await).into_response())
}

/// What was understood, and what is wrong or missing. A field that nobody has come to yet is not wrong, until
/// the form is sent.
pub(super) async fn looked_at(view: &View, fields: &Fields, was_sent: bool) -> Markup {
    let (understood, when_wrong) = fires_next(view, fields).await;
    let problem = match when_wrong {
        Some(problem) => Some(problem),
        None => whole(view, fields).await.err(),
    };
    let Some(problem) = problem.map(|problem| problem.to_wire()) else {
        return verdict(None, &html! { (understood) });
    };
    let field = problem.field.as_deref().map_or("name", field_of);
    let is_blank = fields.get(field).is_none_or(|text| text.trim().is_empty());
    if is_blank && !was_sent {
        return verdict(None, &html! { (understood) p.fine { "Still to fill in: " (label(field)) "." } });
    }
    verdict(
        Some(field),
        &html! {
            (understood)
            p.alert { b { (label(field)) } ": " (plain(&problem.detail)) ". " (plain(&sentence(&problem.next))) }
        },
    )
}

/// When it would fire.
async fn fires_next(view: &View, fields: &Fields) -> (Markup, Option<Problem>) {
    let trigger = trigger(fields);
    let said = words(&trigger).unwrap_or_default();
    let Trigger::Time { schedule, tz, gap, overlap } = trigger else { return (html! {}, None) };
    let request = PreviewRequest { schedule, tz, gap, overlap, from: None, count: Some(FIRES) };
    match api::preview_fires(State(view.state.clone()), view.caller.clone(), Body(request)).await {
        Ok(found) if found.0.fires.is_empty() => (html! { p { (plain(&said)) ": that is past." } }, None),
        Ok(found) => {
            (html! { p { b { (plain(&said)) } ". It would fire:" } (fires(view, &found.0.fires)) }, None)
        }
        Err(problem) => (html! {}, Some(problem)),
    }
}

async fn whole(view: &View, fields: &Fields) -> Result<(), Problem> {
    let name = fields.get("name").unwrap_or_default().trim().to_owned();
    let wanted = wanted(view, fields).await?;
    api::check_schedule(&view.state, &view.caller, &view.namespace, &name, wanted.spec)
}
