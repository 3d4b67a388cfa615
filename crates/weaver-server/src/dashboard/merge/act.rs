//! Form submissions for merge queues: each is a call of the API.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use weaver_api::{AcceptMerge, NewMergeEntry, PauseMerge, PutMergePriority};

use super::super::form::Fields;
use super::super::gate::redirect;
use super::super::view::View;
use super::entry::path;
use super::queue::{Refused, page};
use super::{queue_link, remove};
use crate::api::extract::{Body, Name};
use crate::api::merge as api;
use crate::problem::Problem;

/// Forms of a queue's page.
pub(in crate::dashboard) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    let (state, caller) = (State(view.state.clone()), view.caller.clone());
    let id = view.query.text("id").unwrap_or_default();
    let name = Name(id.clone());
    match fields.get("action") {
        Some("pause") => {
            let pause = PauseMerge { reason: fields.text("reason") };
            drop(api::pause_merge(state, caller, name, Body(pause)).await?);
        }
        Some("accept") => {
            let commit = fields.get("commit").unwrap_or_default().trim().to_owned();
            drop(api::accept_merge(state, caller, name, Body(AcceptMerge { commit })).await?);
        }
        Some("resume") => drop(api::resume_merge(state, caller, name).await?),
        Some("priority") => {
            drop(api::set_merge_queue_priority(state, caller, name, Body(priority(&fields)?)).await?);
        }
        Some("remove") => return remove::act(&view, &id, &fields).await,
        Some("enqueue") => return enqueue(&view, &id, &fields).await,
        _ => return Err(no_action()),
    }
    Ok(redirect(&queue_link(&view, &id)))
}

/// Enqueues a change. A refusal is shown beside the form, with its input.
async fn enqueue(view: &View, id: &str, fields: &Fields) -> Result<Response, Problem> {
    let change = fields.get("change").unwrap_or_default().trim().to_owned();
    let body = Body(NewMergeEntry { change: change.clone(), priority: None, sha: None });
    let (state, caller) = (State(view.state.clone()), view.caller.clone());
    let Err(problem) = api::enqueue_merge(state, caller, Name(id.to_owned()), body).await else {
        return Ok(redirect(&queue_link(view, id)));
    };
    let refusal = problem.to_wire();
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::CONFLICT);
    if !matches!(status, StatusCode::CONFLICT | StatusCode::BAD_REQUEST) {
        return Err(problem);
    }
    let shown = page(view, id, Some(&Refused { change, problem: refusal })).await?;
    Ok((status, shown.into_response()).into_response())
}

/// Forms of an entry, on its own page or in the list.
pub(in crate::dashboard) async fn act_on_entry(view: View, fields: Fields) -> Result<Response, Problem> {
    let (state, caller, path) = (State(view.state.clone()), view.caller.clone(), path(&view)?);
    match fields.get("action") {
        Some("cancel") => drop(api::cancel_merge(state, caller, path).await?),
        Some("priority") => {
            drop(api::set_merge_priority(state, caller, path, Body(priority(&fields)?)).await?);
        }
        _ => return Err(no_action()),
    }
    Ok(redirect(&queue_link(&view, view.query.get("queue").unwrap_or_default())))
}

fn priority(fields: &Fields) -> Result<PutMergePriority, Problem> {
    let priority = fields.get("priority").and_then(|text| text.parse().ok()).ok_or_else(|| {
        Problem::bad_request(
            "invalid_field",
            "the priority is not a number from 0 to 9",
            "go back and select one",
        )
    })?;
    Ok(PutMergePriority { priority })
}

fn no_action() -> Problem {
    Problem::bad_request("no_action", "the form has no action", "go back and use one of the buttons")
}
