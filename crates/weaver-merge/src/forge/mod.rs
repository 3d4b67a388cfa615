//! The port to the host of branches and changes.
//!
//! Plain git is the first implementation. A forge with pull requests fits the same calls: there, `land` is a
//! conditional update of a ref, and `changes` a query for pull requests.

pub mod git;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::{Merged, Oid, OnForeign, PullRequestState, Repository};
use crate::plan::PullRequestSeen;

/// Opens repositories by location.
pub trait Forges: Send + Sync {
    /// Does not fail: a missing repository is reported by the calls.
    fn open(&self, repository: &Repository) -> Arc<dyn Forge>;
}

/// One repository.
///
/// # Contract
/// - Objects are named by [`Oid`] only. A ref is resolved once and then passed on as an object.
/// - [`merge`](Forge::merge) moves no ref, and the same request makes the same objects, on every machine.
/// - [`land`](Forge::land) is a compare-and-set of the base from `from` to `to`.
/// - [`ForgeError::Unavailable`] is for transient errors: no entry is ejected because of it.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Checks that a queue for this branch can work.
    ///
    /// # Errors
    /// What is wrong and what to do.
    async fn examine(&self, base_branch: &str) -> Result<(), ForgeError>;

    /// A text that is equal for two locations if and only if they are one repository.
    async fn identity(&self) -> Result<String, ForgeError>;

    /// The tip of a branch; `None` if the branch does not exist.
    async fn tip(&self, branch: &str) -> Result<Option<Oid>, ForgeError>;

    /// Looks a change up by the name a user gives it.
    async fn change(&self, name: &str, base_branch: &str) -> Result<Option<PullRequestState>, ForgeError>;

    /// Current states of changes, in the order of `ids`.
    async fn changes(&self, ids: &[String], base_branch: &str) -> Result<Vec<PullRequestSeen>, ForgeError>;

    /// Removes the trigger (a label) of a change that left the queue. Idempotent.
    async fn clear_trigger(&self, id: &str) -> Result<(), ForgeError>;

    /// A file of a commit; `None` if it does not exist, [`ForgeError::Unusable`] if it is a link or too large.
    async fn read_file(
        &self,
        commit: &Oid,
        path: &str,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, ForgeError>;

    /// Builds a merge candidate. It may be visible to this process only: another one builds it again.
    async fn merge(&self, request: &MergeRequest) -> Result<MergeOutcome, ForgeError>;

    /// Whether `commit` is `tip` or one of its ancestors.
    async fn contains(&self, tip: &Oid, commit: &Oid) -> Result<bool, ForgeError>;

    /// Moves a branch under the rules of its host: on plain git, server-side hooks run.
    async fn land(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Landing, ForgeError>;

    /// Counts the commits between two tips, and names who made them as far as commits and the reflog tell.
    async fn moved(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Moved, ForgeError>;

    /// The oldest commit on the branch's first-parent history that contains `commit`; `None` if the tip does
    /// not contain it.
    async fn introduced_by(&self, tip: &Oid, commit: &Oid) -> Result<Option<Oid>, ForgeError>;

    /// Default of [`OnForeign`] for queues of this forge.
    fn on_foreign(&self) -> OnForeign;

    /// Tree and parents of a commit.
    async fn commit(&self, commit: &Oid) -> Result<CommitSeen, ForgeError>;

    /// Writes the files of a commit into an empty directory, without a reference to the repository. After
    /// [`ForgeError::Unusable`] the directory may have some of them.
    async fn check_out(&self, commit: &Oid, into: &Path) -> Result<(), ForgeError>;

    /// Replaces paths (files or directories) in a directory that [`check_out`](Forge::check_out) wrote by those
    /// of another commit; paths that it lacks are removed. Links of the checkout are not followed.
    async fn restore(&self, commit: &Oid, paths: &[String], into: &Path) -> Result<(), ForgeError>;

    /// A text that is equal for two commits if and only if the paths have the same contents in both.
    async fn contents_id(&self, commit: &Oid, paths: &[String]) -> Result<String, ForgeError>;

    /// For each path the newest commit on the first-parent history of `base` that changed it and that `head`
    /// lacks; newest first, without duplicates.
    async fn last_changes(&self, base: &Oid, head: &Oid, paths: &[String]) -> Result<Vec<Oid>, ForgeError>;

    /// Makes a directory have exactly the files of a commit. It is empty, or was written by an earlier call
    /// and not changed since: only what differs is written. Keeps a file of its own beside the directory.
    async fn update(&self, commit: &Oid, into: &Path) -> Result<(), ForgeError>;
}

/// Input of [`Forge::merge`]: everything the candidate depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRequest {
    /// First parent: tip of the base.
    pub base: Oid,
    /// Second parent: head of the change.
    pub head: Oid,
    /// Message of the merge commit.
    pub message: String,
}

/// Result of a call to [`Forge::merge`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The candidate was built.
    Merged(Merged),
    /// Conflicting files, at most 50.
    Conflict(Vec<String>),
    /// The base contains the head.
    AlreadyMerged,
}

/// Result of a call to [`Forge::land`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a base that had moved was not moved again"]
pub enum Landing {
    /// The branch is at `to`.
    Done,
    /// The branch was not at `from`; it is unchanged.
    BaseMoved,
    /// A hook declined this change, with this output.
    Declined(String),
    /// Refused until an operator acts, for a reason that is not the change's.
    Refused(String),
}

/// Difference between two tips of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moved {
    /// Commits of the new tip that the old one lacks.
    pub commits: u64,
    /// Commits of the old tip that the new one lacks; not 0 if the branch was rewound.
    pub lost: u64,
    /// Distinct identities of commits and of the reflog.
    pub by: Vec<String>,
}

/// Tree and parents of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitSeen {
    /// Object name of the tree.
    pub tree: Oid,
    /// In order; the first is the base for a candidate.
    pub parents: Vec<Oid>,
}

/// Why a call to a repository failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The repository does not exist.
    #[error("repository not found: {0}")]
    NotFound(String),
    /// It cannot be used, however often the call is repeated: a configuration that is a link or too large, a
    /// commit with missing objects or with file names that no file system takes.
    #[error("{0}")]
    Unusable(String),
    /// Transient or unknown: the call can be retried.
    #[error("{0}")]
    Unavailable(String),
}
