//! Ends of executions: the worker reports, the server decides.

use axum::Json;
use axum::extract::State;
use weaver_client::wire::{FinishRequest, FinishResponse, FinishResult, FinishStatus};
use weaver_core::id::TaskKey;
use weaver_core::lease::Lease;
use weaver_core::lifecycle::{Command, Refused, Transition, decide, was_committed};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, TaskRecord, TaskState};

use super::caller::{Caller, Permission};
use super::extract::Body;
use super::leases::Opener;
use super::{Answer, AppState};

/// Report how executions ended.
///
/// Repeating a report is harmless: it is `recorded` again.
#[utoipa::path(post, path = "/api/v1/work/finish", tag = "work", request_body = FinishRequest,
    responses((status = 200, description = "What became of each", body = FinishResponse)))]
pub(crate) async fn finish(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<FinishRequest>,
) -> Answer<Json<FinishResponse>> {
    state.check_batch("ends", request.ends.len())?;
    let mut ends = Vec::with_capacity(request.ends.len());
    for (index, end) in request.ends.into_iter().enumerate() {
        let end = end.into_core().map_err(|invalid| invalid.at(index))?;
        caller.require(Permission::Work, &end.0.key.namespace)?;
        ends.push(end);
    }
    let mut opener = Opener::new(&state, &caller, "finish").await?;
    let ends: Vec<Option<(Lease, Outcome)>> =
        ends.into_iter().map(|(lease, outcome)| Some((opener.open(lease).ok()?, outcome))).collect();
    opener.done().await;
    Ok(Json(FinishResponse { results: record(&state, ends).await? }))
}

/// Decides and commits. An end whose lease is not the caller's (`None`) is lost, whatever the record says: who cannot show
/// the lease learns nothing of what became of it.
async fn record(state: &AppState, ends: Vec<Option<(Lease, Outcome)>>) -> Answer<Vec<FinishResult>> {
    let keys: Vec<TaskKey> = ends.iter().flatten().map(|(lease, _)| lease.key.clone()).collect();
    let mut records = state.timed("get_tasks", state.store.get_tasks(&keys)).await?.into_iter();
    let mut results = Vec::with_capacity(ends.len());
    let mut transitions = Vec::with_capacity(ends.len());
    let committed = |end: &(Lease, Outcome)| (end.1 == Outcome::Committed).then(|| end.0.clone());
    let committed_by_handlers: Vec<_> = ends.iter().map(|end| end.as_ref().and_then(committed)).collect();
    for end in ends {
        let Some((lease, outcome)) = end else {
            results.push(Some(lost()));
            continue;
        };
        match records
            .next()
            .flatten()
            .map_or(Decided::Answer(lost()), |record| decide_end(&record, lease, outcome))
        {
            Decided::Answer(result) => results.push(Some(result)),
            Decided::Commit(transition) => {
                transitions.push(*transition);
                results.push(None);
            }
        }
    }
    let ways: Vec<_> = transitions.iter().map(|transition| (transition.to, transition.ready_after)).collect();
    let committed = state.timed("commit", state.store.commit(transitions, None)).await?;
    let mut committed = ways.into_iter().zip(committed);
    let results = results.into_iter().map(|result| {
        result.unwrap_or_else(|| match committed.next() {
            Some(((to, after), Committed::Applied { .. } | Committed::AlreadyApplied)) => recorded(to, after),
            _ => lost(),
        })
    });
    let mut results: Vec<FinishResult> = results.collect();
    read_back(state, &committed_by_handlers, &mut results).await?;
    Ok(results)
}

/// Looks again at tasks that a handler ended in a transaction of its own: a commit whose answer was lost may have come
/// through only after the first look.
async fn read_back(state: &AppState, leases: &[Option<Lease>], results: &mut [FinishResult]) -> Answer<()> {
    let lost = results.iter_mut().zip(leases).filter(|(result, _)| result.status == FinishStatus::Lost);
    let open: Vec<_> = lost.filter_map(|(result, lease)| Some((result, lease.as_ref()?))).collect();
    if open.is_empty() {
        return Ok(());
    }
    let keys: Vec<TaskKey> = open.iter().map(|(_, lease)| lease.key.clone()).collect();
    let records = state.timed("get_tasks", state.store.get_tasks(&keys)).await?;
    for ((result, lease), record) in open.into_iter().zip(records) {
        if record.is_some_and(|record| was_committed(&record, lease)) {
            *result = recorded(TaskState::Succeeded, None);
        }
    }
    Ok(())
}

enum Decided {
    Commit(Box<Transition>),
    Answer(FinishResult),
}

fn decide_end(record: &TaskRecord, lease: Lease, outcome: Outcome) -> Decided {
    if outcome == Outcome::Committed && was_committed(record, &lease) {
        return Decided::Answer(recorded(TaskState::Succeeded, None));
    }
    if was_reported(record, &lease, &outcome) {
        let moved_on = record.version != lease.version.next();
        let state = if moved_on { TaskState::RetryScheduled } else { record.state };
        let waits = !moved_on && record.state == TaskState::RetryScheduled;
        return Decided::Answer(recorded(state, waits.then(|| record.ready_at.since(record.updated_at))));
    }
    // The state machine compares token, version and epoch. The name is ours to compare: a lease is its caller's.
    if record.lease.as_ref().is_some_and(|held| held.worker != lease.worker) {
        return Decided::Answer(lost());
    }
    match decide(record, Command::Finish { lease, outcome }, record.updated_at) {
        Ok(transition) => Decided::Commit(Box::new(transition)),
        Err(Refused::ResultTooLarge { bytes, max_bytes }) => Decided::Answer(FinishResult {
            bytes: Some(bytes as u64),
            max_bytes: Some(max_bytes as u64),
            ..result(FinishStatus::ResultTooLarge)
        }),
        Err(_) => Decided::Answer(lost()),
    }
}

/// Whether this very end was recorded before, and only its answer got lost.
fn was_reported(record: &TaskRecord, lease: &Lease, outcome: &Outcome) -> bool {
    let ended = match outcome {
        Outcome::Succeeded { .. } => AttemptOutcome::Succeeded,
        // Reported before, and found not to be so.
        Outcome::Failed { .. } | Outcome::Committed => AttemptOutcome::Failed,
        Outcome::TimedOut => AttemptOutcome::TimedOut,
        Outcome::Snoozed { .. } => AttemptOutcome::Snoozed,
        Outcome::Cancelled { .. } => AttemptOutcome::Cancelled,
        Outcome::Released => AttemptOutcome::Released,
    };
    // A user's cancellation ends the attempt in the same word, but is not what the handler reported.
    let by_somebody_else =
        matches!(record.cause, Some(Cause::Cancelled(reason)) if reason != CancelReason::Handler);
    let same = record.attempts.iter().any(|attempt| {
        attempt.fence == lease.version && attempt.worker == lease.worker && attempt.outcome == ended
    });
    same && !(by_somebody_else && ended == AttemptOutcome::Cancelled)
}

fn result(status: FinishStatus) -> FinishResult {
    FinishResult { status, state: None, due_after_ms: None, bytes: None, max_bytes: None }
}

fn lost() -> FinishResult {
    result(FinishStatus::Lost)
}

fn recorded(state: TaskState, due_after: Option<std::time::Duration>) -> FinishResult {
    let due_after_ms = due_after.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    FinishResult { state: Some(state), due_after_ms, ..result(FinishStatus::Recorded) }
}
