//! One task: reading and changing it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{
    Attempt, Enqueued, Explanation, History, NamespaceQuery, Task, WaitQuery, Waited, namespace_or_default,
};
use weaver_core::event::Changes;
use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Command;
use weaver_core::queue::{Interest, QueueExt};
use weaver_core::task::TaskRecord;

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::enqueue::shown;
use super::extract::{Name, Params};
use super::watch::Watch;
use super::{ApiResult, AppState};
use crate::problem::task_not_found;

/// The most changes of one read.
const CHANGES_MAX: u32 = 1000;

/// Checks the permission, then resolves the id of a path to the task's key.
pub(super) async fn find(
    state: &AppState,
    caller: &Caller,
    permission: Permission,
    id: String,
    namespace: Option<&str>,
) -> ApiResult<TaskKey> {
    let namespace = namespace_or_default(namespace)?;
    caller.require(permission, &namespace)?;
    let found = state.store.resolve(&namespace, std::slice::from_ref(&id)).await?.pop().flatten();
    found.ok_or_else(|| task_not_found(format!("no task `{id}` in namespace `{namespace}`")))
}

/// Read a task.
#[utoipa::path(get, path = "/api/v1/tasks/{id}", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), NamespaceQuery),
    responses((status = 200, description = "The task", body = Task)))]
pub(crate) async fn get_task(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<Task>> {
    let key = find(&state, &caller, Permission::Read, id, query.namespace.as_deref()).await?;
    let record = state.timed("get_tasks", state.store.get_task(&key)).await?;
    Ok(Json(Task::from(&record)))
}

/// Cancel a task in any live state.
///
/// The task ends at once; its running handler is notified within a second (two on DynamoDB).
#[utoipa::path(post, path = "/api/v1/tasks/{id}/cancel", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), NamespaceQuery),
    responses((status = 200, description = "The cancelled task", body = Task)))]
pub(crate) async fn cancel_task(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<Task>> {
    change(&state, &caller, id, &query, Command::Cancel, "task.cancel").await
}

/// Make a waiting task due now.
#[utoipa::path(post, path = "/api/v1/tasks/{id}/run-now", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), NamespaceQuery),
    responses((status = 200, description = "The updated task", body = Task)))]
pub(crate) async fn run_task_now(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<Task>> {
    change(&state, &caller, id, &query, Command::RunNow, "task.run_now").await
}

async fn change(
    state: &AppState,
    caller: &Caller,
    id: String,
    query: &NamespaceQuery,
    command: Command,
    action: &'static str,
) -> ApiResult<Json<Task>> {
    let key = find(state, caller, Permission::ManageTasks, id, query.namespace.as_deref()).await?;
    state.timed("change", state.store.change(&key, command)).await?;
    state.audit.write(caller, &key.namespace, AuditRecord::new(action, target(&key))).await;
    Ok(Json(Task::from(&state.store.get_task(&key).await?)))
}

pub(super) fn target(key: &TaskKey) -> String {
    format!("task/{}", key.shown_id())
}

/// Retry an ended task, as a new task.
#[utoipa::path(post, path = "/api/v1/tasks/{id}/retry", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), NamespaceQuery),
    responses((status = 201, description = "The new task", body = Enqueued)))]
pub(crate) async fn retry_task(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<(StatusCode, Json<Enqueued>)> {
    let key = find(&state, &caller, Permission::ManageTasks, id, query.namespace.as_deref()).await?;
    let record = state.store.get_task(&key).await?;
    // A retry enqueues: it needs the same permission.
    caller.require_enqueue(&key.namespace, &record.spec.envelope.task_type)?;
    let stored = state.timed("enqueue", state.store.retry(&key)).await?;
    let audited = AuditRecord::new("task.retry", target(&key)).detail(format!("as {}", target(&stored.key)));
    state.audit.write(&caller, &key.namespace, audited).await;
    Ok((StatusCode::CREATED, Json(shown(&stored))))
}

/// Explain why a task is in its state.
#[utoipa::path(get, path = "/api/v1/tasks/{id}/explain", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), NamespaceQuery),
    responses((status = 200, description = "The reasons, with evidence", body = Explanation)))]
pub(crate) async fn explain_task(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<Explanation>> {
    let key = find(&state, &caller, Permission::Read, id, query.namespace.as_deref()).await?;
    Ok(Json(Explanation::from(&state.store.explain(&key).await?)))
}

/// List the ended attempts of a task; older ones are dropped.
#[utoipa::path(get, path = "/api/v1/tasks/{id}/history", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), NamespaceQuery),
    responses((status = 200, description = "Attempts, oldest first", body = History)))]
pub(crate) async fn task_history(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<History>> {
    let key = find(&state, &caller, Permission::Read, id, query.namespace.as_deref()).await?;
    let record = state.store.get_task(&key).await?;
    let attempts = record.attempts.iter().map(Attempt::from).collect();
    Ok(Json(History { attempt: record.attempt, attempts }))
}

/// Wait for a task to end.
#[utoipa::path(get, path = "/api/v1/tasks/{id}/wait", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), WaitQuery),
    responses((status = 200, description = "The task ended, or the wait timed out", body = Waited)))]
pub(crate) async fn wait_for_task(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<WaitQuery>,
) -> ApiResult<Json<Waited>> {
    let key = find(&state, &caller, Permission::Read, id, query.namespace.as_deref()).await?;
    let wait = state.wait(query.timeout_ms.unwrap_or(u64::MAX));
    let watch = Watch::new(state, caller, Permission::Read, key.namespace.clone());
    let record = until_ended(&watch, &key, wait).await?;
    Ok(Json(Waited { ended: record.state.is_terminal(), task: Task::from(&record) }))
}

async fn until_ended(watch: &Watch, key: &TaskKey, wait: std::time::Duration) -> ApiResult<TaskRecord> {
    let state = &watch.state;
    let deadline = state.clock.monotonic().saturating_add(wait);
    // The cursor is read before the task, so that an end in between is not missed.
    let mut after = cursor(&state.store.changes(None, 1).await?);
    loop {
        let record = state.store.get_task(key).await?;
        if record.state.is_terminal() {
            return Ok(record);
        }
        loop {
            let left = deadline.0.saturating_sub(state.clock.monotonic().0);
            if left.is_zero() || state.closing.is_cancelled() {
                return Ok(record);
            }
            watch.wait(Interest::Changes { after }, left).await?;
            let changes = state.store.changes(Some(after), CHANGES_MAX).await?;
            after = cursor(&changes);
            let concerned = match &changes {
                Changes::Next { items, .. } => items.iter().any(|change| change.key == *key),
                Changes::Resync { .. } => true,
            };
            if concerned {
                break;
            }
        }
    }
}

fn cursor(changes: &Changes) -> weaver_core::event::ChangeCursor {
    match changes {
        Changes::Next { next, .. } | Changes::Resync { next } => *next,
    }
}
