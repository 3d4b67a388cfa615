//! Merge queues: changing them.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{MergeEntry, MergeQueue, NewMergeEntry, NewMergeQueue, PauseMerge, PutMergePriority};
use weaver_merge::domain::{BadOid, Oid, PRIORITY_DEFAULT, PRIORITY_LOWEST, QueueId, Repository};
use weaver_merge::engine::{EngineError, NewEntry};
use weaver_merge::forge::ForgeError;

use super::{EntryPath, convert, named, shown};
use crate::api::audit::AuditRecord;
use crate::api::caller::{Caller, Permission};
use crate::api::extract::{Body, Name};
use crate::api::{ApiResult, AppState};
use crate::problem::Problem;

/// Add a merge queue for a base branch of a repository on the server's machine. An existing one is unchanged.
///
/// The checks in its base branch are programs that the server runs: besides the role, the token needs
/// `may_exec`.
#[utoipa::path(post, path = "/api/v1/merge/queues", tag = "merge", request_body = NewMergeQueue,
    responses((status = 201, description = "The queue", body = MergeQueue)))]
pub(crate) async fn add_merge_queue(
    State(state): State<AppState>,
    caller: Caller,
    Body(new): Body<NewMergeQueue>,
) -> ApiResult<(StatusCode, Json<MergeQueue>)> {
    let namespace = state.merge.namespace();
    caller.require(Permission::ManageMerge, namespace)?;
    caller.require(Permission::EnqueueExec, namespace)?;
    let location = Path::new(&new.location);
    if !location.is_absolute() {
        let detail = format!("location `{}` is not an absolute path", new.location);
        let hint = "send the absolute path of the repository on the server's machine";
        return Err(Problem::bad_request("invalid_field", detail, hint).field("location"));
    }
    let base_branch = new.base_branch.as_deref().unwrap_or("main");
    let repository = Repository::at(new.location.clone(), new.name);
    state.merge.examine(&repository, base_branch).await.map_err(unusable)?;
    let mut queue = state.merge.add_queue(repository, base_branch).await?;
    if let Some(on_foreign) = new.on_foreign {
        state.merge.set_on_foreign(&queue.id, Some(on_foreign)).await?;
        queue = state.merge.get(&queue.id).await?.queue;
    }
    let record = AuditRecord::new("merge.add_queue", target(&queue.id)).detail(new.location);
    state.audit.write(&caller, namespace, record).await;
    Ok((StatusCode::CREATED, Json(shown(&state, &queue))))
}

/// A problem of the repository does not pass without the operator: 409, not 503.
fn unusable(error: ForgeError) -> Problem {
    match error {
        ForgeError::Unavailable(problem) | ForgeError::Unusable(problem) => {
            let hint = "fix the repository, then retry";
            Problem::new(StatusCode::CONFLICT, "repository_unusable", problem, hint)
        }
        gone => EngineError::from(gone).into(),
    }
}

/// Enqueue a change.
#[utoipa::path(post, path = "/api/v1/merge/queues/{queue}/entries", tag = "merge", request_body = NewMergeEntry,
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 201, description = "The new entry", body = MergeEntry)))]
pub(crate) async fn enqueue_merge(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Body(new): Body<NewMergeEntry>,
) -> ApiResult<(StatusCode, Json<MergeEntry>)> {
    caller.require(Permission::Enqueue, state.merge.namespace())?;
    let queue = named(queue)?;
    let priority = checked(new.priority.unwrap_or(PRIORITY_DEFAULT))?;
    let head = new.sha.as_deref().map(commit).transpose()?;
    let by = Some(caller.name().to_owned());
    let entry = NewEntry { change: new.change.clone(), head, by };
    let at = state.merge.enqueue(&queue, entry, priority).await?;
    let record =
        AuditRecord::new("merge.enqueue", format!("{}/{}", target(&queue), at.entry)).detail(new.change);
    state.audit.write(&caller, state.merge.namespace(), record).await;
    Ok((StatusCode::CREATED, Json(convert::entry(&queue, &state.merge.entry(&queue, at.entry).await?))))
}

/// Remove an entry.
#[utoipa::path(post, path = "/api/v1/merge/queues/{queue}/entries/{entry}/cancel", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100),
        ("entry" = u64, Path, description = "The entry's number")),
    responses((status = 200, description = "The updated entry", body = MergeEntry)))]
