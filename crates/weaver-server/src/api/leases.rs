//! Leases as callers show them: opened for their subject, and refused with an entry in the audit journal.

use weaver_core::id::TaskKey;
use weaver_core::lease::Lease;

use super::audit::Deed;
use super::caller::Caller;
use super::{Answer, AppState};
use crate::security::{ForeignLease, SealingKey};

/// The leases of one request. What it refuses is in the audit journal when [`done`](Opener::done) returns.
pub(super) struct Opener<'a> {
    state: &'a AppState,
    caller: &'a Caller,
    key: &'a SealingKey,
    /// What the caller wants to do with them, for the journal.
    verb: &'static str,
    refused: Option<(TaskKey, usize)>,
}

impl<'a> Opener<'a> {
    pub(super) async fn new(
        state: &'a AppState,
        caller: &'a Caller,
        verb: &'static str,
    ) -> Answer<Opener<'a>> {
        Ok(Self { state, caller, key: state.key.get().await?, verb, refused: None })
    }

    /// The lease as the store knows it, if it is the caller's.
    pub(super) fn open(&mut self, lease: Lease) -> Result<Lease, ForeignLease> {
        let key = lease.key.clone();
        self.key.open(self.caller.subject(), lease).inspect_err(|_| {
            self.refused.get_or_insert((key, 0)).1 += 1;
        })
    }

    /// Writes down what was refused: one entry per request, so that a batch of forgeries cannot fill the
    /// journal.
    pub(super) async fn done(self) {
        let Some((first, count)) = self.refused else { return };
        let detail = match count {
            1 => format!("{}: the lease is not this token's", self.verb),
            _ => format!("{}: {count} leases are not this token's; this is the first", self.verb),
        };
        tracing::warn!(caller = self.caller.name(), task = %first, count, verb = self.verb, "foreign lease refused");
        let deed = Deed::new("lease.refused", format!("task/{}", first.id)).detail(detail);
        self.state.audit.write_soon(self.caller, &first.namespace, deed).await;
    }
}
