//! What planning is told of the world.

use std::collections::HashMap;

use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use crate::domain::{CheckName, EntryId, ForeignMove, Oid, OnForeign, PullRequestState, RunEnd};

/// What was seen before planning. It may be old by the time it is used: every effect checks for itself.
#[derive(Debug, Clone)]
pub struct Observations {
    /// The base branch.
    pub base: BaseSeen,
    /// The changes. One that is missing could not be asked about and stays.
    pub pull_requests: HashMap<EntryId, PullRequestSeen>,
    /// Whether the base has the candidate of the head entry, by ancestry; asked when that entry is ready.
    pub base_has_candidate: bool,
    /// What others did to the base since the last link of the chain; asked unless the base has the candidate.
    pub foreign: Option<ForeignMove>,
    /// What to do about it.
    pub on_foreign: OnForeign,
    /// The tasks of runs that have not ended and of those that are stopping.
    pub runs: HashMap<TaskId, RunSeen>,
    /// Whether the queue may process an entry now (`max_active_queues`).
    pub is_active: bool,
    /// How many more checks it may start now.
    pub slots: usize,
}

/// The base branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseSeen {
    /// Its tip, and the checks its configuration asks for.
    Tip {
        /// The tip.
        oid: Oid,
        /// The checks, or what is wrong with the configuration.
        checks: Result<CheckSet, String>,
    },
    /// There is no such branch or repository.
    Gone(String),
    /// It could not be asked now.
    Unreachable(String),
}

/// The checks a configuration asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckSet {
    /// The same for the same checks with the same commands.
    pub id: String,
    /// Their names, at least one.
    pub names: Vec<CheckName>,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullRequestSeen {
    /// As it is.
    Is(PullRequestState),
    /// Its branch is gone.
    BranchDeleted,
}

/// The task of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunSeen {
    /// It waits or runs.
    UnderWay {
        /// When something was last heard of it.
        last_sign_at: Timestamp,
    },
    /// It is over, and nothing of it runs.
    Over(RunEnd),
    /// It was cancelled, and may still run for a moment.
    Stopping,
}

impl RunSeen {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Over(_))
    }
}
