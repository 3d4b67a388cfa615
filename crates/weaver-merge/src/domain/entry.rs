//! An entry of a merge queue, and its merge candidate.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{Check, Conflict, EntryId, MergeError, Oid, Status};

/// A change to land: a pull request, or a branch of a plain repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// Unique in the repository: a number on a forge, the branch's name on plain git.
    pub id: String,
    /// Name of its branch, without `refs/heads/`.
    pub head_ref: String,
    /// The pinned head: tip of that branch when it was enqueued. No other commit lands for the entry, unless
    /// the configuration says `on_push = "retest"`: then it follows the branch.
    pub head: Oid,
}

/// A change as the forge reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestState {
    /// With its current head.
    pub pull_request: PullRequest,
    /// The branch it targets.
    pub base_branch: String,
    /// Neither closed nor merged.
    pub is_open: bool,
    /// Drafts cannot be enqueued.
    pub is_draft: bool,
    /// Set if it is known to conflict with its base.
    pub conflict: Option<Conflict>,
    /// Whether the trigger (a label, a comment) is still there.
    pub has_trigger: bool,
}

impl PullRequestState {
    /// Refuses a change that cannot land (seed 003, 4.1).
    pub fn validate(&self, base_branch: &str) -> Result<(), MergeError> {
        let id = || self.pull_request.id.clone();
        if !self.is_open {
            return Err(MergeError::PullRequestClosed(id()));
        }
        if self.is_draft {
            return Err(MergeError::PullRequestDraft(id()));
        }
        if self.base_branch != base_branch {
            let problem = format!("`{}` targets `{}`", id(), self.base_branch);
            return Err(MergeError::InvalidBaseBranch { base_branch: base_branch.to_owned(), problem });
        }
        if let Some(conflict) = &self.conflict {
            return Err(MergeError::PullRequestConflicted { pull_request: id(), conflict: conflict.clone() });
        }
        Ok(())
    }
}

/// A change in a merge queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEntry {
    /// Unique in the queue, never reused.
    pub id: EntryId,
    /// The change to land.
    pub pull_request: PullRequest,
    /// From 0. Redundant with the order of the list, so that tampering with the list is detected.
    pub position: usize,
    /// From 0, the most urgent, to 9; 5 by default.
    pub priority: u8,
    /// Only the head of the queue may be processed.
    pub status: Status,
    /// By the clock of the node that enqueued it.
    pub enqueued_at: Timestamp,
    /// The authenticated subject or local user; none in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_by: Option<String>,
    /// When its first candidate was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it landed or was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Candidates so far; the number of the newest one.
    #[serde(default)]
    pub candidates: u32,
    /// The candidate being built or tested; none while pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Candidate>,
    /// Checks of that candidate; empty until it is built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// The last transient error, cleared by the next success.
    #[serde(default, rename = "trouble", skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// The merge of one exact head onto one exact base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// From 1 within the entry. The same base and head may be tried again after a pause: that is another
    /// candidate with runs of its own.
    pub number: u32,
    /// First parent, and the only value from which the base may move to it (compare-and-set).
    pub base: Oid,
    /// Second parent: the head of the change.
    pub head: Oid,
    /// Id of the check set in the configuration of `base`.
    pub checks_id: String,
    /// None while it is being built.
    pub merged: Option<Merged>,
}

/// The git objects of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// The tree that is tested.
    pub tree: Oid,
    /// The merge commit that lands.
    pub commit: Oid,
}

/// A transient error, retried with backoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Consecutive failures, from 1.
    pub count: u32,
    /// The last error, for people.
    pub message: String,
    /// Earliest time of the next try.
    pub retry_at: Timestamp,
}

impl QueueEntry {
    /// Whether it is being built, checked or landed. The seed adds "and is the first", which would make its
    /// invariant trivially true; here the invariant says it.
    pub fn is_processing(&self) -> bool {
        self.status.is_processing()
    }

    /// Whether a process may be moving the base to its candidate right now. Then it can neither be removed
    /// nor rebuilt: it could land anyway, and twice. A failed try counts too: another process may still be
    /// landing it.
    pub fn is_landing(&self) -> bool {
        self.status == Status::Ready
    }

    /// The candidate's objects, once it is built.
    pub fn merged(&self) -> Option<&Merged> {
        self.candidate.as_ref()?.merged.as_ref()
    }
}
