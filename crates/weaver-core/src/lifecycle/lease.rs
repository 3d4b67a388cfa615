//! Queued, Scheduled, RetryScheduled → Running: a worker pulls a due task; assign and start in one write.

use crate::id::Epoch;
use crate::lease::{LEASE_TTL_MAX, LEASE_TTL_MIN};
use crate::lifecycle::{Grant, HolderChange, Refused, Transition, Verb};
use crate::store_clock::StoreNow;
use crate::task::{TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord, grant: Grant, now: StoreNow) -> Result<Transition, Refused> {
    if !record.state.is_waiting() {
        return Err(Refused::NotAllowed { from: record.state, verb: Verb::Lease });
    }
    check_due(record, now)?;
    let mut transition = Transition::new(record, Verb::Lease, TaskState::Running, None);
    transition.holder = HolderChange::Lease {
        worker: grant.worker,
        token: grant.token,
        epoch: Epoch(0),
        ttl: grant.ttl.clamp(LEASE_TTL_MIN, LEASE_TTL_MAX),
    };
    Ok(transition)
}

/// Refuses a start before `ready_at` (G6), and a first start after `expires_at`.
pub(super) fn check_due(record: &TaskRecord, now: StoreNow) -> Result<(), Refused> {
    if !record.is_due(now) {
        return Err(Refused::NotDue { ready_at: record.ready_at });
    }
    match record.spec.expires_at {
        Some(expires_at) if record.is_expired(now.wall) => Err(Refused::Expired { expires_at }),
        _ => Ok(()),
    }
}
