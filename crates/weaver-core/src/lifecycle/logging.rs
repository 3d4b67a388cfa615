//! Which lease allows writing an attempt's log.

use std::time::Duration;

use crate::lease::Lease;
use crate::task::TaskRecord;
use crate::time::Timestamp;

/// How long after its end an attempt's log can still be written under the lease it ran under: a handler's
/// last lines arrive after its end was recorded.
pub const LOG_AFTER_END: Duration = Duration::from_secs(60);

/// Whether a lease allows writing the log of its attempt: it is the valid one (or the cancellation hold), or
/// its attempt ended within [`LOG_AFTER_END`].
///
/// The caller has checked that the lease was granted: of an attempt that has ended, a record keeps the
/// fencing token (its version), not the lease token.
pub fn may_log(record: &TaskRecord, lease: &Lease, now: Timestamp) -> bool {
    if record.key != lease.key {
        return false;
    }
    let held = record.current_lease().or_else(|| record.hold());
    if held.is_some_and(|held| held.version == lease.version && held.token == lease.token) {
        return true;
    }
    record.attempts.iter().any(|ended| {
        ended.fence == lease.version
            && ended.attempt == lease.attempt
            && ended.worker == lease.worker
            && now.since(ended.ended_at) <= LOG_AFTER_END
    })
}
