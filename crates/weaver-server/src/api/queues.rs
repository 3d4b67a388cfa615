//! Queues and counts.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use weaver_api::{
    Counts, CountsQuery, NamespaceQuery, PutQueue, Queue, QueueVersion, Queues, QueuesQuery,
    namespace_or_default,
};
use weaver_core::error::Error;
use weaver_core::id::Version;
use weaver_core::limits::{PAGE_MAX, check_page};
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Expect, QueueSettings, Scope};

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::{ApiResult, AppState};

/// Attempts of a conditional write of queue settings (optimistic concurrency).
const TRIES_MAX: usize = 8;
/// Queues that are counted concurrently.
const COUNTED_AT_ONCE: usize = 8;

/// List queues, with their settings and counts.
#[utoipa::path(get, path = "/api/v1/queues", tag = "queues", params(QueuesQuery),
    responses((status = 200, description = "A page of queues, by name", body = Queues)))]
pub(crate) async fn list_queues(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<QueuesQuery>,
) -> ApiResult<Json<Queues>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let limit = query.limit.unwrap_or(PAGE_MAX);
    check_page(limit)?;
    let after = query.cursor.map(QueueName::new).transpose()?;
    let mut queues = state.timed("list_queues", state.store.list_queues(&namespace)).await?;
    queues.sort_by(|one, other| one.name.cmp(&other.name));
    queues.retain(|queue| after.as_ref().is_none_or(|after| queue.name > *after));
    let is_more = queues.len() > limit as usize;
    queues.truncate(limit as usize);
    let next = queues.last().filter(|_| is_more).map(|queue| queue.name.to_string());
    // Only queues of this page are counted.
    let scopes = queues.iter().map(|queue| Scope::Queue(namespace.clone(), queue.name.clone()));
    let counting: Vec<_> = scopes.map(|scope| state.store.counts(scope)).collect();
    let counts: Vec<_> = stream::iter(counting).buffered(COUNTED_AT_ONCE).try_collect().await?;
    let items = queues.iter().zip(&counts).map(|(queue, counts)| Queue {
        name: queue.name.to_string(),
        paused: queue.settings.paused,
        max_running: queue.settings.max_running,
        dispatch: queue.settings.dispatch,
        version: queue.version.0,
        occupied: queue.occupied,
        counts: counts.into(),
    });
    Ok(Json(Queues { items: items.collect(), next }))
}

/// Change the settings of a queue.
#[utoipa::path(put, path = "/api/v1/queues/{queue}", tag = "queues", request_body = PutQueue,
    params(("queue" = String, Path, description = "The queue's name", min_length = 1), NamespaceQuery),
    responses((status = 200, description = "The new settings", body = QueueVersion)))]
pub(crate) async fn put_queue(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<NamespaceQuery>,
    Body(put): Body<PutQueue>,
) -> ApiResult<Json<QueueVersion>> {
    let (namespace, queue) = named(&caller, queue, &query)?;
    state.queue_quota.check(&state, &namespace, &HashSet::from([&queue])).await?;
    let settings = QueueSettings { paused: put.paused, max_running: put.max_running, dispatch: put.dispatch };
    let expect = match put.expected_version {
        None => Expect::Anything,
        Some(0) => Expect::Absent,
        Some(version) => Expect::Version(Version(version)),
    };
    let version = state.store.put_queue(&namespace, &queue, settings, expect).await?;
    let limit = settings.max_running.map_or("no limit".to_owned(), |max| format!("at most {max} running"));
    let paused = if settings.paused { "paused, " } else { "" };
    let record = AuditRecord::new("queue.put", format!("queue/{queue}"))
        .detail(format!("{paused}{limit}, {}", settings.dispatch.as_str()));
    state.audit.write(&caller, &namespace, record).await;
    Ok(Json(queue_version(&queue, settings, version)))
}

/// Pause a queue: no new leases; running tasks continue.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/pause", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", min_length = 1), NamespaceQuery),
    responses((status = 200, description = "The new settings", body = QueueVersion)))]
pub(crate) async fn pause_queue(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<QueueVersion>> {
    set_paused(&state, &caller, queue, &query, true).await
}

/// Resume a queue.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/resume", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name", min_length = 1), NamespaceQuery),
    responses((status = 200, description = "The new settings", body = QueueVersion)))]
pub(crate) async fn resume_queue(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<QueueVersion>> {
    set_paused(&state, &caller, queue, &query, false).await
}

fn named(caller: &Caller, queue: String, query: &NamespaceQuery) -> ApiResult<(Namespace, QueueName)> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::ManageQueues, &namespace)?;
    Ok((namespace, QueueName::new(queue)?))
}

/// Changes one setting and keeps the others, with optimistic concurrency: read, conditional write, retry on
/// conflict.
async fn set_paused(
    state: &AppState,
    caller: &Caller,
    queue: String,
    query: &NamespaceQuery,
    paused: bool,
) -> ApiResult<Json<QueueVersion>> {
    let (namespace, queue) = named(caller, queue, query)?;
    state.queue_quota.check(state, &namespace, &HashSet::from([&queue])).await?;
    for tried in 1.. {
        let queues = state.store.list_queues(&namespace).await?;
        let found = queues.into_iter().find(|info| info.name == queue);
        let (settings, version) = found.map_or_else(Default::default, |info| (info.settings, info.version));
        let settings = QueueSettings { paused, ..settings };
        let expect = if version.0 == 0 { Expect::Absent } else { Expect::Version(version) };
        match state.store.put_queue(&namespace, &queue, settings, expect).await {
            Ok(version) => {
                let action = if paused { "queue.pause" } else { "queue.resume" };
                state
                    .audit
                    .write(caller, &namespace, AuditRecord::new(action, format!("queue/{queue}")))
                    .await;
                return Ok(Json(queue_version(&queue, settings, version)));
            }
            Err(Error::Conflict { .. }) if tried < TRIES_MAX => {}
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("the last try returns")
}

fn queue_version(queue: &QueueName, settings: QueueSettings, version: Version) -> QueueVersion {
    QueueVersion {
        name: queue.to_string(),
        paused: settings.paused,
        max_running: settings.max_running,
        dispatch: settings.dispatch,
        version: version.0,
    }
}

/// Count tasks by state.
#[utoipa::path(get, path = "/api/v1/counts", tag = "queues", params(CountsQuery),
    responses((status = 200, description = "The counts", body = Counts)))]
pub(crate) async fn get_counts(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<CountsQuery>,
) -> ApiResult<Json<Counts>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let scope = match query.queue {
        Some(queue) => Scope::Queue(namespace, QueueName::new(queue)?),
        None => Scope::Namespace(namespace),
    };
    Ok(Json((&state.timed("counts", state.store.counts(scope)).await?).into()))
}
