//! A worker waits for the cancellation of what it has in hand: the wake-up that makes its next renewal come at once (G11).

use axum::Json;
use axum::extract::State;
use weaver_client::wire::{CancelledWaited, WaitForCancelled};
use weaver_core::lease::Lease;
use weaver_core::queue::{Interest, Wake};

use super::caller::{Caller, Permission};
use super::extract::Body;
use super::work::{members, wait_for};
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
    let woken = wait_for(&state, Interest::Cancelled { leases }, state.wait(request.wait_ms)).await?;
    Ok(Json(CancelledWaited { cancelled: woken == Wake::Ready }))
}
