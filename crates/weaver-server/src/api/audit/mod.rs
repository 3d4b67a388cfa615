//! The audit journal: actor, action, target and time of every change. One stream per namespace, and one for
//! the whole server.

mod denials;
mod journal;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use weaver_api::{AuditEntry, AuditPage, AuditQuery, namespace_or_default};
use weaver_core::name::Namespace;
use weaver_core::ports::{Entry, ReadFrom, Seq, StreamKey};
use weaver_core::queue::EnqueueAudit;

pub(crate) use denials::{Denials, audit_denials, denied};
pub(crate) use journal::Audit;

use super::caller::{Caller, Permission};
use super::extract::Params;
use super::{ApiResult, AppState};

/// The action of an enqueue.
pub(super) const ENQUEUE: &str = "task.enqueue";

#[derive(Serialize, Deserialize)]
struct Line {
    who: String,
    action: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Instead of target and detail, in an entry that the store wrote with new tasks: their number, and the
    /// lowest and the highest of their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tasks: Option<[u64; 3]>,
}

/// What the store writes into the journal with the tasks of an enqueue.
pub(crate) fn enqueue_audit(caller: &Caller) -> EnqueueAudit {
    let line = serde_json::json!({ "who": caller.name(), "action": ENQUEUE }).to_string();
    // The object is closed after the numbers.
    let open = line.strip_suffix('}').unwrap_or(&line);
    EnqueueAudit { before: format!("{open},\"tasks\":["), after: "]}".to_owned() }
}

/// Target and detail of an entry about so many new tasks.
pub(super) fn enqueued(count: u64, first: &str, last: &str) -> (String, Option<String>) {
    (format!("task/{first}"), (count > 1).then(|| format!("{count} tasks, the last is {last}")))
}

/// An audit entry before its actor and time are known; [`AuditEntry`] is its wire form.
pub(crate) struct AuditRecord {
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) detail: Option<String>,
}

impl AuditRecord {
    pub(crate) fn new(action: &'static str, target: impl Into<String>) -> Self {
        Self { action, target: target.into(), detail: None }
    }

    pub(crate) fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

/// List audit entries.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "A page of entries, oldest first", body = AuditPage)))]
pub(crate) async fn list_audit(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<AuditQuery>,
) -> ApiResult<Json<AuditPage>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    if namespace == Namespace::internal() {
        caller.require_everywhere(Permission::ReadAudit)?;
    } else {
        caller.require(Permission::ReadAudit, &namespace)?;
    }
    let limit = state.page(query.limit)?;
    let from = query.after.map_or(ReadFrom::Last(limit), |seq| ReadFrom::After(Seq(seq)));
    // So that the caller reads its own writes on this server.
    state.audit.flush().await;
    let page = state.store.read_entries(&stream(&namespace), from, limit).await?;
    let next = page.entries.last().map_or(query.after.unwrap_or(0), |entry| entry.seq.0);
    Ok(Json(AuditPage { entries: page.entries.iter().map(shown).collect(), next, more: page.more }))
}

fn stream(namespace: &Namespace) -> StreamKey {
    StreamKey::audit(namespace.clone())
}

fn shown(entry: &Entry) -> AuditEntry {
    let unreadable = |_| Line {
        who: "unknown".to_owned(),
        action: "unreadable".to_owned(),
        target: String::from_utf8_lossy(&entry.body).into_owned(),
        detail: None,
        tasks: None,
    };
    let line = serde_json::from_slice(&entry.body).unwrap_or_else(unreadable);
    let Line { who, action, mut target, mut detail, tasks } = line;
    if let Some([count, first, last]) = tasks {
        (target, detail) = enqueued(count, &first.to_string(), &last.to_string());
    }
    AuditEntry { seq: entry.seq.0, at: entry.at, actor: who, action, target, detail }
}
