//! Denied requests (403) in the audit journal, sampled per caller.

use std::collections::HashMap;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::Mutex;
use weaver_core::name::Namespace;
use weaver_core::time::Monotonic;

use super::AuditRecord;
use crate::api::{AppState, Caller};
use crate::security::{FAILURES_WINDOW, Identity};

/// The most callers counted at a time; with more, all counts are reset.
const CALLERS_MAX: usize = 4_096;

/// Denials per caller, so that a caller that retries in a loop does not fill the journal.
#[derive(Default)]
pub(crate) struct Denials(Mutex<HashMap<String, (Monotonic, u32)>>);

impl Denials {
    /// The caller's count of this minute if it is to be written: the 1st, 2nd, 4th, 8th, …
    fn sample(&self, caller: &str, now: Monotonic) -> Option<u32> {
        let mut counts = self.0.lock();
        if counts.len() >= CALLERS_MAX && !counts.contains_key(caller) {
            counts.clear();
        }
        let count = counts.entry(caller.to_owned()).or_insert((now, 0));
        if now >= count.0.saturating_add(FAILURES_WINDOW) {
            *count = (now, 0);
        }
        count.1 = count.1.saturating_add(1);
        Some(count.1).filter(|count| count.is_power_of_two())
    }
}

/// The layer around authenticated routes: responses with 403 are audited.
pub(crate) async fn audit_denials(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let identity = request.extensions().get::<Identity>().cloned();
    let asked = format!("{} {}", request.method(), request.uri().path());
    let response = next.run(request).await;
    if let (StatusCode::FORBIDDEN, Some(identity)) = (response.status(), identity) {
        denied(&state, identity, asked).await;
    }
    response
}

pub(crate) async fn denied(state: &AppState, identity: Identity, asked: String) {
    let caller = Caller::of(identity, None);
    if let Some(count) = state.denials.sample(caller.name(), state.clock.monotonic()) {
        let record = AuditRecord::new("denied", asked).detail(format!("denial {count} within a minute"));
        state.audit.write_soon(&caller, &Namespace::internal(), record).await;
    }
}
