//! Workers, as operators see them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{
    DirectiveRequest, Heartbeat, NamespacePageQuery, NamespaceQuery, Page, Worker, namespace_or_default,
};
use weaver_core::name::WorkerId;
use weaver_core::ports::{Cursor, RunnerKey, RunnerRecord};

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::{ApiResult, AppState};

/// List the workers of a namespace, stopped ones included.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", params(NamespacePageQuery),
    responses((status = 200, description = "A page of workers, by id", body = Page<Worker>)))]
pub(crate) async fn list_workers(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<NamespacePageQuery>,
) -> ApiResult<Json<Page<Worker>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let limit = state.page(query.limit)?;
    let page = state.store.list_runners(&namespace, query.cursor.map(Cursor), limit).await?;
    let now = state.clock.now();
    let worker = |record: &RunnerRecord| Worker {
        heartbeat: Heartbeat::from(&record.beat),
        last_heartbeat_at: record.last_heartbeat,
        status: record.status_at(now),
        alive: record.is_alive(now),
        directive: record.directive,
    };
    let items = page.items.iter().map(worker).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

/// Set what a worker does from its next heartbeat on: run, drain or stop.
#[utoipa::path(post, path = "/api/v1/workers/{id}/directive", tag = "workers", request_body = DirectiveRequest,
    params(("id" = String, Path, description = "The worker's id", min_length = 1), NamespaceQuery),
    responses((status = 204, description = "Stored; the next heartbeat returns it")))]
pub(crate) async fn direct_worker(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
    Body(request): Body<DirectiveRequest>,
) -> ApiResult<StatusCode> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::ManageWorkers, &namespace)?;
    let key = RunnerKey { namespace, runner_id: WorkerId::new(id)? };
    state.store.direct(&key, request.directive).await?;
    let record = AuditRecord::new("worker.directive", format!("worker/{}", key.runner_id))
        .detail(format!("{:?}", request.directive).to_lowercase());
    state.audit.write(&caller, &key.namespace, record).await;
    Ok(StatusCode::NO_CONTENT)
}
