//! Structured log events with the seed's names, in a span that carries the producer's trace.

use std::time::Duration;

use weaver_core::lease::Leased;
use weaver_core::outcome::Outcome;
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

use crate::ctx::Ctx;
use crate::source::End;

/// The span of one attempt.
pub(super) fn span(ctx: &Ctx) -> tracing::Span {
    let record = ctx.record();
    let traceparent = record.spec.origin().trace.as_ref().map(|trace| trace.traceparent.as_str());
    let span = tracing::info_span!(
        "task",
        task_id = %record.key.shown_id(),
        namespace = %record.key.namespace,
        task_type = %record.spec.envelope.task_type,
        attempt = ctx.attempt(),
        traceparent,
    );
    span.in_scope(|| tracing::info!(task_id = %record.key.shown_id(), attempt = ctx.attempt(), "Started"));
    span
}

/// An outcome that the store has recorded.
pub(super) fn ended(end: &End, state: TaskState, due_after: Option<Duration>, now: Timestamp) {
    let (task_id, attempt) = (end.leased.record.key.shown_id(), end.leased.lease.attempt);
    let err = match &end.outcome {
        Outcome::Failed { error, .. } => Some(error.as_ref()),
        Outcome::TimedOut => Some("timed out"),
        Outcome::Committed if state != TaskState::Succeeded => {
            Some("the handler's transaction was not committed")
        }
        _ => None,
    };
    match (state, err) {
        (TaskState::Succeeded, _) => tracing::info!(%task_id, attempt, "Succeeded"),
        (_, Some(err)) => tracing::warn!(%task_id, attempt, err, "Failed"),
        (_, None) => tracing::debug!(%task_id, attempt, %state, "ended"),
    }
    match state {
        TaskState::RetryScheduled => {
            let backoff = due_after.unwrap_or_default();
            tracing::info!(%task_id, next_run_at = %now.saturating_add(backoff), ?backoff, "RetryScheduled");
        }
        TaskState::Dead => {
            tracing::error!(%task_id, last_error = err.unwrap_or_default(), attempts = attempt, "Dead");
        }
        _ => {}
    }
}

/// The store refused the outcome: the lease was lost.
pub(super) fn lost(leased: &Leased) {
    let (task_id, attempt) = (leased.record.key.shown_id(), leased.lease.attempt);
    tracing::warn!(%task_id, attempt, "lease lost; the outcome was discarded");
}
