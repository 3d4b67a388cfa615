//! `Outcome::Committed`: the handler says that it ended the task in a transaction of its own. The record has
//! the last word: ended under this lease is done; still running means that the transaction was rolled back,
//! and the attempt failed.

use crate::lease::Lease;
use crate::lifecycle::{Refused, Transition, fail};
use crate::outcome::Retry;
use crate::task::{TaskRecord, TaskState};

/// What is said of a handler that promised more than it kept.
const NOT_COMMITTED: &str = "its handler said that it had committed the end of the task, but the task still runs: the \
                             transaction was rolled back, or `complete_in` was never called";

/// The task still runs under the lease: whatever the handler wrote is gone.
pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    fail::decide(record, NOT_COMMITTED, Retry::ByPolicy)
}

/// Whether the task was ended well under this lease. The version is the fence: nothing but that end makes the
/// next one of it a success.
pub fn was_committed(record: &TaskRecord, lease: &Lease) -> bool {
    record.key == lease.key && record.state == TaskState::Succeeded && record.version == lease.version.next()
}
