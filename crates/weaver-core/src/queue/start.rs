//! The start protocol: a worker starts the tasks that a leader assigned to it.
//!
//! ```text
//! tasks of the worker ─▶ decide(Start) ─▶ commit ─▶ a lease for each start that was applied
//! ```
//!
//! Seed 004, 2.3: the write is conditional on state, worker and version. A start that is not applied answers
//! no lease, so that no handler and no process is started for it. An assignment is valid whatever term wrote
//! it, so the commit carries no epoch.

use crate::error::Result;
use crate::id::{LeaseToken, TaskKey};
use crate::lease::{LeaseRequest, Leased};
use crate::lifecycle::{Command, Grant, Transition, decide};
use crate::ports::{Order, Scope, Selector, TaskQuery, Tasks};
use crate::queue::{Committed, Queue};
use crate::task::{TaskRecord, TaskState};

/// Starts tasks that are assigned to the worker of a request, at most `max` of them, in the order of G7.
/// `queues`, `types` and `slots` do not matter: a leader has chosen. Repeated with the same token it answers
/// what the first call started and is still running.
pub async fn start_assigned<S: Queue + Tasks + ?Sized>(
    store: &S,
    request: &LeaseRequest,
) -> Result<Vec<Leased>> {
    request.validate()?;
    let mut query = TaskQuery::new(request.namespace.clone());
    query = query.select(Selector::Worker(request.worker.clone()));
    query.order = Order::OldestFirst;
    query.limit = crate::limits::PAGE_MAX;
    let held = store.list_tasks(query).await?.items;
    let started_before = leased_with(&held, request.token);
    let mut assigned: Vec<_> =
        held.into_iter().filter(|record| record.state == TaskState::Assigned).collect();
    if !started_before.is_empty() || assigned.is_empty() {
        return Ok(started_before);
    }
    assigned.sort_by_key(|record| (record.spec.priority, record.ready_at, record.key.id));
    assigned.truncate(request.max as usize);
    let transitions = decide_starts(store, request, &assigned).await?;
    start(store, request.token, transitions).await
}

/// The tasks that an earlier call with this token started.
fn leased_with(held: &[TaskRecord], token: LeaseToken) -> Vec<Leased> {
    let leased = |record: &TaskRecord| {
        let lease = record.current_lease().filter(|lease| lease.token == token)?;
        Some(Leased { lease, record: record.clone() })
    };
    held.iter().filter_map(leased).collect()
}

async fn decide_starts<S: Tasks + ?Sized>(
    store: &S,
    request: &LeaseRequest,
    assigned: &[TaskRecord],
) -> Result<Vec<Transition>> {
    let now = store.counts(Scope::Namespace(request.namespace.clone())).await?.as_of;
    let grant = || Grant { worker: request.worker.clone(), token: request.token, ttl: request.ttl };
    let decided = assigned.iter().filter_map(|record| {
        // It was due when it was assigned, by a clock that may be ahead of the one that was read.
        let now = now.max(record.ready_at);
        decide(record, Command::Start(grant()), now)
            .inspect_err(|refused| tracing::debug!(task = %record.key, %refused, "not started"))
            .ok()
    });
    Ok(decided.collect())
}

/// Commits starts and reads back those that were applied.
async fn start<S: Queue + Tasks + ?Sized>(
    store: &S,
    token: LeaseToken,
    transitions: Vec<Transition>,
) -> Result<Vec<Leased>> {
    if transitions.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<TaskKey> = transitions.iter().map(|transition| transition.key.clone()).collect();
    let committed = store.commit(transitions, None).await?;
    let applied = |(key, committed): (TaskKey, Committed)| match committed {
        Committed::Applied { .. } | Committed::AlreadyApplied => Some(key),
        Committed::Stale | Committed::Blocked(_) => None,
    };
    let started: Vec<TaskKey> = keys.into_iter().zip(committed).filter_map(applied).collect();
    if started.is_empty() {
        return Ok(Vec::new());
    }
    let records: Vec<TaskRecord> = store.get_tasks(&started).await?.into_iter().flatten().collect();
    Ok(leased_with(&records, token))
}
