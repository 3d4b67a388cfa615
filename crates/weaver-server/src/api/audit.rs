//! The audit journal: who changed what, and when. One stream per namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weaver_client::wire::{AuditEntry, AuditPage, AuditQuery, namespace_or_default};
use weaver_core::clock::Clock;
use weaver_core::name::Namespace;
use weaver_core::ports::{Entry, ReadFrom, Seq, Store, StreamKey, TrimBefore};

use super::caller::{Caller, Permission};
use super::extract::Params;
use super::{Answer, AppState};

/// Old entries are looked for once per so many new ones.
const TRIM_EVERY: u64 = 1024;

pub(crate) struct Audit {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    kept: Duration,
    written: AtomicU64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    who: String,
    action: String,
    target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// What somebody did.
pub(crate) struct Deed {
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) detail: Option<String>,
}

impl Deed {
    pub(crate) fn new(action: &'static str, target: impl Into<String>) -> Self {
        Self { action, target: target.into(), detail: None }
    }

    pub(crate) fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

impl Audit {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, kept: Duration) -> Self {
        Self { store, clock, kept, written: AtomicU64::new(0) }
    }

    fn stream(namespace: &Namespace) -> StreamKey {
        StreamKey::new(namespace.clone(), "audit")
    }

    /// Writes down what was done. The deed is done: if the journal cannot be written, the server's log has to do, and
    /// the caller is told the truth about the deed.
    pub(crate) async fn write(&self, caller: &Caller, namespace: &Namespace, deed: Deed) {
        let Deed { action, target, detail } = deed;
        let line = Line { who: caller.name().to_owned(), action: action.to_owned(), target, detail };
        let stream = Self::stream(namespace);
        let appended = match serde_json::to_vec(&line) {
            Ok(body) => self.store.append_entries(&stream, &[Bytes::from(body)]).await.map(drop),
            Err(error) => return tracing::error!(%error, action, "an audit entry cannot be written"),
        };
        if let Err(error) = appended {
            tracing::error!(%error, who = line.who, action, target = line.target, "not in the audit journal");
            return;
        }
        if self.written.fetch_add(1, Ordering::Relaxed) % TRIM_EVERY == TRIM_EVERY - 1 {
            let before = TrimBefore::Time(self.clock.now().saturating_sub(self.kept));
            if let Err(error) = self.store.trim_entries(&stream, before).await {
                tracing::warn!(%error, %namespace, "old audit entries stay for now");
            }
        }
    }
}

/// Who changed what, and when.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "Part of the journal, oldest first", body = AuditPage)))]
pub(crate) async fn list_audit(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<AuditQuery>,
) -> Answer<Json<AuditPage>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::ReadAudit, &namespace)?;
    let limit = state.page(query.limit)?;
    let from = query.after.map_or(ReadFrom::Last(limit), |seq| ReadFrom::After(Seq(seq)));
    let page = state.store.read_entries(&Audit::stream(&namespace), from, limit).await?;
    let next = page.entries.last().map_or(query.after.unwrap_or(0), |entry| entry.seq.0);
    Ok(Json(AuditPage { entries: page.entries.iter().map(shown).collect(), next, more: page.more }))
}

fn shown(entry: &Entry) -> AuditEntry {
    let unreadable = |_| Line {
        who: "unknown".to_owned(),
        action: "unreadable".to_owned(),
        target: String::from_utf8_lossy(&entry.body).into_owned(),
        detail: None,
    };
    let Line { who, action, target, detail } = serde_json::from_slice(&entry.body).unwrap_or_else(unreadable);
    AuditEntry { seq: entry.seq.0, at: entry.at, who, action, target, detail }
}
