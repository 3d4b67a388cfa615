//! `weaver.check`: the task that runs a check. Its payload names a check and never a command: what the check
//! is stands in the configuration on the base branch, so whoever may enqueue tasks can run nothing else by
//! it.

mod cache;
mod handler;
mod place;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::retry::RetryPolicy;

pub use handler::{CheckHandler, CheckOptions};

use crate::domain::{CheckName, EntryId, Oid, On, QueueId, RunEnd};

/// The type of these tasks.
pub const CHECK_TASK_TYPE: &str = "weaver.check";
/// The queue they are in.
pub const CHECK_QUEUE: &str = "merge";
/// When a check or a message of the queue that could not be run is tried again: always within a minute,
/// because changes wait for the one and people for the other.
pub const MERGE_RETRY: RetryPolicy = RetryPolicy::Exponential {
    base: Duration::from_secs(10),
    factor: 2,
    cap: Duration::from_secs(60),
    jitter: true,
};

/// What is to be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckPayload {
    /// For which merge queue.
    pub queue: QueueId,
    /// For which entry.
    pub entry: EntryId,
    /// Which check.
    pub check: CheckName,
    /// Whose configuration says what it is: a commit of the base branch.
    pub base: Oid,
    /// What is tested.
    pub commit: Oid,
    /// Whether that is the candidate or the base alone.
    pub on: On,
}

/// What came of it. A check that fails is a task that succeeded: it found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// How it ended.
    #[serde(flatten)]
    pub end: RunEnd,
}
