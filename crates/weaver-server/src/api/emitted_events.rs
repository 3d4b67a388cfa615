//! Events, which trigger schedules.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use weaver_api::{
    Emitted, NamespacePageQuery, NamespaceQuery, NewEvent, Page, StoredEvent, namespace_or_default,
};
use weaver_core::ports::Cursor;
use weaver_scheduler::event::{Event, NewEvent as Happened};

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::schedules::value;
use super::{ApiResult, AppState};
use crate::problem::Problem;

/// Emit an event.
///
/// Every enabled schedule triggered by this event type enqueues one task per event.
#[utoipa::path(post, path = "/api/v1/events", tag = "events", request_body = NewEvent,
    responses((status = 201, description = "The event, new or existing", body = Emitted)))]
pub(crate) async fn emit_event(
    State(state): State<AppState>,
    caller: Caller,
    Body(event): Body<NewEvent>,
) -> ApiResult<(StatusCode, Json<Emitted>)> {
    let namespace = namespace_or_default(event.namespace.as_deref())?;
    caller.require(Permission::Enqueue, &namespace)?;
    let payload = event.payload.as_ref().map_or(Ok(Value::Null), |payload| value(payload, "payload"))?;
    let happened = Happened { event_type: event.event_type, payload, dedupe_key: event.dedupe_key };
    let event_type = happened.event_type.clone();
    let emitted = state.timed("emit", state.scheduler.emit(&namespace, happened)).await?;
    if !emitted.existing {
        let record = AuditRecord::new("event.emit", format!("event/{}", emitted.id)).detail(event_type);
        state.audit.write_soon(&caller, &namespace, record).await;
    }
    Ok((StatusCode::CREATED, Json(Emitted { id: emitted.id, existing: emitted.existing })))
}

/// Read an event.
#[utoipa::path(get, path = "/api/v1/events/{id}", tag = "events",
    params(("id" = String, Path, description = "The event's id", min_length = 1), NamespaceQuery),
    responses((status = 200, description = "The event", body = StoredEvent)))]
pub(crate) async fn get_event(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<StoredEvent>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let event = state.scheduler.event(&namespace, &id).await?.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "event_not_found",
            format!("no event `{id}` in namespace `{namespace}`"),
            "check the id and the namespace; processed events are removed after their retention",
        )
    })?;
    Ok(Json(shown(&event)))
}

/// List events.
#[utoipa::path(get, path = "/api/v1/event-log", tag = "events", params(NamespacePageQuery),
    responses((status = 200, description = "A page of events, by id", body = Page<StoredEvent>)))]
pub(crate) async fn list_events(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<NamespacePageQuery>,
) -> ApiResult<Json<Page<StoredEvent>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let limit = state.page(query.limit)?;
    let page = state.scheduler.events(&namespace, query.cursor.map(Cursor), limit).await?;
    let items = page.items.iter().map(shown).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

fn shown(event: &Event) -> StoredEvent {
    StoredEvent {
        namespace: event.namespace.to_string(),
        id: event.id.clone(),
        event_type: event.event_type.clone(),
        payload: (&event.payload).into(),
        dedupe_key: event.dedupe_key.clone(),
        created_at: event.created_at,
        processed_at: event.processed_at,
    }
}
