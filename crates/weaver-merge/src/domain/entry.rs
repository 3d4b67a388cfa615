//! An entry: a change in line, and the candidate made of it.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{Check, EntryId, MergeError, Oid, Status};

/// A change somebody wants landed: a pull request, or a branch of a plain repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// Its identity within the repository: a number on a forge, the branch's name on plain git.
    pub id: String,
    /// The branch it is on.
    pub head_ref: String,
    /// What that branch was when it was enqueued.
    pub head: Oid,
}

/// A change as its forge shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestState {
    /// The change.
    pub pull_request: PullRequest,
    /// The branch it is to land on.
    pub base_branch: String,
    /// Whether it is open.
    pub is_open: bool,
    /// Whether it is a draft.
    pub is_draft: bool,
    /// Whether it is known to conflict.
    pub is_conflicted: bool,
    /// Whether what put it in the queue (a label, a comment) is still there.
    pub has_trigger: bool,
}

impl PullRequestState {
    /// Refuses what cannot be landed (seed 003, 4.1).
    pub fn validate(&self, base_branch: &str) -> Result<(), MergeError> {
        let id = || self.pull_request.id.clone();
        if !self.is_open {
            return Err(MergeError::PullRequestClosed(id()));
        }
        if self.is_draft {
            return Err(MergeError::PullRequestDraft(id()));
        }
        if self.base_branch != base_branch {
            let problem = format!("`{}` is to land on `{}`", id(), self.base_branch);
            return Err(MergeError::InvalidBaseBranch { base_branch: base_branch.to_owned(), problem });
        }
        if self.is_conflicted {
            return Err(MergeError::PullRequestConflicted(id()));
        }
        Ok(())
    }
}

/// A change in line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEntry {
    /// Its identity.
    pub id: EntryId,
    /// The change.
    pub pull_request: PullRequest,
    /// Where it is, counted from 0. Stored although it follows from the order: a list that was tampered with
    /// shows.
    pub position: usize,
    /// From 0, the most urgent, to 9.
    pub priority: u8,
    /// What it is doing.
    pub status: Status,
    /// When it came.
    pub enqueued_at: Timestamp,
    /// When it was first processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// How many candidates there were.
    #[serde(default)]
    pub candidates: u32,
    /// What is being built or tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Candidate>,
    /// The checks of the candidate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// What went wrong for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
}

/// The merge of one exact head onto one exact base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its number among those of the entry. The same base and head may be tried again after a pause, and that
    /// is another candidate: its runs are not those of the first.
    pub number: u32,
    /// The base's tip it is built on: its first parent, and the only value the base may have when it lands.
    pub base: Oid,
    /// The change's head it is built of.
    pub head: Oid,
    /// Which checks it must pass, from the configuration on that base.
    pub checks_id: String,
    /// What came of it; none while it is being built.
    pub merged: Option<Merged>,
}

/// A merge that exists as an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// What is tested.
    pub tree: Oid,
    /// What lands.
    pub commit: Oid,
}

/// An error that should pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// How often in a row.
    pub count: u32,
    /// What it said last.
    pub message: String,
    /// Not tried again before.
    pub retry_at: Timestamp,
}

impl QueueEntry {
    /// Whether the queue is at work on it. The seed adds "and is the first", which would make its invariant
    /// true of any queue; here the invariant says it.
    pub fn is_processing(&self) -> bool {
        self.status.is_processing()
    }

    /// Whether somebody may be moving the base to its candidate right now. Then it can neither be taken out
    /// nor rebuilt: it could land all the same, and again. One that was tried and failed counts too: another
    /// process may still be at it.
    pub fn is_landing(&self) -> bool {
        self.status == Status::Ready
    }

    /// The candidate's objects, once it is built.
    pub fn merged(&self) -> Option<&Merged> {
        self.candidate.as_ref()?.merged.as_ref()
    }
}
