//! The workers' side of the API: leases, renewals, heartbeats.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{
    ConfirmStoppedRequest, DeregisterRequest, HeartbeatRequest, HeartbeatResponse, LeaseRequest,
    LeaseResponse, LeasedTask, RenewRequest, RenewResponse, StartAssignedRequest, WaitForAssigned,
    WaitForWork, WorkWaited,
};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::lease::{Lease, Renewal, Renewed};
use weaver_core::ports::{Beat, RunnerKey};
use weaver_core::queue::{Interest, Wake};

use super::caller::{Caller, Permission};
use super::extract::Body;
use super::leases::Opener;
use super::watch::Watch;
use super::{ApiResult, AppState};

/// Lease due tasks; wait for one if none is due.
#[utoipa::path(post, path = "/api/v1/work/lease", tag = "work", request_body = LeaseRequest,
    responses((status = 200, description = "The leased tasks, or none if the wait timed out", body = LeaseResponse)))]
pub(crate) async fn lease(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<LeaseRequest>,
) -> ApiResult<Json<LeaseResponse>> {
    let mut wanted = request.to_core()?;
    caller.require(Permission::Work, &wanted.namespace)?;
    let key = state.key.get().await?;
    let drawn = wanted.token;
    wanted.token = key.stored_token(caller.subject(), drawn);
    let interest = Interest::Work {
        namespace: wanted.namespace.clone(),
        queues: wanted.queues.clone(),
        types: wanted.types.clone(),
        fragile: wanted.slots > 0,
    };
    let started = state.clock.monotonic();
    let wait = state.wait(request.wait_ms);
    let watch = Watch::new(state.clone(), caller.clone(), Permission::Work, wanted.namespace.clone());
    loop {
        // Measured before the store's call, so that a lease is never shorter than the worker believes.
        let waited = state.clock.monotonic().0.saturating_sub(started.0);
        let leased = state.timed("lease", state.store.lease(wanted.clone())).await?;
        let left = wait.saturating_sub(state.clock.monotonic().0.saturating_sub(started.0));
        if !leased.is_empty() || left.is_zero() || state.closing.is_cancelled() {
            let bound = leased.into_iter().map(|mut leased| {
                key.issue(caller.subject(), drawn, &mut leased.lease);
                LeasedTask::from(&leased)
            });
            let tasks = bound.collect();
            let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            return Ok(Json(LeaseResponse { tasks, waited_ms }));
        }
        // Verifies the token again before the store is asked for a task.
        watch.wait(interest.clone(), left).await?;
    }
}

/// Wait until a task may be due, without leasing it.
#[utoipa::path(post, path = "/api/v1/work/wait", tag = "work", request_body = WaitForWork,
    responses((status = 200, description = "A task may be due, or the wait timed out", body = WorkWaited)))]
pub(crate) async fn wait_for_work(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<WaitForWork>,
) -> ApiResult<Json<WorkWaited>> {
    let interest = request.to_core()?;
    let Interest::Work { namespace, queues, .. } = &interest else {
        return Ok(Json(WorkWaited { ready: false }));
    };
    caller.require(Permission::Work, namespace)?;
    if queues.is_empty() {
        return Err(Invalid::new("queues", FieldProblem::Empty).into());
    }
    let wait = state.wait(request.wait_ms);
    let watch = Watch::new(state, caller, Permission::Work, namespace.clone());
    Ok(Json(WorkWaited { ready: watch.wait(interest, wait).await? == Wake::Ready }))
}

/// Wait until a leader assigns a task to a worker.
#[utoipa::path(post, path = "/api/v1/work/wait-assigned", tag = "work", request_body = WaitForAssigned,
    responses((status = 200, description = "A task is assigned, or the wait timed out", body = WorkWaited)))]
pub(crate) async fn wait_for_assigned(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<WaitForAssigned>,
) -> ApiResult<Json<WorkWaited>> {
    let interest = request.to_core()?;
    let Interest::Assigned { namespace, .. } = &interest else {
        return Ok(Json(WorkWaited { ready: false }));
    };
    caller.require(Permission::Work, namespace)?;
    let wait = state.wait(request.wait_ms);
    let watch = Watch::new(state, caller, Permission::Work, namespace.clone());
    Ok(Json(WorkWaited { ready: watch.wait(interest, wait).await? == Wake::Ready }))
}

/// Start tasks that a leader assigned to a worker.
#[utoipa::path(post, path = "/api/v1/work/start-assigned", tag = "work", request_body = StartAssignedRequest,
    responses((status = 200, description = "The started tasks; those taken back meanwhile are not among them", body = LeaseResponse)))]
