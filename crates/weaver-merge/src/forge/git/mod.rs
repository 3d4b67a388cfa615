//! Plain git: a bare repository on this machine, through `git` 2.38 or newer. A change is a branch.

mod checkout;
mod command;
mod hooks;
mod merge;
mod moves;
mod private;
mod protect;
mod push;
mod touch;
mod unusable;
mod version;
mod view;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use weaver_core::clock::Clock;

use super::{CommitSeen, Forge, ForgeError, Forges, Landing, MergeOutcome, MergeRequest, Moved};
use crate::domain::{Oid, OnForeign, PullRequest, PullRequestState, Repository, branch_name_problem};
use crate::plan::PullRequestSeen;
use command::Git;
use push::Refusal;
use view::Views;

/// A git repository on this machine.
#[derive(Debug, Clone)]
pub struct GitForge {
    git: Git,
    hooks_path: Option<PathBuf>,
}

/// Git repositories on this machine, by path.
#[derive(Debug, Clone)]
pub struct GitForges {
    clock: Arc<dyn Clock>,
    views: Arc<Views>,
    hooks_path: Option<PathBuf>,
}

impl GitForges {
    /// The clock is for the time limit of each command.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, views: Arc::default(), hooks_path: None }
    }

    /// Uses the server-side hooks of one directory instead of each repository's own.
    #[must_use]
    pub fn with_hooks(mut self, directory: Option<PathBuf>) -> Self {
        self.hooks_path = directory;
        self
    }

    /// Opens a repository by its path.
    pub fn at(&self, path: impl Into<PathBuf>) -> GitForge {
        let git = Git::new(path.into(), Arc::clone(&self.clock), Arc::clone(&self.views));
        GitForge { git, hooks_path: self.hooks_path.clone() }
    }
}

impl Forges for GitForges {
    fn open(&self, repository: &Repository) -> Arc<dyn Forge> {
        Arc::new(self.at(&repository.location))
    }
}

impl GitForge {
    /// Does not fail: a missing repository is reported by the calls.
    pub fn new(path: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        GitForges::new(clock).at(path)
    }

    async fn heads(&self) -> Result<HashMap<String, Oid>, ForgeError> {
        let format = "--format=%(objectname) %(refname:lstrip=2)";
        let listed = self.git.run_ok(&["for-each-ref", format, "refs/heads/"]).await?;
        let line = |line: &str| {
            let (oid, name) = line.split_once(' ')?;
            Some((name.to_owned(), oid.parse().ok()?))
        };
        Ok(listed.lines().filter_map(line).collect())
    }
}

#[async_trait]
impl Forge for GitForge {
    /// Git is new enough, the branch exists and is not checked out anywhere (moving it would leave that work
    /// tree behind), and its hooks are secure.
    async fn examine(&self, base_branch: &str) -> Result<(), ForgeError> {
        let unavailable = |problem: String| Err(ForgeError::Unavailable(problem));
        if let Some(problem) = branch_name_problem(base_branch) {
            return unavailable(format!("`{base_branch}` is not the exact name of a branch: {problem}"));
        }
        version::check(&self.git.run(&["version"]).await?.stdout)?;
        let Some(_) = self.tip(base_branch).await? else {
            return unavailable(format!("there is no branch `{base_branch}`; push it first"));
        };
        if let Some(place) = push::checked_out(&self.git, base_branch).await? {
            return unavailable(format!(
                "`{base_branch}` is checked out at {place}; use a bare repository (git clone --bare), \
                 or check out another branch there"
            ));
        }
        match push::hooks(&self.git, self.hooks_path.as_deref()).await {
            Ok(_) => Ok(()),
            Err(Refusal::Refused(problem)) => unavailable(problem),
            Err(Refusal::Error(error)) => Err(error),
        }
    }

    /// Its device and inode: links, mounts and the `.git` in a work tree lead to the same.
    async fn identity(&self) -> Result<String, ForgeError> {
        let found = std::fs::metadata(self.git.git_dir()?);
        let found = found.map_err(|error| ForgeError::Unavailable(error.to_string()))?;
        Ok(format!("{}:{}", found.dev(), found.ino()))
    }

    async fn tip(&self, branch: &str) -> Result<Option<Oid>, ForgeError> {
        // Not `rev-parse`: that reads expressions, and finds `refs/tags/refs/heads/…` for a missing branch.
        if branch_name_problem(branch).is_some() {
            return Ok(None);
        }
        let name = branch_ref(branch);
        let listed = self.git.run_ok(&["for-each-ref", "--format=%(objectname) %(refname)", &name]).await?;
        // A pattern also matches the branches below it.
        let exact =
            |line: &str| line.split_once(' ').filter(|(_, found)| *found == name).map(|(tip, _)| oid(tip));
        listed.lines().find_map(exact).transpose()
    }

    async fn change(&self, name: &str, base_branch: &str) -> Result<Option<PullRequestState>, ForgeError> {
        let name = name.strip_prefix("refs/heads/").unwrap_or(name);
        Ok(self.tip(name).await?.map(|head| branch_as_change(name, head, base_branch)))
    }

