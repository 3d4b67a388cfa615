//! Liveness and readiness.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use tokio::sync::Mutex;
use weaver_api::{Health, MaintenanceFailing};
use weaver_core::error::Error;
use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect};
use weaver_core::time::Monotonic;

use super::{ApiResult, AppState};
use crate::problem::stopping;

/// How long a probe's result is cached: the route needs no token, and each probe is a write.
const PROBE_EVERY: Duration = Duration::from_secs(2);
const PROBE_KIND: &str = "weaver.ready";

fn ok() -> Json<Health> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Json(Health { status: "ok".to_owned(), version, clock_jumped: None, maintenance_failing: None })
}

/// Liveness probe.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, description = "The server is alive", body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    ok()
}

/// Readiness probe: the store accepts reads and writes, and the server is not shutting down.
///
/// `status` is `degraded` while maintenance fails.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, description = "The server is ready", body = Health)))]
pub(crate) async fn readyz(State(state): State<AppState>) -> ApiResult<Json<Health>> {
    if state.closing.is_cancelled() {
        return Err(stopping());
    }
    state.readiness.check(&state).await?;
    let Json(health) = ok();
    let clock_jumped = state.clock_watch.check(&*state.store, &*state.clock).await?;
    let failing = state.maintenance.as_ref().and_then(|watch| watch.failing());
    let status = if failing.is_some() { "degraded".to_owned() } else { health.status };
    let maintenance_failing = failing.map(|failing| MaintenanceFailing {
        since: failing.since,
        rounds: failing.rounds,
        error: failing.error,
    });
    Ok(Json(Health { status, clock_jumped, maintenance_failing, ..health }))
}

/// The result of the last probe.
#[derive(Default)]
pub(crate) struct Readiness {
    // An async lock: concurrent requests wait for the same probe.
    last: Mutex<Option<(Monotonic, Result<(), Error>)>>,
}

impl Readiness {
    async fn check(&self, state: &AppState) -> Result<(), Error> {
        let mut last = self.last.lock().await;
        let now = state.clock.monotonic();
        if let Some((at, found)) = &*last
            && now < at.saturating_add(PROBE_EVERY)
        {
            return found.clone();
        }
        let found = state.timed("probe", probe(state)).await;
        if let Err(error) = &found {
            tracing::warn!(%error, "not ready: the store refused a write");
        }
        *last = Some((now, found.clone()));
        found
    }
}

/// A store on a full or failing disk still reads, so the probe writes: always the same document.
async fn probe(state: &AppState) -> Result<(), Error> {
    let key = DocumentKey::new(Namespace::internal(), PROBE_KIND, "1");
    state.store.put_document(&key, Bytes::from_static(b"{}"), Expect::Anything, None).await?;
    state.store.list_namespaces(None, 1).await?;
    Ok(())
}
