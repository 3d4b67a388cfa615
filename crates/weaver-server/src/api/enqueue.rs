//! `POST /tasks`: one task, or a batch.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{EnqueueMember, EnqueueRequest, EnqueueResponse, Enqueued, NewTask, namespace_or_default};
use weaver_core::error::Result as StoreResult;
use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::queue::Enqueued as Stored;
use weaver_core::task::NewTask as CoreNewTask;

use super::audit::{AuditRecord, ENQUEUE, enqueue_audit, enqueued};
use super::caller::Caller;
use super::extract::Body;
use super::{ApiResult, AppState};
use crate::problem::Problem;

/// Enqueue a task, or a batch of tasks.
///
/// All members are validated before any is stored; storing succeeds or fails per member.
#[utoipa::path(post, path = "/api/v1/tasks", tag = "tasks", request_body = EnqueueRequest,
    responses((status = 201, description = "The tasks, new or existing", body = EnqueueResponse)))]
pub(crate) async fn enqueue_tasks(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<EnqueueRequest>,
) -> ApiResult<(StatusCode, Json<EnqueueResponse>)> {
    let response = match request {
        EnqueueRequest::One(task) => {
            let stored = enqueue(&state, &caller, vec![*task]).await.map_err(Problem::of_one)?;
            let stored = stored.into_iter().next().ok_or_else(no_answer)?;
            EnqueueResponse::One(shown(&stored?))
        }
        EnqueueRequest::Many { tasks } => {
            state.check_batch("tasks", tasks.len())?;
            let stored = enqueue(&state, &caller, tasks).await?;
            let member = |stored: StoreResult<Stored>| match stored {
                Ok(stored) => EnqueueMember::Enqueued(shown(&stored)),
                Err(error) => EnqueueMember::Failed { problem: Problem::from(error).to_wire() },
            };
            EnqueueResponse::Many { tasks: stored.into_iter().map(member).collect() }
        }
    };
    Ok((StatusCode::CREATED, Json(response)))
}

async fn enqueue(
    state: &AppState,
    caller: &Caller,
    tasks: Vec<NewTask>,
) -> ApiResult<Vec<StoreResult<Stored>>> {
    let mut accepted = Vec::with_capacity(tasks.len());
    let mut queues: HashMap<Namespace, HashSet<QueueName>> = HashMap::new();
    for (index, task) in tasks.into_iter().enumerate() {
        let (namespace, queue, task) = accept(caller, task).map_err(|problem| problem.at(index))?;
        queues.entry(namespace).or_default().insert(queue);
        accepted.push(task);
    }
    for (namespace, queues) in &queues {
        state.queue_quota.check(state, namespace, &queues.iter().collect()).await?;
    }
    if state.store.audits_in_the_transaction() {
        let audit = enqueue_audit(caller);
        let stored = state.timed("enqueue", state.store.enqueue_audited(accepted, audit)).await?;
        for namespace in queues.keys() {
            state.audit.trim_if_due(namespace, 1).await;
        }
        return Ok(stored);
    }
    let stored = state.timed("enqueue", state.store.enqueue_batch(accepted)).await?;
    write_audit(state, caller, &stored).await;
    Ok(stored)
}

/// Checks permissions; the store validates the rest.
fn accept(caller: &Caller, task: NewTask) -> ApiResult<(Namespace, QueueName, CoreNewTask)> {
    let namespace = namespace_or_default(task.namespace.as_deref())?;
    let task_type = TaskType::try_from(task.task_type.as_str())?;
    caller.require_enqueue(&namespace, &task_type)?;
    let queue = task.queue.as_deref().map(QueueName::try_from).transpose()?.unwrap_or_default();
    Ok((namespace, queue, task.try_into()?))
}

/// One audit entry per namespace and request, however many tasks it has (ADR 0022).
async fn write_audit(state: &AppState, caller: &Caller, stored: &[StoreResult<Stored>]) {
    let mut made: Vec<(&Namespace, u64, String, String)> = Vec::new();
    for stored in stored.iter().flatten().filter(|stored| !stored.existing) {
        let id = stored.key.shown_id().to_string();
        match made.iter_mut().find(|(namespace, ..)| **namespace == stored.key.namespace) {
            Some((_, count, _, last)) => (*count, *last) = (*count + 1, id),
            None => made.push((&stored.key.namespace, 1, id.clone(), id)),
        }
    }
    for (namespace, count, first, last) in made {
        let (target, detail) = enqueued(count, &first, &last);
        state.audit.write_soon(caller, namespace, AuditRecord { action: ENQUEUE, target, detail }).await;
    }
}

pub(super) fn shown(stored: &Stored) -> Enqueued {
    Enqueued {
        id: stored.key.shown_id().to_string(),
        namespace: stored.key.namespace.to_string(),
        existing: stored.existing,
    }
}

fn no_answer() -> Problem {
    weaver_core::error::Error::Unavailable { reason: "the store returned no result".to_owned() }.into()
}
