//! Cancelling and retrying many tasks, by a filter.
//!
//! One request does a page: it is bounded, can be repeated, and whoever does many sees how far it is. The
//! page goes from new to old, so tasks that a retry makes are behind the cursor and are not met again.

use axum::Json;
use axum::extract::State;
use futures_util::StreamExt;
use futures_util::stream::iter;
use weaver_api::{BulkAnswer, BulkRequest, ListTasksQuery};
use weaver_core::lifecycle::Command;
use weaver_core::limits::PAGE_MAX;
use weaver_core::ports::Cursor;
use weaver_core::queue::QueueExt;
use weaver_core::task::{TaskRecord, TaskState};

use super::audit::Deed;
use super::caller::{Caller, Permission};
use super::extract::{Body, Params};
use super::list::task_query;
use super::{Answer, AppState};
use crate::problem::Problem;

/// How many are changed at once: enough for a store to write them together.
const AT_ONCE: usize = 64;

/// What is done to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// To those that have not ended.
    Cancel,
    /// To those that have; to dead ones where the filter names no state.
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
/// A page of them per request; go on with `next` as `cursor`. With `dry_run` they are only counted.
#[utoipa::path(post, path = "/api/v1/bulk/cancel", tag = "tasks", params(ListTasksQuery), request_body = BulkRequest,
    responses((status = 200, description = "What was done", body = BulkAnswer)))]
pub(crate) async fn cancel_many(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<ListTasksQuery>,
    Body(request): Body<BulkRequest>,
) -> Answer<Json<BulkAnswer>> {
    Ok(Json(act(&state, &caller, query, Action::Cancel, request.dry_run).await?))
}

/// Run the ended tasks that match again, as new tasks.
///
/// Without a `state`, those that are dead. A page of them per request; go on with `next` as `cursor`. With
/// `dry_run` they are only counted. Asking twice makes two new tasks of each.
#[utoipa::path(post, path = "/api/v1/bulk/retry", tag = "tasks", params(ListTasksQuery), request_body = BulkRequest,
    responses((status = 200, description = "What was done", body = BulkAnswer)))]
pub(crate) async fn retry_many(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<ListTasksQuery>,
    Body(request): Body<BulkRequest>,
) -> Answer<Json<BulkAnswer>> {
    Ok(Json(act(&state, &caller, query, Action::Retry, request.dry_run).await?))
}

pub(crate) async fn act(
    state: &AppState,
    caller: &Caller,
    mut query: ListTasksQuery,
    action: Action,
    dry_run: bool,
) -> Answer<BulkAnswer> {
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
        return Ok(BulkAnswer { matched, done: 0, refused: 0, problem: None, next });
    }
    let ends = (records[0].key.id, records[records.len() - 1].key.id);
    let changes = records.into_iter().map(|record| change(state, caller, record, action));
    let results: Vec<Answer<()>> = iter(changes).buffer_unordered(AT_ONCE).collect().await;
    let done = results.iter().filter(|result| result.is_ok()).count() as u64;
    let problem = results.into_iter().find_map(Result::err).map(|problem| problem.to_wire());
    let verb = if action == Action::Cancel { "task.cancel_many" } else { "task.retry_many" };
    let deed =
        Deed::new(verb, format!("task/{}", ends.0)).detail(format!("{done} tasks, down to {}", ends.1));
    state.audit.write(caller, &namespace, deed).await;
    Ok(BulkAnswer { matched, done, refused: matched - done, problem, next })
}

async fn change(state: &AppState, caller: &Caller, record: TaskRecord, action: Action) -> Answer<()> {
    match action {
        Action::Cancel => state.store.change(&record.key, Command::Cancel).await.map_err(Problem::from),
        Action::Retry => {
            // Whoever may not enqueue such a task may not do so by repeating one either.
            caller.require_enqueue(&record.key.namespace, &record.spec.envelope.task_type)?;
            state.store.retry(&record.key).await.map(drop).map_err(Problem::from)
        }
    }
}
