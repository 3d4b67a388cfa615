//! Merge queues: the signed chain of landings, and pushes to the base by others.

use axum::Json;
use axum::extract::State;
use weaver_api::{
    AcceptMerge, MergeChainExport, MergeChainQuery, MergeChainVerified, MergeQueue, MergeVerifyQuery,
    PutMergeOnForeign,
};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_merge::domain::Oid;

use super::access::{Permitted, permitted};
use super::change::{done, target};
use super::convert;
use crate::api::audit::AuditRecord;
use crate::api::caller::{Caller, Permission};
use crate::api::extract::{Body, Name, Params};
use crate::api::{ApiResult, AppState};
use crate::problem::Problem;

/// Links per response: default and maximum.
pub(in crate::api) const LINKS: (u32, u32) = (100, 1000);
/// Links verified against the repository, default and maximum: each takes several git commands.
pub(in crate::api) const AUDITED: (u32, u32) = (20, 100);

/// Accept a foreign push to the base and resume: it becomes a link of the chain, marked as untested.
#[utoipa::path(post, path = "/api/v1/merge/queues/{queue}/accept", tag = "merge", request_body = AcceptMerge,
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The updated queue", body = MergeQueue)))]
pub(crate) async fn accept_merge(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Body(accept): Body<AcceptMerge>,
) -> ApiResult<Json<MergeQueue>> {
    let Permitted { id: queue, namespace, .. } =
        permitted(&state, &caller, Permission::ManageMerge, queue).await?;
    let commit: Oid = accept.commit.parse().map_err(|error: weaver_merge::domain::BadOid| {
        let hint = "send the commit's full hash, as in the reason of the queue's pause";
        Problem::bad_request("invalid_field", error.to_string(), hint).field("commit")
    })?;
    state.merge.accept(&queue, &commit, caller.name()).await?;
    let record = AuditRecord::new("merge.accept", target(&queue)).detail(accept.commit);
    done(&state, &caller, &queue, &namespace, record).await
}

/// Set what a queue does when others push to its base.
#[utoipa::path(put, path = "/api/v1/merge/queues/{queue}/on_foreign", tag = "merge", request_body = PutMergeOnForeign,
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100)),
    responses((status = 200, description = "The updated queue", body = MergeQueue)))]
pub(crate) async fn set_merge_on_foreign(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Body(put): Body<PutMergeOnForeign>,
) -> ApiResult<Json<MergeQueue>> {
    let Permitted { id: queue, namespace, .. } =
        permitted(&state, &caller, Permission::ManageMerge, queue).await?;
    let on_foreign = put.on_foreign;
    state.merge.set_on_foreign(&queue, on_foreign).await?;
    let detail = on_foreign.map_or_else(|| "default".to_owned(), |value| format!("{value:?}").to_lowercase());
    let record = AuditRecord::new("merge.on_foreign", target(&queue)).detail(detail);
    done(&state, &caller, &queue, &namespace, record).await
}

/// List the signed links of a queue's chain, newest first.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/chain", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), MergeChainQuery),
    responses((status = 200, description = "A page of the chain", body = MergeChainExport)))]
pub(crate) async fn get_merge_chain(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<MergeChainQuery>,
) -> ApiResult<Json<MergeChainExport>> {
    let queue = permitted(&state, &caller, Permission::Read, queue).await?.id;
    let limit = limit(query.limit, LINKS)?;
    let export = state.merge.export(&queue).await?.ok_or_else(|| super::problem::no_chain(&queue))?;
    Ok(Json(convert::chain_part(&export, query.before, limit as usize)))
}

/// Verify a queue's chain: all signatures and hashes, and a page of links against the repository.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/verify", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), MergeVerifyQuery),
    responses((status = 200, description = "Differences from the chain, and untested landings", body = MergeChainVerified)))]
pub(crate) async fn verify_merge_chain(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<MergeVerifyQuery>,
) -> ApiResult<Json<MergeChainVerified>> {
    let Permitted { id: queue, queue: stored, .. } =
        permitted(&state, &caller, Permission::Read, queue).await?;
    let limit = limit(query.limit, AUDITED)?;
    let from = query.from.unwrap_or(0);
    let to = from.saturating_add(limit.into());
    let last = stored.chain.map_or(0, |chain| chain.link.sequence);
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
