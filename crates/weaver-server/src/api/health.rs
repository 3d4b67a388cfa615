//! Whether the server is alive, and whether it can do its work.

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

use super::{Answer, AppState};
use crate::problem::stopping;

/// How long the answer of the store is good for: everybody may ask whether the server is ready, and each look
/// is a write.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The kind of the document that is written.
const PROBE_KIND: &str = "weaver.ready";

fn ok() -> Json<Health> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Json(Health { status: "ok".to_owned(), version, clock_jumped: None, maintenance_failing: None })
}

/// Whether the server is alive.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, description = "It is", body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    ok()
}

/// Whether the server can do its work: its store takes writes and answers, and it is not stopping.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, description = "It can", body = Health)))]
pub(crate) async fn readyz(State(state): State<AppState>) -> Answer<Json<Health>> {
    if state.closing.is_cancelled() {
        return Err(stopping());
    }
    state.readiness.look(&state).await?;
    let Json(health) = ok();
    let clock_jumped = state.clock_watch.look(&*state.store, &*state.clock).await?;
    let failing = state.maintenance.as_ref().and_then(|watch| watch.failing());
    let status = if failing.is_some() { "degraded".to_owned() } else { health.status };
    let maintenance_failing = failing.map(|failing| MaintenanceFailing {
        since: failing.since,
        rounds: failing.rounds,
        error: failing.error,
    });
    Ok(Json(Health { status, clock_jumped, maintenance_failing, ..health }))
}

/// What the last look at the store found.
#[derive(Default)]
pub(crate) struct Readiness {
    // An async lock: whoever asks meanwhile waits for the same look.
    last: Mutex<Option<(Monotonic, Result<(), Error>)>>,
}

impl Readiness {
    async fn look(&self, state: &AppState) -> Result<(), Error> {
        let mut last = self.last.lock().await;
        let now = state.clock.monotonic();
        if let Some((at, found)) = &*last
            && now < at.saturating_add(LOOK_EVERY)
        {
            return found.clone();
        }
        let found = state.timed("probe", probe(state)).await;
        if let Err(error) = &found {
            tracing::warn!(%error, "the store takes no writes: not ready");
        }
        *last = Some((now, found.clone()));
        found
    }
}

/// A store on a full or failing disk still reads: only a write tells. One document, written over and over.
async fn probe(state: &AppState) -> Result<(), Error> {
    let key = DocumentKey::new(Namespace::internal(), PROBE_KIND, "1");
    state.store.put_document(&key, Bytes::from_static(b"{}"), Expect::Anything, None).await?;
    state.store.list_namespaces(None, 1).await?;
    Ok(())
}
