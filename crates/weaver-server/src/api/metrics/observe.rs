//! Metrics from the change log: throughput, waits, run times, expired leases.
//!
//! Transitions are counted exactly from the changes. Times need the record: those of tasks that succeeded are
//! sampled, so that the cost does not grow with throughput; all others are read.

use std::time::Duration;

use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::id::TaskKey;
use weaver_core::task::{AttemptOutcome, TaskRecord, TaskState};

use super::super::AppState;
use super::Metrics;

const POLL_EVERY: Duration = Duration::from_millis(250);
/// The most changes of one read.
const BATCH: u32 = 1000;
/// The most records of succeeded tasks read per batch.
const RECORDS_MAX: usize = 256;

/// Reads the change log until the server stops.
pub(crate) async fn observe(state: &AppState) {
    let mut after = None;
    while !state.closing.is_cancelled() {
        match poll(state, &mut after).await {
            Ok(true) => {}
            Ok(false) => pause(state).await,
            Err(error) => {
                tracing::debug!(%error, "reading changes for metrics failed; retrying");
                pause(state).await;
            }
        }
    }
}

async fn pause(state: &AppState) {
    tokio::select! {
        () = state.clock.sleep_until(state.clock.monotonic().saturating_add(POLL_EVERY)) => {}
        () = state.closing.cancelled() => {}
    }
}

/// Reads one batch; whether there may be more.
async fn poll(state: &AppState, after: &mut Option<ChangeCursor>) -> Result<bool, weaver_core::error::Error> {
    let items = match state.store.changes(*after, BATCH).await? {
        Changes::Next { items, next } => {
            *after = Some(next);
            items
        }
        Changes::Resync { next } => {
            *after = Some(next);
            state.metrics.missed();
            return Ok(false);
        }
    };
    let keys = worth_reading(&state.metrics, &items);
    if !keys.is_empty() {
        for record in state.store.get_tasks(&keys).await?.into_iter().flatten() {
            learn(&state.metrics, &record);
        }
    }
    Ok(items.len() == BATCH as usize)
}

fn worth_reading(metrics: &Metrics, items: &[Change]) -> Vec<TaskKey> {
    let mut keys = Vec::new();
    for change in items {
        metrics.changed(change.state);
        let rare = matches!(change.state, TaskState::RetryScheduled | TaskState::Dead);
        let sampled = change.state == TaskState::Succeeded && keys.len() < RECORDS_MAX;
        if rare || sampled {
            keys.push(change.key.clone());
        }
    }
    keys
}

fn learn(metrics: &Metrics, record: &TaskRecord) {
    let Some(last) = record.attempts.last() else { return };
    let queue = (record.key.namespace.as_str(), record.spec.queue.as_str());
    if last.outcome == AttemptOutcome::Lost {
        metrics.lost(queue);
    }
    if let Some(started_at) = last.started_at {
        // A task that waits for its retry has a new `ready_at`: the previous wait is not known any more.
        let wait = record.state.is_terminal().then(|| started_at.since(record.ready_at));
        metrics.ran(queue, wait, last.ended_at.since(started_at));
    }
}
