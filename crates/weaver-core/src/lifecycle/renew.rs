//! What touches a running task without moving it: renewals, progress, continuation (they count in `renewals`, never in
//! `version`), and the end of a hold.

use crate::lease::{ContinuationChange, Lease, Renewal, Renewed};
use crate::task::{Continuation, TaskRecord, TaskState};
use crate::time::Timestamp;

/// Extends a lease by its `ttl` if it is still the valid one. A lease whose time has passed but that nobody has taken
/// away yet is still valid.
pub fn renew(record: &mut TaskRecord, renewal: Renewal, now: Timestamp) -> Renewed {
    let lease = &renewal.lease;
    if record.hold().is_some_and(|hold| is_same(&hold, lease)) {
        return Renewed::Cancelled;
    }
    if !record.current_lease().is_some_and(|current| is_same(&current, lease)) {
        // A cancelled task whose hold has already ended still owes its handler the word "cancelled".
        let cancelled_under_it =
            record.state == TaskState::Cancelled && record.version == lease.version.next();
        return if cancelled_under_it { Renewed::Cancelled } else { Renewed::Lost };
    }
    let Some(held) = record.lease.as_mut() else { return Renewed::Lost };
    held.expires_at = now.saturating_add(held.ttl);
    match renewal.continuation {
        Some(ContinuationChange::Confirming { within }) => {
            let check_deadline_at = now.saturating_add(within);
            record.continuation = Continuation::Confirming { check_deadline_at };
        }
        Some(ContinuationChange::Continue) => record.continuation = Continuation::None,
        None => {}
    }
    if let Continuation::Confirming { check_deadline_at } = record.continuation {
        held.expires_at = held.expires_at.max(check_deadline_at);
    }
    if let Some(progress) = renewal.progress {
        record.progress = Some(Box::new(progress));
    }
    record.renewals += 1;
    Renewed::Extended
}

/// Removes the hold of a handler that has stopped. Touches neither state nor version; says whether there was one.
pub fn confirm_stopped(record: &mut TaskRecord, lease: &Lease) -> bool {
    let held = record.hold().is_some_and(|hold| is_same(&hold, lease));
    if held {
        record.lease = None;
    }
    held
}

/// The terms may differ (a holder may be told another `ttl`); the right is the same.
fn is_same(one: &Lease, other: &Lease) -> bool {
    one.key == other.key
        && one.version == other.version
        && one.token == other.token
        && one.epoch == other.epoch
}
