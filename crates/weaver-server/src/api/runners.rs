//! Workers and runners, as operators see them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{
    Beat, DirectRequest, NamespacePageQuery, NamespaceQuery, Page, Runner, namespace_or_default,
};
use weaver_core::name::WorkerId;
use weaver_core::ports::{Cursor, RunnerKey, RunnerRecord};

use super::audit::Deed;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::{Answer, AppState};

/// The runners of a namespace, stopped ones included.
#[utoipa::path(get, path = "/api/v1/runners", tag = "runners", params(NamespacePageQuery),
    responses((status = 200, description = "A page of runners, by id", body = Page<Runner>)))]
pub(crate) async fn list_runners(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<NamespacePageQuery>,
) -> Answer<Json<Page<Runner>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let limit = state.page(query.limit)?;
    let page = state.store.list_runners(&namespace, query.cursor.map(Cursor), limit).await?;
    let now = state.clock.now();
    let runner = |record: &RunnerRecord| Runner {
        beat: Beat::from(&record.beat),
        last_heartbeat: record.last_heartbeat,
        status: record.status_at(now),
        alive: record.is_alive(now),
        directive: record.directive,
    };
    let items = page.items.iter().map(runner).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

/// Tell a runner what to do from its next beat on.
#[utoipa::path(post, path = "/api/v1/runners/{id}/direct", tag = "runners", request_body = DirectRequest,
    params(("id" = String, Path, description = "The runner's own name", min_length = 1), NamespaceQuery),
    responses((status = 204, description = "It will be told")))]
pub(crate) async fn direct_runner(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
    Body(request): Body<DirectRequest>,
) -> Answer<StatusCode> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::ManageRunners, &namespace)?;
    let key = RunnerKey { namespace, runner_id: WorkerId::new(id)? };
    state.store.direct(&key, request.directive).await?;
    let deed = Deed::new("runner.direct", format!("runner/{}", key.runner_id))
        .detail(format!("{:?}", request.directive).to_lowercase());
    state.audit.write(&caller, &key.namespace, deed).await;
    Ok(StatusCode::NO_CONTENT)
}
