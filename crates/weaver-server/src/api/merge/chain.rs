//! Merge queues: the chain of their landings, and moves of their bases by others.

use axum::Json;
use axum::extract::State;
use weaver_api::{
    AcceptMerge, MergeChainExport, MergeChainQuery, MergeChainVerified, MergeQueue, MergeVerifyQuery,
    PutMergeOnForeign,
};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_merge::domain::Oid;

use super::change::{done, target};
use super::{convert, named};
use crate::api::audit::Deed;
use crate::api::caller::{Caller, Permission};
use crate::api::extract::{Body, Name, Params};
use crate::api::{Answer, AppState};
use crate::problem::Problem;

/// How many links are answered if the request does not say, and at most.
pub(in crate::api) const LINKS: (u32, u32) = (100, 1000);
/// How many are checked against the repository: each takes several commands of git.
pub(in crate::api) const AUDITED: (u32, u32) = (20, 100);

/// Go on, and accept where others moved the base: it becomes a link of the chain, named as untested.
#[utoipa::path(post, path = "/api/v1/merge/queues/{queue}/accept", tag = "merge", request_body = AcceptMerge,
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The queue now", body = MergeQueue)))]
pub(crate) async fn accept_merge(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Body(accept): Body<AcceptMerge>,
) -> Answer<Json<MergeQueue>> {
    caller.require(Permission::ManageMerge, state.merge.namespace())?;
    let queue = named(queue)?;
    let commit: Oid = accept.commit.parse().map_err(|error: weaver_merge::domain::BadOid| {
        let next = "give the commit's full name, as the queue's pause says it";
        Problem::bad_request("invalid_field", error.to_string(), next).field("commit")
    })?;
    state.merge.accept(&queue, &commit, caller.name()).await?;
    done(&state, &caller, &queue, Deed::new("merge.accept", target(&queue)).detail(accept.commit)).await
}

/// Say what a queue does when others moved its base forward.
#[utoipa::path(put, path = "/api/v1/merge/queues/{queue}/on_foreign", tag = "merge", request_body = PutMergeOnForeign,
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The queue now", body = MergeQueue)))]
pub(crate) async fn set_merge_on_foreign(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Body(put): Body<PutMergeOnForeign>,
) -> Answer<Json<MergeQueue>> {
    caller.require(Permission::ManageMerge, state.merge.namespace())?;
    let queue = named(queue)?;
    let on_foreign = put.on_foreign;
    state.merge.set_on_foreign(&queue, on_foreign).await?;
    let detail = on_foreign.map_or_else(|| "default".to_owned(), |value| format!("{value:?}").to_lowercase());
    done(&state, &caller, &queue, Deed::new("merge.on_foreign", target(&queue)).detail(detail)).await
}

/// The signed links of a queue's chain, the newest first.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/chain", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), MergeChainQuery),
    responses((status = 200, description = "A part of the chain", body = MergeChainExport)))]
pub(crate) async fn get_merge_chain(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<MergeChainQuery>,
) -> Answer<Json<MergeChainExport>> {
    caller.require(Permission::Read, state.merge.namespace())?;
    let limit = limit(query.limit, LINKS)?;
    let queue = named(queue)?;
    let export = state.merge.export(&queue).await?.ok_or_else(|| super::problem::no_chain(&queue))?;
    Ok(Json(convert::chain_part(&export, query.before, limit as usize)))
}

/// Check a queue's chain: signatures and hashes of all of it, and a part of its links against the repository.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/verify", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), MergeVerifyQuery),
    responses((status = 200, description = "What is not as the chain says, and what was not tested", body = MergeChainVerified)))]
pub(crate) async fn verify_merge_chain(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<MergeVerifyQuery>,
) -> Answer<Json<MergeChainVerified>> {
    caller.require(Permission::Read, state.merge.namespace())?;
    let limit = limit(query.limit, AUDITED)?;
    let queue = named(queue)?;
    let from = query.from.unwrap_or(0);
    let to = from.saturating_add(limit.into());
    let last = state.merge.get(&queue).await?.queue.chain.map_or(0, |chain| chain.link.sequence);
    let report = state.merge.verify_all(&queue, from..to).await?;
    Ok(Json(convert::chain_verified(&report, (to <= last).then_some(to))))
}

fn limit(given: Option<u32>, (default, max): (u32, u32)) -> Result<u32, Invalid> {
    let limit = given.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    Err(Invalid::new("limit", FieldProblem::OutOfRange { value: limit.into(), min: 1, max: max.into() }))
}
