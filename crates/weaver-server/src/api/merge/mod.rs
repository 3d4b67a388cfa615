//! Merge queues: reading them. Permissions are checked in each queue's own namespace.

mod access;
mod chain;
mod change;
mod events;
mod problem;
mod queues;

pub(crate) use chain::*;
pub(crate) use change::*;
pub(super) use events::*;
pub(crate) use queues::*;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use weaver_api::merge_convert as convert;
use weaver_api::{
    MergeCertificates, MergeEntries, MergeEntriesQuery, MergeEntry, MergeQueue, MergeQueues, MergeVerified,
};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_merge::domain::{EntryId, QueueId};

use super::caller::{Caller, Permission};
use super::extract::{Name, Params};
use super::{ApiResult, AppState};
use crate::problem::Problem;
use access::{Permitted, named, permitted, visible};

/// Entry numbers of the history that are read when a request gives no `history`.
const HISTORY_DEFAULT: u32 = 20;
/// Each entry of the history is a document.
pub(super) const HISTORY_MAX: u32 = 1000;

/// List merge queues.
#[utoipa::path(get, path = "/api/v1/merge/queues", tag = "merge",
    responses((status = 200, description = "Every queue that the token may see, by name", body = MergeQueues)))]
pub(crate) async fn list_merge_queues(
    State(state): State<AppState>,
    caller: Caller,
) -> ApiResult<Json<MergeQueues>> {
    let queues = visible(&state, &caller).await?;
    Ok(Json(MergeQueues { items: queues.iter().map(|queue| shown(&state, queue)).collect() }))
}

/// Read a merge queue, with its statistics.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The queue", body = MergeQueue)))]
pub(crate) async fn get_merge_queue(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
) -> ApiResult<Json<MergeQueue>> {
    let permitted = permitted(&state, &caller, Permission::Read, queue).await?;
    Ok(Json(shown(&state, &permitted.queue)))
}

/// List the entries of a merge queue, and its history.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/entries", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), MergeEntriesQuery),
    responses((status = 200, description = "Entries", body = MergeEntries)))]
pub(crate) async fn list_merge_entries(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<MergeEntriesQuery>,
) -> ApiResult<Json<MergeEntries>> {
    let Permitted { id, queue, namespace } = permitted(&state, &caller, Permission::Read, queue).await?;
    let count = history(&query)?;
    let departed = state.merge.history(&id, count).await?;
    Ok(Json(convert::entries(&queue, &namespace, &departed)))
}

/// Read an entry: its merge candidate, its checks, its outcome.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/entries/{entry}", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100),
        ("entry" = u64, Path, description = "The entry's number")),
    responses((status = 200, description = "The entry", body = MergeEntry)))]
pub(crate) async fn get_merge_entry(
    State(state): State<AppState>,
    caller: Caller,
    EntryPath { queue, entry }: EntryPath,
) -> ApiResult<Json<MergeEntry>> {
    let Permitted { id, namespace, .. } = permitted(&state, &caller, Permission::Read, queue.0).await?;
    Ok(Json(convert::entry(&id, &namespace, &state.merge.entry(&id, entry).await?)))
}

/// Verify a landing against the repository: the merge is repeated from its parents and compared.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/entries/{entry}/verify", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100),
        ("entry" = u64, Path, description = "The entry's number")),
    responses((status = 200, description = "The certificate, and differences from it", body = MergeVerified)))]
pub(crate) async fn verify_merge(
    State(state): State<AppState>,
    caller: Caller,
    EntryPath { queue, entry }: EntryPath,
) -> ApiResult<Json<MergeVerified>> {
    let queue = permitted(&state, &caller, Permission::Read, queue.0).await?.id;
    let verified = state.merge.verify(&queue, entry).await?.ok_or_else(|| problem::not_landed(entry))?;
    Ok(Json(convert::verified(&verified)))
}

/// List the certificates of landings.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/certificates", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), MergeEntriesQuery),
    responses((status = 200, description = "Certificates, newest first", body = MergeCertificates)))]
pub(crate) async fn list_merge_certificates(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<MergeEntriesQuery>,
) -> ApiResult<Json<MergeCertificates>> {
    let queue = permitted(&state, &caller, Permission::Read, queue).await?.id;
    let departed = state.merge.history(&queue, history(&query)?).await?;
    Ok(Json(convert::certificates(&departed)))
}

fn shown(state: &AppState, queue: &weaver_merge::domain::MergeQueue) -> MergeQueue {
    convert::queue(queue, &state.merge)
}

fn history(query: &MergeEntriesQuery) -> Result<u64, Invalid> {
    let count = query.history.unwrap_or(HISTORY_DEFAULT);
    if count <= HISTORY_MAX {
        return Ok(count.into());
    }
    let problem = FieldProblem::OutOfRange { value: count.into(), min: 0, max: HISTORY_MAX.into() };
    Err(Invalid::new("history", problem))
}

/// The path parameters `{queue}` and `{entry}`.
pub(crate) struct EntryPath {
    queue: QueueId,
    entry: EntryId,
}

impl EntryPath {
    /// For callers other than routes.
    pub(crate) fn new(queue: String, entry: u64) -> Result<Self, Problem> {
        Ok(Self { queue: named(queue)?, entry: EntryId(entry) })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for EntryPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<(String, u64)>::from_request_parts(parts, state).await;
        let Path((queue, entry)) = path.map_err(|rejection| {
            let hint = "entries are numbers; percent-encode UTF-8 in paths";
            Problem::bad_request("invalid_path", rejection.body_text(), hint)
        })?;
        Self::new(queue, entry)
    }
}
