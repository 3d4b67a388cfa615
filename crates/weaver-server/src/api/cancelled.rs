//! A worker's long poll for the cancellation of its leased tasks: a wake-up lets it renew at once (G11).

use axum::Json;
use axum::extract::State;
use weaver_api::{CancelledWaited, WaitForCancelled};
use weaver_core::lease::Lease;
use weaver_core::queue::{Interest, Wake};

use super::caller::{Caller, Permission};
use super::extract::Body;
use super::leases::Opener;
use super::watch::Watch;
use super::work::members;
use super::{ApiResult, AppState};

/// Wait until a leased task is cancelled.
#[utoipa::path(post, path = "/api/v1/work/cancelled", tag = "work", request_body = WaitForCancelled,
    responses((status = 200, description = "A task was cancelled, or the wait timed out", body = CancelledWaited)))]
pub(crate) async fn wait_for_cancelled(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<WaitForCancelled>,
) -> ApiResult<Json<CancelledWaited>> {
    state.check_batch("leases", request.leases.len())?;
    let leases: Vec<Lease> = members(request.leases)?;
    for lease in &leases {
        caller.require(Permission::Work, &lease.key.namespace)?;
    }
    let asked = leases.len();
    let mut opener = Opener::new(&state, &caller, "cancelled").await?;
    let leases: Vec<Lease> = leases.into_iter().filter_map(|lease| opener.open(lease).ok()).collect();
    opener.done().await;
    // The worker learns of a lost lease from its renewal, which this response makes it send.
    let Some(namespace) =
        leases.first().map(|lease| lease.key.namespace.clone()).filter(|_| leases.len() == asked)
    else {
        return Ok(Json(CancelledWaited { cancelled: asked > 0 }));
    };
    let wait = state.wait(request.wait_ms);
    let watch = Watch::new(state, caller, Permission::Work, namespace);
    let woken = watch.wait(Interest::Cancelled { leases }, wait).await?;
    Ok(Json(CancelledWaited { cancelled: woken == Wake::Ready }))
}