    async fn changes(&self, ids: &[String], base_branch: &str) -> Result<Vec<PullRequestSeen>, ForgeError> {
        let mut heads = self.heads().await?;
        let seen = |id: &String| match heads.remove(id) {
            Some(head) => PullRequestSeen::Present(branch_as_change(id, head, base_branch)),
            None => PullRequestSeen::BranchDeleted,
        };
        Ok(ids.iter().map(seen).collect())
    }

    /// Plain git has no triggers.
    async fn clear_trigger(&self, _id: &str) -> Result<(), ForgeError> {
        Ok(())
    }

    async fn read_file(
        &self,
        commit: &Oid,
        path: &str,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        let listed = self.git.run_ok(&["ls-tree", "-l", commit.as_str(), "--", path]).await?;
        // `<mode> <type> <object> <size>\t<path>`
        let Some(line) = listed.lines().next() else { return Ok(None) };
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, "blob", object, size, ..] = words[..] else { return Ok(None) };
        if mode == "120000" || size.parse::<u64>().map_or(true, |size| size > max_bytes) {
            return Err(ForgeError::Unusable(format!(
                "{path} is not a regular file of at most {max_bytes} bytes"
            )));
        }
        let read = self.git.run(&["cat-file", "blob", oid(object)?.as_str()]).await?;
        if read.code == Some(0) { Ok(Some(read.stdout)) } else { Err(read.error()) }
    }

    async fn merge(&self, request: &MergeRequest) -> Result<MergeOutcome, ForgeError> {
        merge::merge(&self.git, request).await
    }

    async fn contains(&self, tip: &Oid, commit: &Oid) -> Result<bool, ForgeError> {
        let output = self.git.is_ancestor(commit, tip).await;
        if output.is_err() {
            // A candidate is private to the process that built it, and `git gc` may have removed its head. If
            // the history of the tip can be walked, that decides.
            let walked = self.git.run(&["rev-list", tip.as_str()]).await?;
            if walked.code == Some(0) {
                return Ok(walked.text().lines().any(|line| line == commit.as_str()));
            }
        }
        output
    }

    async fn land(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Landing, ForgeError> {
        let pushed = match push::push(&self.git, self.hooks_path.as_deref(), branch, from, to).await {
            Ok(pushed) if pushed.code == Some(0) => return Ok(Landing::Done),
            Ok(pushed) => pushed,
            Err(Refusal::Refused(problem)) => return Ok(Landing::Refused(problem)),
            Err(Refusal::Error(error)) => return Err(error),
        };
        // The error is prose; the position of the branch is a fact.
        match self.tip(branch).await? {
            Some(tip) if tip == *from => push::classify(&pushed),
            Some(tip) if tip == *to => Ok(Landing::Done),
            _ => Ok(Landing::BaseMoved),
        }
    }

    async fn moved(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Moved, ForgeError> {
        moves::moved(&self.git, branch, from, to).await
    }

    async fn introduced_by(&self, tip: &Oid, commit: &Oid) -> Result<Option<Oid>, ForgeError> {
        moves::introduced_by(&self.git, tip, commit).await
    }

    /// On plain git, only the queue should move its base.
    fn on_foreign(&self) -> OnForeign {
        OnForeign::Pause
    }

    async fn commit(&self, commit: &Oid) -> Result<CommitSeen, ForgeError> {
        // Not `git show`, which reads trees and fails if one is missing.
        let words = ["rev-list", "--no-walk", "--no-commit-header", "--format=%T %P", commit.as_str()];
        let shown = self.git.run_ok(&words).await?;
        let mut objects = shown.split_whitespace().map(oid);
        let tree =
            objects.next().ok_or_else(|| ForgeError::Unavailable(format!("{commit} has no tree")))??;
        Ok(CommitSeen { tree, parents: objects.collect::<Result<_, _>>()? })
    }

    async fn check_out(&self, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
        checkout::check_out(&self.git, commit, into).await
    }

    async fn restore(&self, commit: &Oid, paths: &[String], into: &Path) -> Result<(), ForgeError> {
        protect::restore(&self.git, commit, paths, into).await
    }

    async fn contents_id(&self, commit: &Oid, paths: &[String]) -> Result<String, ForgeError> {
        protect::objects(&self.git, commit, paths).await
    }

    async fn last_changes(&self, base: &Oid, head: &Oid, paths: &[String]) -> Result<Vec<Oid>, ForgeError> {
        touch::last_changes(&self.git, base, head, paths).await
    }

    async fn update(&self, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
        checkout::update(&self.git, commit, into).await
    }
}

/// The full name, so that no branch is taken for an option, a tag or an expression.
fn branch_ref(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

fn oid(text: &str) -> Result<Oid, ForgeError> {
    text.trim().parse().map_err(|error| ForgeError::Unavailable(format!("unexpected output of git: {error}")))
}

/// Plain git has neither drafts nor labels: a branch is open as long as it exists, for any base.
fn branch_as_change(name: &str, head: Oid, base_branch: &str) -> PullRequestState {
    PullRequestState {
        pull_request: PullRequest { id: name.to_owned(), head_ref: name.to_owned(), head },
        base_branch: base_branch.to_owned(),
        is_open: true,
        is_draft: false,
        conflict: None,
        has_trigger: true,
    }
}
