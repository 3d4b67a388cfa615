//! Whether the server is alive, and whether it can do its work.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_client::wire::Health;

use super::{Answer, AppState};
use crate::problem::Problem;

fn ok() -> Json<Health> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Json(Health { status: "ok".to_owned(), version, clock_jumped: None })
}

/// Whether the server is alive.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, description = "It is", body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    ok()
}

/// Whether the server can do its work: its store answers, and it is not stopping.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, description = "It can", body = Health)))]
pub(crate) async fn readyz(State(state): State<AppState>) -> Answer<Json<Health>> {
    if state.closing.is_cancelled() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server is stopping",
            "ask another server, or this one when it is back",
        ));
    }
    state.timed("list_namespaces", state.store.list_namespaces(None, 1)).await?;
    let Json(health) = ok();
    let clock_jumped = state.clock_watch.look(&*state.store, &*state.clock).await?;
    Ok(Json(Health { clock_jumped, ..health }))
}
