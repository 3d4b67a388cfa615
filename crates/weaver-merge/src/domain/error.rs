//! Errors of the merge queue, by the seed's names.

use weaver_core::name::Namespace;

use super::{Conflict, EntryId, Oid, QueueId};

/// Why a command on a queue was refused, or a step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The change is already in the queue.
    #[error("`{pull_request}` is already in the queue at position {position}; cancel it to enqueue it again")]
    AlreadyInQueue {
        /// Id of the change.
        pull_request: String,
        /// Position in the queue, from 1.
        position: usize,
    },
    /// The head of the change is not the one that was named.
    #[error("`{pull_request}` is at {actual}, not at {expected}; review that commit and enqueue it")]
    HeadMismatch {
        /// Id of the change.
        pull_request: String,
        /// The head that was named.
        expected: Oid,
        /// The current head.
        actual: Oid,
    },
    /// The change is not open.
    #[error("`{0}` is closed or its branch does not exist; reopen it, or push the branch")]
    PullRequestClosed(String),
    /// The change is a draft.
    #[error("`{0}` is a draft; mark it ready for review first")]
    PullRequestDraft(String),
    /// The change cannot be merged.
    #[error(
        "`{pull_request}` conflicts with its base{}; merge the base into it, or rebase it, and push",
        .conflict.describe()
    )]
    PullRequestConflicted {
        /// Id of the change.
        pull_request: String,
        /// What is known about it.
        conflict: Conflict,
    },
    /// The text is an expression or something else that is not the exact name of a branch.
    #[error("`{name}` is not the exact name of a branch: {problem}; name the branch itself")]
    InvalidBranchName {
        /// As it was given.
        name: String,
        /// Which rule it breaks.
        problem: String,
    },
    /// The change targets another branch, or the branch does not exist.
    #[error("`{base_branch}` is not a valid base branch: {problem}")]
    InvalidBaseBranch {
        /// Name of the branch.
        base_branch: String,
        /// What is wrong, for people.
        problem: String,
    },
    /// The entry is not in the queue.
    #[error("no entry {0} in this queue: it landed, was removed, or never existed")]
    EntryNotFound(EntryId),
    /// The stored position of an entry differs from its place in the list.
    #[error("the entry at position {expected} is stored with position {actual}")]
    InvalidPosition {
        /// Place in the list, from 0.
        expected: usize,
        /// The position that is stored.
        actual: usize,
    },
    /// A change is in the queue twice.
    #[error("`{0}` is in the queue twice")]
    DuplicatePr(String),
    /// An entry that is not the head of the queue is being processed.
    #[error("entry {0} is being processed but is not at the head of the queue")]
    MultipleProcessing(EntryId),
    /// The head conflicts with the base.
    #[error("entry {entry} conflicts with the base in {}", .paths.join(", "))]
    Conflicted {
        /// Number of the entry.
        entry: EntryId,
        /// Conflicting files, at most 50.
        paths: Vec<String>,
    },
    /// Checks failed on the candidate and pass on the base.
    #[error("entry {entry} failed its checks: {}", .checks.join(", "))]
    ChecksFailed {
        /// Number of the entry.
        entry: EntryId,
        /// Names of the failed checks.
        checks: Vec<String>,
    },
    /// A candidate could not be built for now; the entry stays.
    #[error("the candidate of entry {entry} could not be built: {reason}; it will be retried")]
    PrUpdateFailed {
        /// Number of the entry.
        entry: EntryId,
        /// The last error, for people.
        reason: String,
    },
    /// The base could not be moved for now; the entry stays.
    #[error("entry {entry} could not be landed: {reason}; it will be retried")]
    MergeFailed {
        /// Number of the entry.
        entry: EntryId,
        /// The last error, for people.
        reason: String,
    },
    /// The stored queue breaks an invariant. The queue pauses; nothing is removed.
    #[error("the queue is corrupted: {0}; it is paused until an operator repairs and resumes it")]
    QueueCorrupted(String),
    /// The repository or branch does not exist. The queue pauses; nothing is removed.
    #[error("repository or base branch not found: {0}; restore it and resume the queue")]
    RepositoryNotFound(String),
    /// The entry passed its checks and can no longer be removed.
    #[error("entry {0} passed its checks and is landing; it can no longer be removed")]
    Landing(EntryId),
    /// The commit is not a change of the base that could be accepted.
    #[error("{commit} cannot be accepted: {problem}")]
    NothingToAccept {
        /// The commit that was named.
        commit: String,
        /// The reason and what to do.
        problem: String,
    },
    /// The queue has the maximum number of entries.
    #[error("the queue is full: {0} entries is the limit")]
    QueueFull(usize),
    /// The queue has entries, and is not to be removed with them.
    #[error("the queue has {0} open entries; wait until they have landed, or cancel them with the removal")]
    OpenEntries(usize),
    /// The queue is being removed, or was.
    #[error("merge queue `{0}` was removed; add its repository again with `weaver merge add-repo`")]
    QueueRemoved(QueueId),
    /// The id belongs to a queue of another repository or namespace, which may have been removed. Says no
    /// more: the caller may not be allowed to see that queue.
    #[error("the name of merge queue `{0}` is taken; add the repository with another `--name`")]
    NameTaken(QueueId),
    /// The branch of this repository has a queue.
    #[error("`{base_branch}` of this repository already has a merge queue{}", described(.queue.as_ref()))]
    RepositoryTaken {
        /// Name of the branch.
        base_branch: String,
        /// None if it is in another namespace: the caller may not be allowed to see it.
        queue: Option<QueueId>,
    },
    /// The namespace is one of Weaver's own.
    #[error("namespace `{0}` is reserved; choose one that does not begin with `weaver.`")]
    ReservedNamespace(Namespace),
}

fn described(queue: Option<&QueueId>) -> String {
    queue.map_or_else(|| " in another namespace".to_owned(), |queue| format!(", `{queue}`"))
}
