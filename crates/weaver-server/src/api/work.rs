//! What workers ask for: tasks to run, and time to run them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_client::wire::{
    AppendRequest, BeatRequest, BeatResponse, ConfirmStoppedRequest, LeaseRequest, LeaseResponse, LeasedTask,
    LeaveRequest, RenewRequest, RenewResponse, StreamAppend, WaitForWork, WorkWaited,
};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::id::TaskKey;
use weaver_core::lease::{Lease, Renewal};
use weaver_core::name::Namespace;
use weaver_core::ports::{Beat, RunnerKey, Seq, StreamKey, TrimBefore};
use weaver_core::queue::{Interest, QueueExt, Wake};

use super::caller::{Caller, Permission};
use super::extract::Body;
use super::{Answer, AppState};
use crate::problem::task_not_found;

/// Take due tasks; wait for one if there is none.
#[utoipa::path(post, path = "/api/v1/work/lease", tag = "work", request_body = LeaseRequest,
    responses((status = 200, description = "What was leased, if anything", body = LeaseResponse)))]
pub(crate) async fn lease(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<LeaseRequest>,
) -> Answer<Json<LeaseResponse>> {
    let wanted = request.to_core()?;
    caller.require(Permission::Work, &wanted.namespace)?;
    let interest = Interest::Work {
        namespace: wanted.namespace.clone(),
        queues: wanted.queues.clone(),
        types: wanted.types.clone(),
        fragile: wanted.slots > 0,
    };
    let started = state.clock.monotonic();
    let wait = state.wait(request.wait_ms);
    loop {
        // What was waited before the store is asked: a lease lasts at least its time from then on.
        let waited = state.clock.monotonic().0.saturating_sub(started.0);
        let leased = state.timed("lease", state.store.lease(wanted.clone())).await?;
        let left = wait.saturating_sub(state.clock.monotonic().0.saturating_sub(started.0));
        if !leased.is_empty() || left.is_zero() || state.closing.is_cancelled() {
            let tasks = leased.iter().map(LeasedTask::from).collect();
            let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            return Ok(Json(LeaseResponse { tasks, waited_ms }));
        }
        wait_for(&state, interest.clone(), left).await?;
    }
}

/// Wait until there may be something to lease, without taking it.
#[utoipa::path(post, path = "/api/v1/work/wait", tag = "work", request_body = WaitForWork,
    responses((status = 200, description = "There may be something, or the time is up", body = WorkWaited)))]
pub(crate) async fn wait_for_work(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<WaitForWork>,
) -> Answer<Json<WorkWaited>> {
    let interest = request.to_core()?;
    if let Interest::Work { namespace, queues, .. } = &interest {
        caller.require(Permission::Work, namespace)?;
        if queues.is_empty() {
            return Err(Invalid::new("queues", FieldProblem::Empty).into());
        }
    }
    let woken = wait_for(&state, interest, state.wait(request.wait_ms)).await?;
    Ok(Json(WorkWaited { ready: woken == Wake::Ready }))
}

pub(super) async fn wait_for(state: &AppState, interest: Interest, timeout: Duration) -> Answer<Wake> {
    tokio::select! {
        woken = state.store.wait(interest, timeout) => Ok(woken?),
        () = state.closing.cancelled() => Ok(Wake::TimedOut),
    }
}

/// Extend leases.
#[utoipa::path(post, path = "/api/v1/work/renew", tag = "work", request_body = RenewRequest,
    responses((status = 200, description = "What became of each", body = RenewResponse)))]
pub(crate) async fn renew(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<RenewRequest>,
) -> Answer<Json<RenewResponse>> {
    state.check_batch("renewals", request.renewals.len())?;
    let renewals: Vec<Renewal> = members(request.renewals)?;
    for renewal in &renewals {
        caller.require(Permission::Work, &renewal.lease.key.namespace)?;
    }
    let renewed = state.timed("renew", state.store.renew(renewals)).await?;
    Ok(Json(RenewResponse { results: renewed.into_iter().map(Into::into).collect() }))
}

/// Say that handlers of cancelled tasks have stopped.
#[utoipa::path(post, path = "/api/v1/work/confirm-stopped", tag = "work", request_body = ConfirmStoppedRequest,
    responses((status = 204, description = "Noted; nothing is held for them any more")))]
