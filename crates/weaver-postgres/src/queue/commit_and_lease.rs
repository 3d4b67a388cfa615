//! Ends and the next lease in one statement: one round trip and one commit instead of two of each.

use std::collections::HashSet;

use sqlx::Row;
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::lease::LeaseRequest;
use weaver_core::lifecycle::Transition;
use weaver_core::queue::{Committed, CommittedAndLeased};

use crate::PostgresStore;
use crate::error::StoreFault;
use crate::queue::Claimed;
use crate::queue::commit::End;

impl PostgresStore {
    /// `None`: the ends need more than one statement, so the caller commits them and leases afterwards.
    /// Nothing has been written then.
    pub(super) async fn end_and_claim(
        &self,
        transitions: &[Transition],
        request: &LeaseRequest,
    ) -> Result<Option<CommittedAndLeased>> {
        let Some(succeeded) = self.is_one_statement(transitions) else { return Ok(None) };
        let members: Vec<&Transition> = transitions.iter().collect();
        let call = || async {
            let query = self.bind_ends(self.sql.finish_and_claim.query(), &members, succeeded);
            Ok(self.bind_claim(query, request).fetch_all(&self.connections).await?)
        };
        let rows = match self.retry_transient(call).await {
            // One of the ends is locked or cannot be written: told apart by the calls for ends alone.
            Err(fault) if fault.is_lock_timeout() || fault.is_about_data() => return Ok(None),
            rows => rows?,
        };
        let Some(first) = rows.first() else {
            return Err(StoreFault::unreadable("ends without an answer").into());
        };
        let ids: HashSet<i64> = self.ended(&members, first)?.into_iter().collect();
        let applied: HashSet<&TaskKey> = transitions
            .iter()
            .filter(|transition| ids.contains(&(transition.key.id.0 as i64)))
            .map(|transition| &transition.key)
            .collect();
        if !applied.is_empty() {
            self.hints.moved();
        }
        let committed: Vec<Committed> = self.answers(transitions, &applied).await?;
        // Without leases there is one row, whose run is NULL.
        let has_runs = first.try_get::<Option<i64>, _>("id").map_err(StoreFault::from)?.is_some();
        let leased = match has_runs {
            true => self.granted(request, &rows).await,
            false => Ok(Claimed { leased: Vec::new(), released: false }),
        };
        Ok(Some(CommittedAndLeased {
            committed,
            leased: leased.map(|claimed| claimed.leased).map_err(Into::into),
        }))
    }

    /// Whether all are ends of one kind and namespace, each of another task; and whether they succeeded.
    fn is_one_statement(&self, transitions: &[Transition]) -> Option<bool> {
        let first = transitions.first()?;
        let kind = End::of(first).filter(|kind| *kind != End::Retry)?;
        let mut keys = HashSet::with_capacity(transitions.len());
        let is_alike = |transition: &Transition| {
            End::of(transition) == Some(kind) && transition.key.namespace == first.key.namespace
        };
        let is_one = self.quarantine.is_empty()
            && transitions.iter().all(|transition| is_alike(transition) && keys.insert(transition.key.id));
        is_one.then_some(kind == End::Success)
    }
}
