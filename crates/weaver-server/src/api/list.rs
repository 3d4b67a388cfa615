//! Lists of tasks, by any of their indexed properties, and of groups.

use axum::Json;
use axum::extract::State;
use weaver_api::{Group, ListTasksQuery, NamespacePageQuery, Page, Task, namespace_or_default};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::name::{QueueName, SessionId, TaskGroupId, TaskType};
use weaver_core::ports::{Cursor, Order, Scope, Selector, TaskQuery};
use weaver_core::task::TaskState;

use super::caller::{Caller, Permission};
use super::extract::Params;
use super::{ApiResult, AppState};

/// List tasks.
#[utoipa::path(get, path = "/api/v1/tasks", tag = "tasks", params(ListTasksQuery),
    responses((status = 200, description = "A page of tasks", body = Page<Task>)))]
pub(crate) async fn list_tasks(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<ListTasksQuery>,
) -> ApiResult<Json<Page<Task>>> {
    let (mut query, also) = task_query(&state, query)?;
    caller.require(Permission::Read, &query.namespace)?;
    if is_known_empty(&state, &mut query).await? {
        return Ok(Json(Page { items: Vec::new(), next: None, complete: true }));
    }
    let mut page = state.timed("list_tasks", state.store.list_tasks(query)).await?;
    let found = page.items.len();
    page.items.retain(|record| also.iter().all(|selector| selector.selects(record)));
    let complete = page.complete && (page.items.len() == found || page.next.is_none());
    Ok(Json(Page {
        items: page.items.iter().map(Task::from).collect(),
        next: page.next.map(|Cursor(text)| text),
        complete,
    }))
}

/// The store's query, and the selectors to apply to its result: a store looks up one index and filters by
/// some fields.
pub(super) fn task_query(
    state: &AppState,
    query: ListTasksQuery,
) -> Result<(TaskQuery, Vec<Selector>), Invalid> {
    let mut found = TaskQuery::new(namespace_or_default(query.namespace.as_deref())?);
    found.limit = state.page(query.limit)?;
    found.cursor = query.cursor.map(Cursor);
    found.order = query.order.unwrap_or(Order::NewestFirst);
    let filter = &mut found.filter;
    filter.states = states(query.state.as_deref())?;
    filter.types = query.task_type.map(TaskType::new).transpose()?.into_iter().collect();
    filter.queue = query.queue.map(QueueName::new).transpose()?;
    filter.created_from = query.created_from;
    filter.created_before = query.created_before;
    let group = query.group.map(TaskGroupId::new).transpose()?.map(Selector::Group);
    let session = query.session.map(SessionId::new).transpose()?.map(Selector::Session);
    let label = query.label.as_deref().map(label_selector).transpose()?;
    let mut narrow: Vec<_> = group.into_iter().chain(session).chain(label).collect();
    // The most selective index: group, session or label, then a single state, type or queue.
    found.selector = narrow.pop().unwrap_or_else(|| broad_selector(filter));
    Ok((found, narrow))
}

/// For a queue and a terminal state, scans whichever has fewer tasks. True where the counts say that no task
/// is in both, which would be the slowest scan.
async fn is_known_empty(state: &AppState, query: &mut TaskQuery) -> ApiResult<bool> {
    let ([over], Some(queue), Selector::Queue(_)) =
        (&query.filter.states[..], &query.filter.queue, &query.selector)
    else {
        return Ok(false);
    };
    let in_queue = state.store.counts(Scope::Queue(query.namespace.clone(), queue.clone())).await?;
    let overall = state.store.counts(Scope::Namespace(query.namespace.clone())).await?;
    if overall.values.get(*over) < TaskState::ALL.into_iter().map(|state| in_queue.values.get(state)).sum() {
        query.selector = Selector::State(*over);
    }
    Ok(in_queue.exact && in_queue.values.get(*over) == 0)
}

/// Live states are the most selective; a type or a queue can hold every task.
fn broad_selector(filter: &weaver_core::ports::TaskFilter) -> Selector {
    let live = |state: &TaskState| !state.is_terminal();
    match (&filter.states[..], &filter.types[..], &filter.queue) {
        ([state], ..) if live(state) => Selector::State(*state),
        (_, [task_type], _) => Selector::Type(task_type.clone()),
        (_, _, Some(queue)) => Selector::Queue(queue.clone()),
        ([state], ..) => Selector::State(*state),
        _ => Selector::All,
    }
}

fn states(text: Option<&str>) -> Result<Vec<TaskState>, Invalid> {
    let parse = |word: &str| {
        TaskState::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| {
            let words = TaskState::ALL.map(TaskState::as_str).join(", ");
            let reason = format!("`{word}` is not a state; the states are {words}");
            Invalid::new("state", FieldProblem::Undecodable { reason })
        })
    };
    text.map_or_else(|| Ok(Vec::new()), |text| text.split(',').map(parse).collect())
}

fn label_selector(text: &str) -> Result<Selector, Invalid> {
    let undecodable = || {
        let reason = "write it as `name=value`".to_owned();
        Invalid::new("label", FieldProblem::Undecodable { reason })
    };
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(undecodable)?;
    Ok(Selector::Label(name.to_owned(), value.to_owned()))
}

/// List task groups.
#[utoipa::path(get, path = "/api/v1/groups", tag = "groups", params(NamespacePageQuery),
    responses((status = 200, description = "A page of groups, by id", body = Page<Group>)))]
pub(crate) async fn list_groups(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<NamespacePageQuery>,
) -> ApiResult<Json<Page<Group>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let limit = state.page(query.limit)?;
    let page = state.store.list_groups(&namespace, query.cursor.map(Cursor), limit).await?;
    let group = |summary: &weaver_core::ports::GroupSummary| Group {
        id: summary.id.to_string(),
        counts: (&summary.counts).into(),
        last_at: summary.last_at,
    };
    let items = page.items.iter().map(group).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}
