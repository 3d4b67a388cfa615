//! What can go wrong, by the seed's names.

use super::EntryId;

/// Why something was not done to a queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The change is in the queue.
    #[error("`{pull_request}` is in the queue at position {position}: wait for it, or cancel it first")]
    AlreadyInQueue {
        /// Which change.
        pull_request: String,
        /// Where, counted from 1.
        position: usize,
    },
    /// The change is not open.
    #[error("`{0}` is closed or its branch is gone: open it again, or push the branch")]
    PullRequestClosed(String),
    /// The change is a draft.
    #[error("`{0}` is a draft: mark it ready for review first")]
    PullRequestDraft(String),
    /// The change cannot be merged.
    #[error("`{0}` conflicts with its base: merge the base into it, or rebase it, and push")]
    PullRequestConflicted(String),
    /// The change is for another branch, or there is none of this name.
    #[error("`{base_branch}` is no base branch here: {problem}")]
    InvalidBaseBranch {
        /// The branch.
        base_branch: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no such entry.
    #[error("no entry {0} in this queue: it has landed, was removed, or never was")]
    EntryNotFound(EntryId),
    /// An entry says it is somewhere else than it is.
    #[error("the entry at position {expected} says it is at {actual}")]
    InvalidPosition {
        /// Where it is, counted from 0.
        expected: usize,
        /// What it says.
        actual: usize,
    },
    /// A change is in the queue twice.
    #[error("`{0}` is in the queue twice")]
    DuplicatePr(String),
    /// More than one entry, or one that is not the first, is processed.
    #[error("entry {0} is processed although it is not at the head of the queue")]
    MultipleProcessing(EntryId),
    /// The merge conflicts.
    #[error("entry {entry} conflicts with the base in {}", .paths.join(", "))]
    Conflicted {
        /// Which entry.
        entry: EntryId,
        /// Where.
        paths: Vec<String>,
    },
    /// Checks failed on the candidate and pass on the base.
    #[error("entry {entry} failed {}", .checks.join(", "))]
    ChecksFailed {
        /// Which entry.
        entry: EntryId,
        /// Which checks.
        checks: Vec<String>,
    },
    /// A candidate could not be built for now; the entry stays.
    #[error("the candidate of entry {entry} could not be built: {reason}; it is tried again")]
    PrUpdateFailed {
        /// Which entry.
        entry: EntryId,
        /// What happened.
        reason: String,
    },
    /// The base could not be moved for now; the entry stays.
    #[error("entry {entry} could not be landed: {reason}; it is tried again")]
    MergeFailed {
        /// Which entry.
        entry: EntryId,
        /// What happened.
        reason: String,
    },
    /// What is stored cannot be right. The queue pauses; nothing is removed.
    #[error("the queue is corrupted: {0}; it is paused, look at it and resume it")]
    QueueCorrupted(String),
    /// The repository cannot be found. The queue pauses; nothing is removed.
    #[error("the repository or its base branch is gone: {0}; bring it back and resume the queue")]
    RepositoryNotFound(String),
    /// The change is landing at this moment.
    #[error("entry {0} has passed and is landing: it cannot be taken out before the base moves")]
    Landing(EntryId),
    /// There is no such move of the base to accept.
    #[error("{commit} cannot be accepted: {problem}")]
    NothingToAccept {
        /// Which commit.
        commit: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// The queue is as long as it may be.
    #[error("the queue is full: it has {0} entries, the most it may have")]
    QueueFull(usize),
}
