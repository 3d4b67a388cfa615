//! Assigned → Running: only the worker it was assigned to starts it. The attempt was counted when it was
//! assigned; the leader's epoch goes into the lease.

use crate::lease::{LEASE_TTL_MAX, LEASE_TTL_MIN};
use crate::lifecycle::lease::check_due;
use crate::lifecycle::{Grant, HolderChange, Refused, Transition, Verb};
use crate::store_clock::StoreNow;
use crate::task::{TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord, grant: Grant, now: StoreNow) -> Result<Transition, Refused> {
    let given = match &record.assignment {
        Some(given) if record.state == TaskState::Assigned => given,
        _ => return Err(Refused::NotAllowed { from: record.state, verb: Verb::Start }),
    };
    if given.worker != grant.worker {
        return Err(Refused::AssignedElsewhere { worker: given.worker.clone() });
    }
    check_due(record, now)?;
    let mut transition = Transition::new(record, Verb::Start, TaskState::Running, None);
    transition.holder = HolderChange::Lease {
        worker: grant.worker,
        token: grant.token,
        epoch: given.epoch,
        ttl: grant.ttl.clamp(LEASE_TTL_MIN, LEASE_TTL_MAX),
    };
    Ok(transition)
}
