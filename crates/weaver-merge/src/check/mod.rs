//! `weaver.check`: the task that runs a check.
//!
//! Its payload names a check and never a command. The command comes from the configuration on the base
//! branch, so permission to enqueue tasks is not permission to run other programs.

mod cache;
mod checkout;
mod handler;
mod removal;
mod trees;
mod workspace;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::retry::RetryPolicy;

pub use handler::{CheckHandler, CheckOptions};

use crate::domain::{CheckName, CheckTarget, EntryId, Oid, QueueId, RunOutcome};

/// Task type of a check.
pub const CHECK_TASK_TYPE: &str = "weaver.check";
/// Queue of checks and of notifications.
pub const CHECK_QUEUE: &str = "merge";
/// Backoff of a check or notification that could not run: always within a minute, because changes wait for
/// the one and people for the other.
pub const MERGE_RETRY: RetryPolicy = RetryPolicy::Exponential {
    base: Duration::from_secs(10),
    factor: 2,
    cap: Duration::from_secs(60),
    jitter: true,
};

/// Payload of a check task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckPayload {
    /// The merge queue the check is for.
    pub queue: QueueId,
    /// The entry whose candidate is tested.
    pub entry: EntryId,
    /// Name of the check in the configuration of `base`.
    pub check: CheckName,
    /// Commit of the base branch whose configuration defines the check.
    pub base: Oid,
    /// Commit to check out and test.
    pub commit: Oid,
    /// Whether `commit` is the merge candidate or the base alone.
    pub on: CheckTarget,
}

/// Result of a check task. A failed check is a task that succeeded: it has an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Stored without a field of its own: `{"end": "passed", …}`.
    #[serde(flatten)]
    pub outcome: RunOutcome,
}
