//! Merge queues: changing them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{MergeEntry, MergeQueue, NewMergeEntry, PauseMerge, PutMergePriority};
use weaver_core::name::Namespace;
use weaver_merge::domain::{BadOid, Oid, PRIORITY_DEFAULT, PRIORITY_LOWEST, QueueId};
use weaver_merge::engine::NewEntry;

use super::access::{Permitted, permitted};
use super::{EntryPath, convert, shown};
use crate::api::audit::AuditRecord;
use crate::api::caller::{Caller, Permission};
use crate::api::extract::{Body, Name};
use crate::api::{ApiResult, AppState};
use crate::problem::Problem;

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
    let Permitted { id: queue, namespace, .. } =
        permitted(&state, &caller, Permission::Enqueue, queue).await?;
    let priority = checked(new.priority.unwrap_or(PRIORITY_DEFAULT))?;
    let head = new.sha.as_deref().map(commit).transpose()?;
    let by = Some(caller.name().to_owned());
    let entry = NewEntry { change: new.change.clone(), head, by };
    let at = state.merge.enqueue(&queue, entry, priority).await?;
    let entry = state.merge.entry(&queue, at.entry).await;
    // It is enqueued: that is recorded even if it cannot be read now.
    let head = entry.as_ref().map(|entry| format!(" at {}", entry.entry.pull_request.head));
    let detail = new.change + &head.unwrap_or_default();
    let record = AuditRecord::new("merge.enqueue", format!("{}/{}", target(&queue), at.entry)).detail(detail);
    state.audit.write(&caller, &namespace, record).await;
    Ok((StatusCode::CREATED, Json(convert::entry(&queue, &namespace, &entry?))))
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
    let Permitted { id: queue, namespace, .. } =
        permitted(&state, &caller, Permission::ManageMerge, queue.0).await?;
    state.merge.cancel(&queue, entry).await?;
    let record = AuditRecord::new("merge.cancel", format!("{}/{entry}", target(&queue)));
    state.audit.write(&caller, &namespace, record).await;
    Ok(Json(convert::entry(&queue, &namespace, &state.merge.entry(&queue, entry).await?)))
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
    let Permitted { id: queue, namespace, .. } =
        permitted(&state, &caller, Permission::ManageMerge, queue.0).await?;
    let priority = checked(put.priority)?;
    state.merge.set_priority(&queue, entry, priority).await?;
    let record = AuditRecord::new("merge.priority", format!("{}/{entry}", target(&queue)));
    state.audit.write(&caller, &namespace, record.detail(priority.to_string())).await;
    Ok(Json(convert::entry(&queue, &namespace, &state.merge.entry(&queue, entry).await?)))
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
    let Permitted { id: queue, namespace, .. } =
        permitted(&state, &caller, Permission::ManageMerge, queue).await?;
    let priority = checked(put.priority)?;
    state.merge.set_queue_priority(&queue, priority).await?;
    let record = AuditRecord::new("merge.queue_priority", target(&queue)).detail(priority.to_string());
    done(&state, &caller, &queue, &namespace, record).await
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
    let Permitted { id: queue, namespace, .. } =
        permitted(&state, &caller, Permission::ManageMerge, queue).await?;
    let reason = pause.reason.unwrap_or_else(|| "paused by an operator".to_owned());
    state.merge.pause(&queue, &reason).await?;
    let record = AuditRecord::new("merge.pause", target(&queue)).detail(reason);
    done(&state, &caller, &queue, &namespace, record).await
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
    let Permitted { id: queue, namespace, .. } =
        permitted(&state, &caller, Permission::ManageMerge, queue).await?;
    state.merge.resume(&queue).await?;
    let record = AuditRecord::new("merge.resume", target(&queue));
    done(&state, &caller, &queue, &namespace, record).await
}

pub(super) async fn done(
    state: &AppState,
    caller: &Caller,
    queue: &QueueId,
    namespace: &Namespace,
    record: AuditRecord,
) -> ApiResult<Json<MergeQueue>> {
    state.audit.write(caller, namespace, record).await;
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