pub(crate) async fn start_assigned(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<StartAssignedRequest>,
) -> ApiResult<Json<LeaseResponse>> {
    let mut wanted = request.to_core()?;
    caller.require(Permission::Work, &wanted.namespace)?;
    let key = state.key.get().await?;
    let drawn = wanted.token;
    wanted.token = key.stored_token(caller.subject(), drawn);
    let started = state
        .timed("start_assigned", weaver_core::queue::start::start_assigned(&*state.store, &wanted))
        .await?;
    let bound = started.into_iter().map(|mut leased| {
        key.issue(caller.subject(), drawn, &mut leased.lease);
        LeasedTask::from(&leased)
    });
    Ok(Json(LeaseResponse { tasks: bound.collect(), waited_ms: 0 }))
}

/// Renew leases.
#[utoipa::path(post, path = "/api/v1/work/renew", tag = "work", request_body = RenewRequest,
    responses((status = 200, description = "A result per renewal, in order", body = RenewResponse)))]
pub(crate) async fn renew(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<RenewRequest>,
) -> ApiResult<Json<RenewResponse>> {
    state.check_batch("renewals", request.renewals.len())?;
    let renewals: Vec<Renewal> = members(request.renewals)?;
    for renewal in &renewals {
        caller.require(Permission::Work, &renewal.lease.key.namespace)?;
    }
    let mut opener = Opener::new(&state, &caller, "renew").await?;
    let mut results = vec![Renewed::Lost; renewals.len()];
    let (mut places, mut ours) = (Vec::new(), Vec::new());
    for (place, renewal) in renewals.into_iter().enumerate() {
        let Renewal { lease, progress, continuation } = renewal;
        if let Ok(lease) = opener.open(lease) {
            places.push(place);
            ours.push(Renewal { lease, progress, continuation });
        }
    }
    opener.done().await;
    let renewed = state.timed("renew", state.store.renew(ours)).await?;
    for (place, renewed) in places.into_iter().zip(renewed) {
        results[place] = renewed;
    }
    Ok(Json(RenewResponse { results }))
}

/// Confirm that the handlers of cancelled tasks have stopped.
#[utoipa::path(post, path = "/api/v1/work/confirm-stopped", tag = "work", request_body = ConfirmStoppedRequest,
    responses((status = 204, description = "Recorded; their cancellation holds are released")))]
pub(crate) async fn confirm_stopped(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<ConfirmStoppedRequest>,
) -> ApiResult<StatusCode> {
    state.check_batch("leases", request.leases.len())?;
    let leases: Vec<Lease> = members(request.leases)?;
    for lease in &leases {
        caller.require(Permission::Work, &lease.key.namespace)?;
    }
    let mut opener = Opener::new(&state, &caller, "confirm-stopped").await?;
    let ours: Vec<Lease> = leases.into_iter().filter_map(|lease| opener.open(lease).ok()).collect();
    opener.done().await;
    state.store.confirm_stopped(ours).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Report that workers are alive; the response says what each should do.
#[utoipa::path(post, path = "/api/v1/work/heartbeat", tag = "work", request_body = HeartbeatRequest,
    responses((status = 200, description = "The directive of each worker, in order", body = HeartbeatResponse)))]
pub(crate) async fn heartbeat(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<HeartbeatRequest>,
) -> ApiResult<Json<HeartbeatResponse>> {
    state.check_batch("heartbeats", request.heartbeats.len())?;
    let beats: Vec<Beat> = members(request.heartbeats)?;
    for beat in &beats {
        caller.require(Permission::Work, &beat.key.namespace)?;
    }
    Ok(Json(HeartbeatResponse { directives: state.store.beat(beats).await? }))
}

/// Deregister workers that stop.
#[utoipa::path(post, path = "/api/v1/work/deregister", tag = "work", request_body = DeregisterRequest,
    responses((status = 204, description = "Recorded")))]
pub(crate) async fn deregister(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<DeregisterRequest>,
) -> ApiResult<StatusCode> {
    state.check_batch("workers", request.workers.len())?;
    let workers: Vec<RunnerKey> = members(request.workers)?;
    for key in &workers {
        caller.require(Permission::Work, &key.namespace)?;
    }
    for key in &workers {
        state.store.stop_runner(key).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Converts the members of a batch; an error names the member.
pub(super) fn members<W, T: TryFrom<W, Error = Invalid>>(wire: Vec<W>) -> Result<Vec<T>, Invalid> {
    wire.into_iter()
        .enumerate()
        .map(|(index, member)| member.try_into().map_err(|invalid: Invalid| invalid.at(index)))
        .collect()
}
