//! Cancelling and retrying many tasks, by a filter.
//!
//! One request handles one page: it is bounded, can be repeated, and the client sees its progress. Pages go
//! from new to old, so tasks that a retry creates are behind the cursor and are not retried again.

use axum::Json;
use axum::extract::State;
use futures_util::StreamExt;
use futures_util::stream::iter;
use weaver_api::{BulkRequest, BulkResult, ListTasksQuery};
use weaver_core::lifecycle::Command;
use weaver_core::limits::PAGE_MAX;
use weaver_core::ports::Cursor;
use weaver_core::queue::QueueExt;
use weaver_core::task::{TaskRecord, TaskState};

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::extract::{Body, Params};
use super::list::task_query;
use super::task::target;
use super::{ApiResult, AppState};
use crate::problem::Problem;

/// Concurrent changes: enough for a store's group commit.
const AT_ONCE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Tasks that have not ended.
    Cancel,
    /// Tasks that have ended; dead tasks if the filter names no state.
    Retry,
}

impl Action {
    fn concerns(self, state: TaskState) -> bool {
        match self {
            Self::Cancel => !state.is_terminal(),
            Self::Retry => state.is_terminal(),
        }
    }

    fn states(self) -> Vec<TaskState> {
        match self {
            Self::Cancel => TaskState::ALL.into_iter().filter(|state| self.concerns(*state)).collect(),
            Self::Retry => vec![TaskState::Dead],
        }
    }
}

/// Cancel the tasks that match.
///
/// One page per request; continue with `next` as `cursor`. With `dry_run` the tasks are only counted.
#[utoipa::path(post, path = "/api/v1/bulk/cancel", tag = "tasks", params(ListTasksQuery), request_body = BulkRequest,
    responses((status = 200, description = "What was done", body = BulkResult)))]
pub(crate) async fn cancel_many(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<ListTasksQuery>,
    Body(request): Body<BulkRequest>,
) -> ApiResult<Json<BulkResult>> {
    Ok(Json(act(&state, &caller, query, Action::Cancel, request.dry_run).await?))
}

/// Retry the ended tasks that match, as new tasks.
///
/// Without a `state`: dead tasks. One page per request; continue with `next` as `cursor`. With `dry_run` the
/// tasks are only counted. Not idempotent: repeating a request enqueues another copy of each task.
#[utoipa::path(post, path = "/api/v1/bulk/retry", tag = "tasks", params(ListTasksQuery), request_body = BulkRequest,
    responses((status = 200, description = "What was done", body = BulkResult)))]
pub(crate) async fn retry_many(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<ListTasksQuery>,
    Body(request): Body<BulkRequest>,
) -> ApiResult<Json<BulkResult>> {
    Ok(Json(act(&state, &caller, query, Action::Retry, request.dry_run).await?))
}

pub(crate) async fn act(
    state: &AppState,
    caller: &Caller,
    mut query: ListTasksQuery,
    action: Action,
    dry_run: bool,
) -> ApiResult<BulkResult> {
    query.limit.get_or_insert(PAGE_MAX);
    let (mut query, also) = task_query(state, query)?;
    caller.require(Permission::ManageTasks, &query.namespace)?;
    if query.filter.states.is_empty() {
        query.filter.states = action.states();
    }
    let namespace = query.namespace.clone();
    let page = state.timed("list_tasks", state.store.list_tasks(query)).await?;
    let concerns = |record: &TaskRecord| {
        action.concerns(record.state) && also.iter().all(|selector| selector.selects(record))
    };
    let records: Vec<TaskRecord> = page.items.into_iter().filter(concerns).collect();
    let next = page.next.map(|Cursor(text)| text);
    let matched = records.len() as u64;
    if dry_run || records.is_empty() {
        return Ok(BulkResult { matched, changed: 0, refused: 0, problem: None, next });
    }
    let ends = (records[0].key.clone(), records[records.len() - 1].key.clone());
    let changes = records.into_iter().map(|record| change(state, caller, record, action));
    let results: Vec<ApiResult<()>> = iter(changes).buffer_unordered(AT_ONCE).collect().await;
    let changed = results.iter().filter(|result| result.is_ok()).count() as u64;
    let problem = results.into_iter().find_map(Result::err).map(|problem| problem.to_wire());
    let verb = if action == Action::Cancel { "task.cancel_many" } else { "task.retry_many" };
    let record = AuditRecord::new(verb, target(&ends.0))
        .detail(format!("{changed} tasks, the last is {}", ends.1.shown_id()));
    state.audit.write(caller, &namespace, record).await;
    Ok(BulkResult { matched, changed, refused: matched - changed, problem, next })
}

async fn change(state: &AppState, caller: &Caller, record: TaskRecord, action: Action) -> ApiResult<()> {
    match action {
        Action::Cancel => state.store.change(&record.key, Command::Cancel).await.map_err(Problem::from),
        Action::Retry => {
            // A retry enqueues: it needs the same permission.
            caller.require_enqueue(&record.key.namespace, &record.spec.envelope.task_type)?;
            state.store.retry(&record.key).await.map(drop).map_err(Problem::from)
        }
    }
}
