//! Changes of a running task that are no transition: renewals, progress and continuation, which grow
//! `renewals` and never `version`; and the end of a cancellation hold.

use crate::lease::{ContinuationChange, LEASE_TTL_MAX, Lease, Renewal, Renewed};
use crate::task::{Continuation, TaskRecord, TaskState};
use crate::time::Timestamp;

/// Extends a lease by its `ttl` if it is still the valid one. A lease past its end stays valid until its
/// expiry is committed: a late renewal keeps the task.
pub fn renew(record: &mut TaskRecord, renewal: Renewal, now: Timestamp) -> Renewed {
    let lease = &renewal.lease;
    if record.key != lease.key {
        return Renewed::Lost;
    }
    if is_cancelled(record, lease) {
        return Renewed::Cancelled;
    }
    let held = match record.lease.as_mut() {
        Some(held) if record.state == TaskState::Running && record.version == lease.version => held,
        _ => return Renewed::Lost,
    };
    if held.token != lease.token || held.epoch != lease.epoch {
        return Renewed::Lost;
    }
    held.expires_at = now.saturating_add(held.ttl);
    match renewal.continuation {
        Some(ContinuationChange::Confirming { within }) => {
            // Bounded like a lease, so that no task stays stranded longer (G3).
            let check_deadline_at = now.saturating_add(within.min(LEASE_TTL_MAX));
            record.continuation = Continuation::Confirming { check_deadline_at };
        }
        Some(ContinuationChange::Continue) => record.continuation = Continuation::None,
        None => {}
    }
    if let Continuation::Confirming { check_deadline_at } = record.continuation {
        held.expires_at = held.expires_at.max(check_deadline_at);
    }
    if let Some(progress) = renewal.progress {
        record.progress = Some(Box::new(progress.bounded()));
    }
    record.renewals += 1;
    Renewed::Extended
}

/// Whether the task was cancelled while it ran under this lease. Also after the cancellation hold has ended:
/// the worker gets `Cancelled`, not `Lost`.
pub fn is_cancelled(record: &TaskRecord, lease: &Lease) -> bool {
    record.key == lease.key
        && record.state == TaskState::Cancelled
        && record.version == lease.version.next()
        && record.lease.as_ref().is_none_or(|held| held.token == lease.token)
}

/// Removes the cancellation hold of a handler that has stopped. Changes neither state nor version; returns
/// whether there was one.
pub fn confirm_stopped(record: &mut TaskRecord, lease: &Lease) -> bool {
    let held = record.hold().is_some_and(|hold| {
        hold.key == lease.key && hold.version == lease.version && hold.token == lease.token
    });
    if held {
        record.lease = None;
    }
    held
}
