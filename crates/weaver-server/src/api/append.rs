//! Attempt logs and statistics, written by workers.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{AppendRequest, StreamAppend};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::id::TaskKey;
use weaver_core::lease::Lease;
use weaver_core::lifecycle::{LOG_AFTER_END, may_log};
use weaver_core::name::{Namespace, check_name};
use weaver_core::ports::{Seq, StreamKey, TrimBefore};
use weaver_core::queue::QueueExt;

use super::caller::{Caller, Permission};
use super::extract::Body;
use super::leases::Opener;
use super::{ApiResult, AppState};
use crate::problem::{Problem, task_not_found};

/// The stream `stats` is shared by all workers of a namespace: none of them may trim entries younger than
/// this.
const STATS_RETENTION: Duration = Duration::from_secs(25 * 3600);

/// Append to attempt logs and statistics.
///
/// A log is written under the lease of its attempt, until 60 s after the attempt's end.
#[utoipa::path(post, path = "/api/v1/work/append", tag = "work", request_body = AppendRequest,
    responses((status = 204, description = "Appended")))]
pub(crate) async fn append(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<AppendRequest>,
) -> ApiResult<StatusCode> {
    state.check_batch("appends", request.appends.len())?;
    let mut opener = Opener::new(&state, &caller, "append").await?;
    let checked = check(&state, &caller, &mut opener, &request.appends).await;
    opener.done().await;
    for (stream, append) in checked?.iter().zip(request.appends) {
        let bodies: Vec<_> = append.entries.into_iter().map(|body| body.0).collect();
        if !bodies.is_empty() {
            state.timed("append", state.store.append_entries(stream, &bodies)).await?;
        }
        let by_seq = append.trim_before_seq.map(|seq| TrimBefore::Seq(Seq(seq)));
        let by_time = append.trim_before.map(|instant| {
            let is_shared = stream.name == "stats";
            let kept_from = state.clock.now().saturating_sub(STATS_RETENTION);
            TrimBefore::Time(if is_shared { instant.min(kept_from) } else { instant })
        });
        for before in by_seq.into_iter().chain(by_time) {
            state.store.trim_entries(stream, before).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The streams to write; fails if the caller may not write one of them.
async fn check(
    state: &AppState,
    caller: &Caller,
    opener: &mut Opener<'_>,
    appends: &[StreamAppend],
) -> ApiResult<Vec<StreamKey>> {
    let mut streams = Vec::with_capacity(appends.len());
    for (index, append) in appends.iter().enumerate() {
        let (stream, of) = writable(append).map_err(|invalid| invalid.at(index))?;
        caller.require(Permission::Work, &stream.namespace)?;
        if of.is_none() && append.trim_before_seq.is_some() {
            let detail =
                "the stream `stats` is shared by all workers and cannot be trimmed by sequence number"
                    .to_owned();
            return Err(forbidden("stream_shared", detail, "trim it by time, with `trim_before`")
                .field("trim_before_seq")
                .at(index));
        }
        if let Some((key, attempt)) = of {
            let lease = lease_of(append, &key, attempt, opener).map_err(|problem| problem.at(index))?;
            check_attempt(state, &lease).await.map_err(|problem| problem.at(index))?;
        }
        streams.push(stream);
    }
    Ok(streams)
}

fn lease_of(append: &StreamAppend, key: &TaskKey, attempt: u32, opener: &mut Opener<'_>) -> ApiResult<Lease> {
    let Some(lease) = append.lease.clone() else {
        return Err(forbidden(
            "lease_missing",
            format!("appending to a log of task {key} needs the lease of its attempt"),
            "send the lease unchanged in the field `lease`",
        )
        .field("lease"));
    };
    let lease = Lease::try_from(lease)?;
    let of_another = lease.key != *key || lease.attempt != attempt;
    let opened = opener.open(lease).map_err(|_| {
        let detail = format!("the lease of attempt {attempt} of task {key} does not belong to this token");
        forbidden("lease_not_yours", detail, "send a lease that this token's subject took, unchanged")
    })?;
    if of_another {
        let detail = format!("the lease is for attempt {} of task {}", opened.attempt, opened.key);
        return Err(forbidden("lease_of_another_attempt", detail, "send the lease of the attempt it logs"));
    }
    Ok(opened)
}

/// Logs are purged with their task: a log without a task would never be removed.
async fn check_attempt(state: &AppState, lease: &Lease) -> ApiResult<()> {
    let record = state.store.get_task(&lease.key).await?;
    if !(1..=record.attempt).contains(&lease.attempt) {
        return Err(task_not_found(format!(
            "task {} has {} attempts; there is no attempt {}",
            lease.key, record.attempt, lease.attempt
        )));
    }
    if may_log(&record, lease, state.clock.now()) {
        return Ok(());
    }
    let (attempt, after) = (lease.attempt, LOG_AFTER_END.as_secs());
    Err(Problem::new(
        StatusCode::CONFLICT,
        "attempt_ended",
        format!("attempt {attempt} of task {} ended more than {after} s ago; its log is closed", lease.key),
        "append to a log while its attempt runs",
    ))
}

fn forbidden(code: &'static str, detail: String, hint: &'static str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, code, detail, hint)
}

/// The streams that workers may write: attempt logs and `stats`, never the audit journal.
fn writable(append: &StreamAppend) -> Result<(StreamKey, Option<(TaskKey, u32)>), Invalid> {
    let namespace = Namespace::try_from(append.namespace.as_str())?;
    let undecodable =
        |field, reason: &str| Invalid::new(field, FieldProblem::Undecodable { reason: reason.to_owned() });
    if append.stream == "stats" {
        return Ok((StreamKey::new(namespace, "stats"), None));
    }
    let attempt = || {
        // The last part is the attempt: an id that another client wrote may contain slashes.
        let (id, attempt) = append.stream.strip_prefix("task/")?.rsplit_once('/')?;
        check_name("stream", id).ok()?;
        Some((TaskKey::of_text(namespace, id), attempt.parse().ok()?))
    };
    let (key, attempt) =
        attempt().ok_or_else(|| undecodable("stream", "workers write `task/{id}/{attempt}` and `stats`"))?;
    Ok((StreamKey::attempt_log(&key, attempt), Some((key, attempt))))
}
