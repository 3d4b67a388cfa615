//! Ends of attempts: the worker reports the outcome, the server decides the transition.

use axum::Json;
use axum::extract::State;
use weaver_api::{FinishRequest, FinishResponse, FinishResult, FinishStatus};
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::lease::Lease;
use weaver_core::lifecycle::{Ended, Transition};
use weaver_core::outcome::Outcome;
use weaver_core::queue::finish::{EndReport, EndStore};
use weaver_core::queue::{self, Committed};
use weaver_core::task::TaskRecord;

use super::caller::{Caller, Permission};
use super::extract::Body;
use super::leases::Opener;
use super::{ApiResult, AppState};

/// Report the outcomes of attempts.
///
/// Idempotent: a repeated report is answered with `recorded` again.
#[utoipa::path(post, path = "/api/v1/work/finish", tag = "work", request_body = FinishRequest,
    responses((status = 200, description = "A result per report, in order", body = FinishResponse)))]
pub(crate) async fn finish(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<FinishRequest>,
) -> ApiResult<Json<FinishResponse>> {
    state.check_batch("ends", request.ends.len())?;
    let mut ends = Vec::with_capacity(request.ends.len());
    for (index, end) in request.ends.into_iter().enumerate() {
        let end = end.into_core().map_err(|invalid| invalid.at(index))?;
        caller.require(Permission::Work, &end.0.key.namespace)?;
        ends.push(end);
    }
    let mut opener = Opener::new(&state, &caller, "finish").await?;
    // Fencing: a report under another caller's lease is lost, whatever the record says, and reveals nothing
    // about the task's state.
    let mut results = vec![result_of(Ended::Lost); ends.len()];
    let (mut places, mut reports) = (Vec::new(), Vec::new());
    for (index, (lease, outcome)) in ends.into_iter().enumerate() {
        if let Ok(lease) = opener.open(lease) {
            places.push(index);
            reports.push(Report { lease, outcome });
        }
    }
    opener.done().await;
    for (index, ended) in places.into_iter().zip(queue::finish::finish(&TimedStore(&state), &reports).await?)
    {
        results[index] = result_of(ended);
    }
    Ok(Json(FinishResponse { results }))
}

/// An end that a remote worker reports. The server reads the record itself: it does not trust the worker's
/// copy.
struct Report {
    lease: Lease,
    outcome: Outcome,
}

impl EndReport for Report {
    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    fn leased_record(&self) -> Option<&TaskRecord> {
        None
    }
}

struct TimedStore<'a>(&'a AppState);

impl EndStore for TimedStore<'_> {
    async fn read_records(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        self.0.timed("get_tasks", self.0.store.get_tasks(keys)).await
    }

    async fn commit_ends(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>> {
        self.0.timed("commit", self.0.store.commit(transitions, None)).await
    }
}

fn result_of(ended: Ended) -> FinishResult {
    let empty = FinishResult {
        status: FinishStatus::Lost,
        state: None,
        due_after_ms: None,
        bytes: None,
        max_bytes: None,
    };
    match ended {
        Ended::Recorded { state, due_after } => FinishResult {
            status: FinishStatus::Recorded,
            state: Some(state),
            due_after_ms: due_after.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
            ..empty
        },
        Ended::Lost => empty,
        Ended::ResultTooLarge { bytes, max_bytes } => FinishResult {
            status: FinishStatus::ResultTooLarge,
            bytes: Some(bytes as u64),
            max_bytes: Some(max_bytes as u64),
            ..empty
        },
    }
}
