//! Quarantine: unreadable records, a task in its stored form, and removing it.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, ETAG, IF_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use sha2::{Digest, Sha256};
use weaver_api::{
    NamespacePageQuery, NamespaceQuery, Page, QuarantinedRecord, RawTask, namespace_or_default,
};
use weaver_core::id::TaskKey;
use weaver_core::name::Namespace;
use weaver_core::ports::Cursor;
use weaver_core::quarantine::{Discarded, Quarantined, RawTask as StoredForm};
use weaver_core::task::TaskRecord;

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::extract::{Name, Params};
use super::task::{find, target};
use super::{ApiResult, AppState};
use crate::problem::{Problem, task_not_found};

/// List unreadable records: tasks, queue settings, worker heartbeats, documents.
///
/// They are left unchanged in the store. The list has what this server came across since it started;
/// `weaver store check` reads every record.
#[utoipa::path(get, path = "/api/v1/quarantine", tag = "tasks", params(NamespacePageQuery),
    responses((status = 200, description = "A page of records, by kind and id", body = Page<QuarantinedRecord>)))]
pub(crate) async fn list_quarantined(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<NamespacePageQuery>,
) -> ApiResult<Json<Page<QuarantinedRecord>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    // Documents of the whole installation (tokens, settings) are in Weaver's own namespace.
    if namespace == Namespace::internal() {
        caller.require_everywhere(Permission::Read)?;
    } else {
        caller.require(Permission::Read, &namespace)?;
    }
    let limit = state.page(query.limit)?;
    let listing = state.store.list_quarantined(Some(&namespace), query.cursor.map(Cursor), limit);
    let page = state.timed("list_quarantined", listing).await?;
    Ok(Json(Page {
        items: page.items.iter().map(QuarantinedRecord::from).collect(),
        next: page.next.map(|Cursor(text)| text),
        complete: page.complete,
    }))
}

/// Read a task in its stored form, whether or not it can be decoded.
///
/// Keep a copy before you remove the task.
#[utoipa::path(get, path = "/api/v1/tasks/{id}/raw", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), NamespaceQuery),
    responses((status = 200, description = "The stored form, with its digest as `ETag`", body = RawTask)))]
pub(crate) async fn raw_task(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<impl IntoResponse> {
    // The stored form may contain a lease token, so it needs the permission to remove tasks.
    let key = find(&state, &caller, Permission::Purge, id, query.namespace.as_deref()).await?;
    let stored = stored_form(&state, &key).await?;
    let (record, finding) = known(&state, &key).await?;
    let raw = RawTask {
        namespace: key.namespace.to_string(),
        id: key.shown_id().to_string(),
        state: state_of(record.as_ref(), finding.as_ref()),
        finished: record.is_some_and(|record| record.state.is_terminal()),
        unreadable: finding.map(|finding| finding.reason.to_string()),
        digest: digest(&stored),
        text: stored.text,
    };
    let headers = [(ETAG, format!("\"{}\"", raw.digest)), (CACHE_CONTROL, "no-store".to_owned())];
    Ok((headers, Json(raw)))
}

/// Remove a task with its logs, whatever its state, readable or not.
///
/// A conditional write: `If-Match` is the `ETag` of `…/raw`, and a task that changed since is not removed.
/// A worker that holds its lease loses it. Its idempotency key stays in use.
#[utoipa::path(delete, path = "/api/v1/tasks/{id}", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), NamespaceQuery,
        ("if-match" = Option<String>, Header, description = "The `ETag` of `…/raw`; without it: 428")),
    responses((status = 204, description = "The task is removed")))]
pub(crate) async fn remove_task(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<NamespaceQuery>,
    headers: HeaderMap,
) -> ApiResult<StatusCode> {
    let key = find(&state, &caller, Permission::Purge, id, query.namespace.as_deref()).await?;
    let stored = stored_form(&state, &key).await?;
    if !wanted(&headers)?.any(|tag| tag == digest(&stored)) {
        return Err(changed(&key));
    }
    // Before it is removed: the audit entry needs its state.
    let (record, finding) = known(&state, &key).await?;
    match state.timed("discard_task", state.store.discard_task(&key, &stored)).await? {
        Discarded::Removed => {}
        Discarded::Changed => return Err(changed(&key)),
        Discarded::Missing => return Err(absent(&key)),
    }
    let readable = if finding.is_some() { "unreadable, " } else { "" };
    let was = state_of(record.as_ref(), finding.as_ref()).unwrap_or_else(|| "unknown".to_owned());
    let detail = format!("{readable}state {was}, sha256 {}", digest(&stored));
    state
        .audit
        .write(&caller, &key.namespace, AuditRecord::new("task.purge", target(&key)).detail(detail))
        .await;
    Ok(StatusCode::NO_CONTENT)
}

async fn stored_form(state: &AppState, key: &TaskKey) -> ApiResult<StoredForm> {
    let found = state.timed("raw_task", state.store.raw_task(key)).await?;
    found.ok_or_else(|| absent(key))
}

/// The task's record, or why it is unreadable.
async fn known(state: &AppState, key: &TaskKey) -> ApiResult<(Option<TaskRecord>, Option<Quarantined>)> {
    let keys = std::slice::from_ref(key);
    let record = state.store.get_tasks(keys).await?.pop().flatten();
    let finding = match &record {
        Some(_) => None,
        None => state.store.find_quarantined(keys).await?.pop().flatten(),
    };
    Ok((record, finding))
}

fn state_of(record: Option<&TaskRecord>, finding: Option<&Quarantined>) -> Option<String> {
    let readable = record.map(|record| record.state.to_string());
    readable.or_else(|| finding.and_then(|finding| finding.state.clone()))
}

fn digest(stored: &StoredForm) -> String {
    Sha256::digest(&stored.text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digests of `If-Match`. `*` is refused: it would remove what the caller has not read.
fn wanted(headers: &HeaderMap) -> ApiResult<impl Iterator<Item = String>> {
    let lines = headers.get_all(IF_MATCH).iter().filter_map(|line| line.to_str().ok());
    let tags: Vec<String> = lines.flat_map(|line| line.split(',')).map(|tag| tag.trim().to_owned()).collect();
    if tags.is_empty() || tags.iter().any(|tag| tag == "*") {
        return Err(Problem::new(
            StatusCode::PRECONDITION_REQUIRED,
            "digest_required",
            "removing a task needs the digest of its stored form in `If-Match`",
            "read `…/raw`, keep a copy, and send its `ETag` as `If-Match`",
        ));
    }
    Ok(tags.into_iter().filter_map(|tag| Some(tag.strip_prefix('"')?.strip_suffix('"')?.to_owned())))
}

fn changed(key: &TaskKey) -> Problem {
    Problem::new(
        StatusCode::PRECONDITION_FAILED,
        "task_changed",
        format!("task {key} changed since it was read; nothing was removed"),
        "read `…/raw` again before you remove the task",
    )
}

fn absent(key: &TaskKey) -> Problem {
    task_not_found(format!("no task `{}` in namespace `{}`", key.shown_id(), key.namespace))
}
