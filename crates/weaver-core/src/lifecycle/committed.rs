//! `Outcome::Committed`: the handler reports that it ended the task in a transaction of its own.
//!
//! The record decides. Ended under this lease: it is done. Still running: the transaction was rolled back,
//! and the attempt has failed.

use crate::lease::Lease;
use crate::lifecycle::{Refused, Transition, fail};
use crate::outcome::Retry;
use crate::task::{TaskRecord, TaskState};

const NOT_COMMITTED: &str = "the handler reported a committed end, but the task is still running: the \
                             transaction was rolled back, or `complete_in` was never called";

/// The task is still running under the lease: the handler's transaction was rolled back.
pub(super) fn decide(record: &TaskRecord) -> Result<Transition, Refused> {
    fail::decide(record, NOT_COMMITTED, Retry::ByPolicy)
}

/// Whether the task succeeded under this lease. The version is the fencing token: only that end makes the
/// next version a success.
pub fn was_committed(record: &TaskRecord, lease: &Lease) -> bool {
    record.key == lease.key && record.state == TaskState::Succeeded && record.version == lease.version.next()
}
