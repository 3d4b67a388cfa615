//! Leasing: the index picks the next task, whose record is read and updated here.

use weaver_core::error::{Invalid, Problem};
use weaver_core::id::TaskId;
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::{self, Command, Grant};
use weaver_core::queue::index::Wanted;

use crate::fault::StoreResult;
use crate::work::Work;

impl Work<'_> {
    /// Leases due tasks to a worker; idempotent by the request's token.
    pub(crate) fn lease(&mut self, request: &LeaseRequest) -> StoreResult<Vec<Leased>> {
        let granted = self.granted_before(request)?;
        if !granted.is_empty() {
            return Ok(granted);
        }
        let mut picks = self.memory.index.begin_picking(request);
        let mut taken = Vec::with_capacity(self.memory.index.pickable(&picks, request.max as usize));
        while taken.len() < request.max as usize
            && let Some(id) = self.memory.index.pick(&mut picks)
        {
            // An unreadable task was removed from the index by the pick: it keeps its serial key, and later
            // tasks run.
            taken.extend(self.take(id, request)?);
        }
        Ok(taken)
    }

    /// Leases that an earlier call with the same token was granted and still holds.
    fn granted_before(&mut self, request: &LeaseRequest) -> StoreResult<Vec<Leased>> {
        let granted = self.memory.index.granted(&request.token).to_vec();
        let mut leased = Vec::new();
        for id in granted {
            let Some(namespace) = self.memory.index.namespace_of(id).cloned() else { continue };
            let Some(record) = self.load(&namespace, id)? else { continue };
            self.memory.records.put(&record);
            let Some(held) = record.lease.as_ref().filter(|held| held.token == request.token) else {
                continue;
            };
            if held.worker != request.worker || namespace != request.namespace {
                return Err(Invalid::new("token", Problem::TokenTaken).into());
            }
            if let Some(lease) = record.current_lease() {
                leased.push(Leased { lease, record });
            }
        }
        Ok(leased)
    }

    /// Leases a task that the index picked.
    fn take(&mut self, id: TaskId, request: &LeaseRequest) -> StoreResult<Option<Leased>> {
        let Some(record) = self.load(&request.namespace, id)? else { return Ok(None) };
        let grant = Grant { worker: request.worker.clone(), token: request.token, ttl: request.ttl };
        let now = self.memory.index.store_now().once_due(&record);
        let Ok(transition) = lifecycle::decide(&record, Command::Lease(grant), now) else {
            return Ok(None);
        };
        let record = self.apply(record, transition)?;
        Ok(record.current_lease().map(|lease| Leased { lease, record }))
    }

    /// Whether a task is due that the waiter could lease.
    pub(crate) fn has_ready(&mut self, wanted: &Wanted) -> bool {
        self.memory.index.has_ready(&wanted.filter())
    }
}