pub(crate) async fn confirm_stopped(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<ConfirmStoppedRequest>,
) -> Answer<StatusCode> {
    state.check_batch("leases", request.leases.len())?;
    let leases: Vec<Lease> = members(request.leases)?;
    for lease in &leases {
        caller.require(Permission::Work, &lease.key.namespace)?;
    }
    state.store.confirm_stopped(leases).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Say that runners are alive, and hear what they should do.
#[utoipa::path(post, path = "/api/v1/work/beat", tag = "work", request_body = BeatRequest,
    responses((status = 200, description = "What each should do", body = BeatResponse)))]
pub(crate) async fn beat(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<BeatRequest>,
) -> Answer<Json<BeatResponse>> {
    state.check_batch("beats", request.beats.len())?;
    let beats: Vec<Beat> = members(request.beats)?;
    for beat in &beats {
        caller.require(Permission::Work, &beat.key.namespace)?;
    }
    Ok(Json(BeatResponse { directives: state.store.beat(beats).await? }))
}

/// Say goodbye.
#[utoipa::path(post, path = "/api/v1/work/leave", tag = "work", request_body = LeaveRequest,
    responses((status = 204, description = "Noted")))]
pub(crate) async fn leave(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<LeaveRequest>,
) -> Answer<StatusCode> {
    state.check_batch("runners", request.runners.len())?;
    let runners: Vec<RunnerKey> = members(request.runners)?;
    for key in &runners {
        caller.require(Permission::Work, &key.namespace)?;
    }
    for key in &runners {
        state.store.stop_runner(key).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Add to attempt logs and statistics.
#[utoipa::path(post, path = "/api/v1/work/append", tag = "work", request_body = AppendRequest,
    responses((status = 204, description = "Stored")))]
pub(crate) async fn append(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<AppendRequest>,
) -> Answer<StatusCode> {
    state.check_batch("appends", request.appends.len())?;
    let mut streams = Vec::with_capacity(request.appends.len());
    for (index, append) in request.appends.iter().enumerate() {
        let (stream, of) = writable(append).map_err(|invalid| invalid.at(index))?;
        caller.require(Permission::Work, &stream.namespace)?;
        if let Some((key, attempt)) = of {
            check_attempt(&state, &key, attempt).await.map_err(|problem| problem.at(index))?;
        }
        streams.push(stream);
    }
    for (stream, append) in streams.iter().zip(request.appends) {
        let bodies: Vec<_> = append.entries.into_iter().map(|body| body.0).collect();
        if !bodies.is_empty() {
            state.timed("append", state.store.append_entries(stream, &bodies)).await?;
        }
        let by_seq = append.trim_before_seq.map(|seq| TrimBefore::Seq(Seq(seq)));
        for before in by_seq.into_iter().chain(append.trim_before.map(TrimBefore::Time)) {
            state.store.trim_entries(stream, before).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A log goes when its task is purged: one of a task that is not there would stay for ever.
async fn check_attempt(state: &AppState, key: &TaskKey, attempt: u32) -> Answer<()> {
    let record = state.store.get_task(key).await?;
    if (1..=record.attempt).contains(&attempt) {
        return Ok(());
    }
    Err(task_not_found(format!("task {key} has had {} attempts, none of number {attempt}", record.attempt)))
}

/// The streams workers write: an attempt's log (and of which), and statistics. Never the audit journal.
fn writable(append: &StreamAppend) -> Result<(StreamKey, Option<(TaskKey, u32)>), Invalid> {
    let namespace = Namespace::try_from(append.namespace.as_str())?;
    if append.stream == "stats" {
        return Ok((StreamKey::new(namespace, "stats"), None));
    }
    let attempt = || {
        let (id, attempt) = append.stream.strip_prefix("task/")?.split_once('/')?;
        Some((TaskKey::new(namespace, id.parse().ok()?), attempt.parse().ok()?))
    };
    let (key, attempt) = attempt().ok_or_else(|| {
        let reason = "workers write `task/{id}/{attempt}` and `stats`".to_owned();
        Invalid::new("stream", FieldProblem::Undecodable { reason })
    })?;
    Ok((StreamKey::attempt_log(&key, attempt), Some((key, attempt))))
}

/// The members of a batch as the domain has them; the one that is wrong is named.
pub(super) fn members<W, T: TryFrom<W, Error = Invalid>>(wire: Vec<W>) -> Result<Vec<T>, Invalid> {
    wire.into_iter()
        .enumerate()
        .map(|(index, member)| member.try_into().map_err(|invalid: Invalid| invalid.at(index)))
        .collect()
}
