//! The port to where branches and changes live. Plain git is the first behind it; a forge with pull requests
//! fits the same calls (`land` is a conditional update of a ref there, `changes` a query for pull requests).

pub mod git;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::{Merged, Oid, OnForeign, PullRequestState, Repository};
use crate::plan::PullRequestSeen;

/// Repositories by where they are.
pub trait Forges: Send + Sync {
    /// The repository, which need not be there.
    fn open(&self, repository: &Repository) -> Arc<dyn Forge>;
}

/// One repository.
///
/// # Contract
/// - Objects are named by [`Oid`] only. Whatever a ref means is asked once and then passed on as an object.
/// - [`merge`](Forge::merge) moves no ref, and the same request makes the same objects, on every machine.
/// - [`land`](Forge::land) moves the base from `from` to `to` in one step, or leaves it.
/// - [`ForgeError::Unavailable`] is for what may pass: nobody is removed because of it.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Looks whether a queue for this branch can work.
    ///
    /// # Errors
    /// With what is wrong and what to do.
    async fn examine(&self, base_branch: &str) -> Result<(), ForgeError>;

    /// The tip of a branch, `None` if there is no such branch.
    async fn tip(&self, branch: &str) -> Result<Option<Oid>, ForgeError>;

    /// A change, as somebody names it who wants it landed.
    async fn change(&self, name: &str, base_branch: &str) -> Result<Option<PullRequestState>, ForgeError>;

    /// Changes as they are now, in the order of their ids.
    async fn changes(&self, ids: &[String], base_branch: &str) -> Result<Vec<PullRequestSeen>, ForgeError>;

    /// Takes back what put a change in the queue (a label), because it left. Can be repeated.
    async fn clear_trigger(&self, id: &str) -> Result<(), ForgeError>;

    /// A file of a commit, `None` if it is not there.
    async fn read_file(
        &self,
        commit: &Oid,
        path: &str,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, ForgeError>;

    /// Merges a head onto a base.
    async fn merge(&self, request: &MergeRequest) -> Result<MergeOutcome, ForgeError>;

    /// Whether a commit is the tip or one of its ancestors.
    async fn contains(&self, tip: &Oid, commit: &Oid) -> Result<bool, ForgeError>;

    /// Moves a branch, by whatever rules its place has for that: on plain git its server-side hooks run.
    async fn land(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Landing, ForgeError>;

    /// What came to a branch between two commits, and who brought it as far as commits and the reflog tell.
    async fn moved(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Moved, ForgeError>;

    /// The first commit of the branch's own history (by first parents) that has a commit; `None` if the tip
    /// has not.
    async fn brought_by(&self, tip: &Oid, commit: &Oid) -> Result<Option<Oid>, ForgeError>;

    /// What a queue does when its base was moved by others, unless it says so itself.
    fn on_foreign(&self) -> OnForeign;

    /// What a commit is made of.
    async fn commit(&self, commit: &Oid) -> Result<CommitSeen, ForgeError>;

    /// Writes the files of a commit into an empty directory, without anything that leads back to the
    /// repository.
    async fn check_out(&self, commit: &Oid, into: &Path) -> Result<(), ForgeError>;
}

/// A merge to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRequest {
    /// The first parent.
    pub base: Oid,
    /// The second parent.
    pub head: Oid,
    /// What the commit says.
    pub message: String,
}

/// What comes of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The objects exist.
    Merged(Merged),
    /// It conflicts in these places.
    Conflict(Vec<String>),
    /// The base has the head.
    AlreadyMerged,
}

/// What comes of moving a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a base that had moved was not moved again"]
pub enum Landing {
    /// It moved.
    Done,
    /// It was not where it had to be.
    BaseMoved,
    /// A hook declined this change, in these words.
    Declined(String),
    /// It is refused for a reason that is not the change's and does not pass by itself.
    Refused(String),
}

/// What came to a branch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moved {
    /// How many commits the new tip has and the old one has not.
    pub commits: u64,
    /// How many commits the old tip has and the new one has not: a branch that was moved back lost them.
    pub lost: u64,
    /// Who, as far as it can be told: identities of commits and of the reflog, each once.
    pub by: Vec<String>,
}

/// What a commit is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitSeen {
    /// Its tree.
    pub tree: Oid,
    /// Its parents.
    pub parents: Vec<Oid>,
}

/// Why a repository did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// There is no such repository.
    #[error("there is no repository: {0}")]
    Gone(String),
    /// It may pass, or is not understood.
    #[error("{0}")]
    Unavailable(String),
}
