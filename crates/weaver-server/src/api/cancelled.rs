//! A worker waits for the cancellation of what it has in hand: the wake-up that makes its next renewal come
//! at once (G11).

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
use super::{Answer, AppState};

/// Wait until one of the tasks in hand is cancelled.
#[utoipa::path(post, path = "/api/v1/work/cancelled", tag = "work", request_body = WaitForCancelled,
    responses((status = 200, description = "One was cancelled, or the time is up", body = CancelledWaited)))]
pub(crate) async fn wait_for_cancelled(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<WaitForCancelled>,
) -> Answer<Json<CancelledWaited>> {
    state.check_batch("leases", request.leases.len())?;
    let leases: Vec<Lease> = members(request.leases)?;
    for lease in &leases {
        caller.require(Permission::Work, &lease.key.namespace)?;
    }
    let asked = leases.len();
    let mut opener = Opener::new(&state, &caller, "cancelled").await?;
    let leases: Vec<Lease> = leases.into_iter().filter_map(|lease| opener.open(lease).ok()).collect();
    opener.done().await;
    // A lease that is not the caller's any more is told by its renewal, which is what an answer leads to.
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
