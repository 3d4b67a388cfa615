//! Merge queues: looking at them. They are in the namespace the engine works in; rights are asked for there.

mod chain;
mod change;
mod events;
mod problem;

pub(crate) use chain::*;
pub(crate) use change::*;
pub(super) use events::*;

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
use super::{Answer, AppState};
use crate::problem::Problem;

/// How many numbers are looked at for entries that left, if nobody says.
const DEPARTED_DEFAULT: u32 = 20;
/// And at most: each is a document.
pub(super) const DEPARTED_MAX: u32 = 1000;

/// The merge queues there are.
#[utoipa::path(get, path = "/api/v1/merge/queues", tag = "merge",
    responses((status = 200, description = "Every queue, by name", body = MergeQueues)))]
pub(crate) async fn list_merge_queues(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<MergeQueues>> {
    caller.require(Permission::Read, state.merge.namespace())?;
    let queues = state.merge.queues().await?;
    Ok(Json(MergeQueues { items: queues.iter().map(|queue| shown(&state, queue)).collect() }))
}

/// One merge queue, with what happened in it in numbers.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The queue", body = MergeQueue)))]
pub(crate) async fn get_merge_queue(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
) -> Answer<Json<MergeQueue>> {
    caller.require(Permission::Read, state.merge.namespace())?;
    Ok(Json(shown(&state, &state.merge.get(&named(queue)?).await?.queue)))
}

/// Who is in line, and who left.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/entries", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), MergeEntriesQuery),
    responses((status = 200, description = "Entries", body = MergeEntries)))]
pub(crate) async fn list_merge_entries(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<MergeEntriesQuery>,
) -> Answer<Json<MergeEntries>> {
    caller.require(Permission::Read, state.merge.namespace())?;
    let count = departed(&query)?;
    let queue = named(queue)?;
    let stored = state.merge.get(&queue).await?.queue;
    let departed = state.merge.departed(&queue, count).await?;
    Ok(Json(convert::entries(&stored, &departed)))
}

/// One entry: its candidate, its checks, why it left, what landed.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/entries/{entry}", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100),
        ("entry" = u64, Path, description = "The entry's number")),
    responses((status = 200, description = "The entry", body = MergeEntry)))]
pub(crate) async fn get_merge_entry(
    State(state): State<AppState>,
    caller: Caller,
    EntryPath { queue, entry }: EntryPath,
) -> Answer<Json<MergeEntry>> {
    caller.require(Permission::Read, state.merge.namespace())?;
    Ok(Json(convert::entry(&queue, &state.merge.entry(&queue, entry).await?)))
}

/// Check what landed against the repository: the merge is made again from its parents and compared.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/entries/{entry}/verify", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100),
        ("entry" = u64, Path, description = "The entry's number")),
    responses((status = 200, description = "The certificate, and what differs from it", body = MergeVerified)))]
pub(crate) async fn verify_merge(
    State(state): State<AppState>,
    caller: Caller,
    EntryPath { queue, entry }: EntryPath,
) -> Answer<Json<MergeVerified>> {
    caller.require(Permission::Read, state.merge.namespace())?;
    let verified = state.merge.verify(&queue, entry).await?.ok_or_else(|| problem::not_landed(entry))?;
    Ok(Json(convert::verified(&verified)))
}

/// What landed, and what says that it was tested.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/certificates", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), MergeEntriesQuery),
    responses((status = 200, description = "Certificates, the newest first", body = MergeCertificates)))]
pub(crate) async fn list_merge_certificates(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<MergeEntriesQuery>,
) -> Answer<Json<MergeCertificates>> {
    caller.require(Permission::Read, state.merge.namespace())?;
    let departed = state.merge.departed(&named(queue)?, departed(&query)?).await?;
    let certificates = departed.iter().filter_map(|detail| detail.certificate.as_ref());
    Ok(Json(MergeCertificates { items: certificates.map(convert::certificate).collect() }))
}

/// A queue as it is shown.
fn shown(state: &AppState, queue: &weaver_merge::domain::MergeQueue) -> MergeQueue {
    convert::queue(queue, state.merge.on_foreign(queue))
}

/// The queue that a path names. What cannot be a key is nobody's name.
fn named(queue: String) -> Result<QueueId, Problem> {
    let is_name = !queue.is_empty() && queue.len() <= 255 && !queue.chars().any(char::is_control);
    let id = QueueId(queue);
    if is_name { Ok(id) } else { Err(weaver_merge::engine::EngineError::NoQueue(id).into()) }
}

fn departed(query: &MergeEntriesQuery) -> Result<u64, Invalid> {
    let count = query.departed.unwrap_or(DEPARTED_DEFAULT);
    if count <= DEPARTED_MAX {
        return Ok(count.into());
    }
    let problem = FieldProblem::OutOfRange { value: count.into(), min: 0, max: DEPARTED_MAX.into() };
    Err(Invalid::new("departed", problem))
}

/// A queue and one of its entries, as a path names them.
pub(crate) struct EntryPath {
    queue: QueueId,
    entry: EntryId,
}

impl EntryPath {
    /// The same from elsewhere than a path.
    pub(crate) fn new(queue: String, entry: u64) -> Result<Self, Problem> {
        Ok(Self { queue: named(queue)?, entry: EntryId(entry) })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for EntryPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<(String, u64)>::from_request_parts(parts, state).await;
        let Path((queue, entry)) = path.map_err(|rejection| {
            let next = "entries are numbers; percent-encode UTF-8 in paths";
            Problem::bad_request("invalid_path", rejection.body_text(), next)
        })?;
        Self::new(queue, entry)
    }
}