pub(crate) async fn cancel_merge(
    State(state): State<AppState>,
    caller: Caller,
    EntryPath { queue, entry }: EntryPath,
) -> ApiResult<Json<MergeEntry>> {
    caller.require(Permission::ManageMerge, state.merge.namespace())?;
    state.merge.cancel(&queue, entry).await?;
    let record = AuditRecord::new("merge.cancel", format!("{}/{entry}", target(&queue)));
    state.audit.write(&caller, state.merge.namespace(), record).await;
    Ok(Json(convert::entry(&queue, &state.merge.entry(&queue, entry).await?)))
}

/// Set the priority of an entry: it goes behind all entries of that priority, and never before one that is
/// being processed.
#[utoipa::path(put, path = "/api/v1/merge/queues/{queue}/entries/{entry}/priority", tag = "merge",
    request_body = PutMergePriority,
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100),
        ("entry" = u64, Path, description = "The entry's number")),
    responses((status = 200, description = "The updated entry", body = MergeEntry)))]
pub(crate) async fn set_merge_priority(
    State(state): State<AppState>,
    caller: Caller,
    EntryPath { queue, entry }: EntryPath,
    Body(put): Body<PutMergePriority>,
) -> ApiResult<Json<MergeEntry>> {
    caller.require(Permission::ManageMerge, state.merge.namespace())?;
    let priority = checked(put.priority)?;
    state.merge.set_priority(&queue, entry, priority).await?;
    let record = AuditRecord::new("merge.priority", format!("{}/{entry}", target(&queue)));
    state.audit.write(&caller, state.merge.namespace(), record.detail(priority.to_string())).await;
    Ok(Json(convert::entry(&queue, &state.merge.entry(&queue, entry).await?)))
}

/// Set the priority of a queue among the merge queues.
#[utoipa::path(put, path = "/api/v1/merge/queues/{queue}/priority", tag = "merge", request_body = PutMergePriority,
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The updated queue", body = MergeQueue)))]
pub(crate) async fn set_merge_queue_priority(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Body(put): Body<PutMergePriority>,
) -> ApiResult<Json<MergeQueue>> {
    caller.require(Permission::ManageMerge, state.merge.namespace())?;
    let queue = named(queue)?;
    let priority = checked(put.priority)?;
    state.merge.set_queue_priority(&queue, priority).await?;
    let record = AuditRecord::new("merge.queue_priority", target(&queue)).detail(priority.to_string());
    done(&state, &caller, &queue, record).await
}

/// Pause a merge queue: nothing new is started; running checks continue.
#[utoipa::path(post, path = "/api/v1/merge/queues/{queue}/pause", tag = "merge", request_body = PauseMerge,
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The updated queue", body = MergeQueue)))]
pub(crate) async fn pause_merge(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Body(pause): Body<PauseMerge>,
) -> ApiResult<Json<MergeQueue>> {
    caller.require(Permission::ManageMerge, state.merge.namespace())?;
    let queue = named(queue)?;
    let reason = pause.reason.unwrap_or_else(|| "paused by an operator".to_owned());
    state.merge.pause(&queue, &reason).await?;
    done(&state, &caller, &queue, AuditRecord::new("merge.pause", target(&queue)).detail(reason)).await
}

/// Resume a merge queue.
#[utoipa::path(post, path = "/api/v1/merge/queues/{queue}/resume", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The updated queue", body = MergeQueue)))]
pub(crate) async fn resume_merge(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
) -> ApiResult<Json<MergeQueue>> {
    caller.require(Permission::ManageMerge, state.merge.namespace())?;
    let queue = named(queue)?;
    state.merge.resume(&queue).await?;
    done(&state, &caller, &queue, AuditRecord::new("merge.resume", target(&queue))).await
}

pub(super) async fn done(
    state: &AppState,
    caller: &Caller,
    queue: &QueueId,
    record: AuditRecord,
) -> ApiResult<Json<MergeQueue>> {
    state.audit.write(caller, state.merge.namespace(), record).await;
    Ok(Json(shown(state, &state.merge.get(queue).await?.queue)))
}

pub(super) fn target(queue: &QueueId) -> String {
    format!("merge/{queue}")
}

fn commit(text: &str) -> Result<Oid, Problem> {
    text.parse().map_err(|invalid: BadOid| {
        Problem::bad_request("invalid_field", invalid.to_string(), "send the full name of the commit")
            .field("sha")
    })
}

fn checked(priority: u8) -> Result<u8, weaver_core::error::Invalid> {
    use weaver_core::error::{Invalid, Problem as FieldProblem};
    if priority <= PRIORITY_LOWEST {
        return Ok(priority);
    }
    let problem = FieldProblem::OutOfRange { value: priority.into(), min: 0, max: PRIORITY_LOWEST.into() };
    Err(Invalid::new("priority", problem))
}
