//! Observations: the input of planning besides the stored queue.

use std::collections::HashMap;

use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use crate::domain::{CheckName, EntryId, ForeignMove, Oid, OnForeign, OnPush, PullRequestState, RunOutcome};

/// State of repository, tasks and limits before planning. It may be stale by the time it is used: every
/// effect is conditional.
#[derive(Debug, Clone)]
pub struct Observations {
    /// Tip and configuration of the base branch.
    pub base: BaseSeen,
    /// Changes by entry. One that is missing could not be queried and stays as it is.
    pub pull_requests: HashMap<EntryId, PullRequestSeen>,
    /// Whether the base contains the candidate of the head entry; queried when that entry is ready.
    pub base_has_candidate: bool,
    /// Change of the base since the last link of the chain; not queried if the base contains the candidate.
    pub foreign: Option<ForeignMove>,
    /// The effective setting of the queue.
    pub on_foreign: OnForeign,
    /// Tasks of active and of stopping runs.
    pub runs: HashMap<TaskId, RunSeen>,
    /// Whether the queue may process an entry now (`max_active_queues`).
    pub is_active: bool,
    /// Checks it may start now (`check_budget`).
    pub slots: usize,
}

/// Observation of the base branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseSeen {
    /// The branch exists; its current state.
    Tip {
        /// Tip of the branch.
        oid: Oid,
        /// Checks of its configuration, or what is wrong with that.
        checks: Result<CheckSet, String>,
    },
    /// The branch or repository does not exist.
    Missing(String),
    /// It could not be queried; transient.
    Unreachable(String),
}

/// The checks of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckSet {
    /// Hash of names, commands and limits.
    pub id: String,
    /// At least one, in the order of the file.
    pub names: Vec<CheckName>,
    /// What a push to an enqueued branch does. Not part of `id`: it decides nothing about a tree.
    pub on_push: OnPush,
}

/// Observation of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullRequestSeen {
    /// The branch exists; its current state.
    Present(PullRequestState),
    /// The branch does not exist.
    BranchDeleted,
}

/// Observation of the task of a check run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunSeen {
    /// The task waits or runs.
    Active {
        /// Last transition or lease renewal.
        last_seen_at: Timestamp,
    },
    /// Ended, and none of its processes run.
    Ended(RunOutcome),
    /// Cancelled; its worker has not confirmed that it stopped.
    Stopping,
}

impl RunSeen {
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self, Self::Ended(_))
    }
}
