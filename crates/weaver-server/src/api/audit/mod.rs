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

pub(crate) use denials::{Denials, audit_denials, denied};
pub(crate) use journal::Audit;

use super::caller::{Caller, Permission};
use super::extract::Params;
use super::{ApiResult, AppState};

#[derive(Serialize, Deserialize)]
struct Line {
    who: String,
    action: String,
    target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
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
    StreamKey::new(namespace.clone(), "audit")
}

fn shown(entry: &Entry) -> AuditEntry {
    let unreadable = |_| Line {
        who: "unknown".to_owned(),
        action: "unreadable".to_owned(),
        target: String::from_utf8_lossy(&entry.body).into_owned(),
        detail: None,
    };
    let Line { who, action, target, detail } = serde_json::from_slice(&entry.body).unwrap_or_else(unreadable);
    AuditEntry { seq: entry.seq.0, at: entry.at, actor: who, action, target, detail }
}
