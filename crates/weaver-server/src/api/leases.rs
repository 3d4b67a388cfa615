//! Leases that workers send: verified for the caller's subject; foreign ones are refused and audited.

use weaver_core::id::TaskKey;
use weaver_core::lease::Lease;

use super::audit::AuditRecord;
use super::caller::Caller;
use super::task::target;
use super::{ApiResult, AppState};
use crate::security::{ForeignLease, SealingKey};

/// Verifies the leases of one request. Refusals are audited by [`done`](Opener::done).
pub(super) struct Opener<'a> {
    state: &'a AppState,
    caller: &'a Caller,
    key: &'a SealingKey,
    /// The operation, for the audit journal.
    verb: &'static str,
    refused: Option<(TaskKey, usize)>,
}

impl<'a> Opener<'a> {
    pub(super) async fn new(
        state: &'a AppState,
        caller: &'a Caller,
        verb: &'static str,
    ) -> ApiResult<Opener<'a>> {
        Ok(Self { state, caller, key: state.key.get().await?, verb, refused: None })
    }

    /// The lease as the store knows it, if it belongs to the caller's subject.
    pub(super) fn open(&mut self, lease: Lease) -> Result<Lease, ForeignLease> {
        let key = lease.key.clone();
        self.key.open(self.caller.subject(), lease).inspect_err(|_| {
            self.refused.get_or_insert((key, 0)).1 += 1;
        })
    }

    /// Audits refusals: one entry per request, so that a batch of forged leases cannot fill the journal.
    pub(super) async fn done(self) {
        let Some((first, count)) = self.refused else { return };
        let detail = match count {
            1 => format!("{}: the lease belongs to another token", self.verb),
            _ => format!("{}: {count} leases belong to other tokens; this is the first", self.verb),
        };
        tracing::warn!(caller = self.caller.name(), task = %first, count, verb = self.verb, "foreign lease refused");
        let record = AuditRecord::new("lease.refused", target(&first)).detail(detail);
        self.state.audit.write_soon(self.caller, &first.namespace, record).await;
    }
}
