//! Merge queues: adding and removing them.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{MergeQueue, NewMergeQueue, RemoveMergeQuery};
use weaver_core::name::Namespace;
use weaver_merge::domain::{RemoveOptions, Repository};
use weaver_merge::engine::EngineError;
use weaver_merge::forge::ForgeError;

use super::access::{Permitted, permitted};
use super::change::target;
use super::shown;
use crate::api::audit::AuditRecord;
use crate::api::caller::{Caller, Permission};
use crate::api::extract::{Body, Name, Params};
use crate::api::{ApiResult, AppState};
use crate::problem::Problem;

/// Add a merge queue for a base branch of a repository on the server's machine. An existing one is unchanged.
///
/// The checks in its base branch are programs that the server runs: besides the role, the token needs
/// `may_exec`. It must be for the queue's namespace and for the server's `merge.namespace`: which
/// repositories of the machine a namespace may land on is decided for the whole installation.
#[utoipa::path(post, path = "/api/v1/merge/queues", tag = "merge", request_body = NewMergeQueue,
    responses((status = 201, description = "The queue", body = MergeQueue)))]
pub(crate) async fn add_merge_queue(
    State(state): State<AppState>,
    caller: Caller,
    Body(new): Body<NewMergeQueue>,
) -> ApiResult<(StatusCode, Json<MergeQueue>)> {
    let namespace = match new.namespace {
        Some(name) => Namespace::new(name)?,
        None => state.merge.namespace().clone(),
    };
    for namespace in [state.merge.namespace(), &namespace] {
        caller.require(Permission::ManageMerge, namespace)?;
        caller.require(Permission::EnqueueExec, namespace)?;
    }
    let location = Path::new(&new.location);
    if !location.is_absolute() {
        let detail = format!("location `{}` is not an absolute path", new.location);
        let hint = "send the absolute path of the repository on the server's machine";
        return Err(Problem::bad_request("invalid_field", detail, hint).field("location"));
    }
    let base_branch = new.base_branch.as_deref().unwrap_or("main");
    let repository = Repository::at(new.location.clone(), new.name);
    state.merge.examine(&repository, base_branch).await.map_err(unusable)?;
    // History and chain of a removed queue continue: only its own operators may give them to another
    // namespace.
    let may_continue = |old: &Namespace| caller.require(Permission::ManageMerge, old).is_ok();
    let mut queue = state.merge.add_queue_in(&namespace, repository, base_branch, may_continue).await?;
    if let Some(on_foreign) = new.on_foreign {
        state.merge.set_on_foreign(&queue.id, Some(on_foreign)).await?;
        queue = state.merge.get(&queue.id).await?.queue;
    }
    let record = AuditRecord::new("merge.add_queue", target(&queue.id)).detail(new.location);
    state.audit.write(&caller, &namespace, record).await;
    Ok((StatusCode::CREATED, Json(shown(&state, &queue))))
}

/// A problem of the repository does not pass without the operator: 409, not 503.
fn unusable(error: ForgeError) -> Problem {
    match error {
        ForgeError::Unavailable(problem) | ForgeError::Unusable(problem) => {
            let hint = "fix the repository, then retry";
            Problem::new(StatusCode::CONFLICT, "repository_unusable", problem, hint)
        }
        gone => EngineError::from(gone).into(),
    }
}

/// Remove a merge queue. Its history and signed chain stay readable, and continue if it is added again.
///
/// Open entries refuse the removal, or are cancelled with `cancel_entries`; their checks are stopped. An
/// entry that passed its checks and is landing always refuses it. Repeating the request is harmless.
#[utoipa::path(delete, path = "/api/v1/merge/queues/{queue}", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100), RemoveMergeQuery),
    responses((status = 200, description = "The queue, with its removal", body = MergeQueue)))]
pub(crate) async fn remove_merge_queue(
    State(state): State<AppState>,
    caller: Caller,
    Name(queue): Name,
    Params(query): Params<RemoveMergeQuery>,
) -> ApiResult<Json<MergeQueue>> {
    let Permitted { id, namespace, .. } = permitted(&state, &caller, Permission::ManageMerge, queue).await?;
    let by = Some(caller.name().to_owned());
    let options = RemoveOptions { cancel_entries: query.cancel_entries.unwrap_or(false), by };
    let removed = state.merge.remove_queue(&id, &options).await?;
    let cancelled = removed.removal.as_ref().map_or(0, |removal| removal.entries);
    let record = AuditRecord::new("merge.remove_queue", target(&id));
    let record = record.detail(format!("{cancelled} entries were cancelled"));
    state.audit.write(&caller, &namespace, record).await;
    Ok(Json(shown(&state, &removed)))
}
