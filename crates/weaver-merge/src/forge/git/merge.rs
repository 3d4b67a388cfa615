//! Builds a merge candidate as private objects only: no ref moves, no work tree is written.

use std::ffi::OsStr;

use super::command::{Git, RunOptions};
use super::{oid, unusable};
use crate::domain::{Merged, Oid};
use crate::forge::{ForgeError, MergeOutcome, MergeRequest};

/// Conflicting files that are listed.
const PATHS_MAX: usize = 50;

pub(super) async fn merge(git: &Git, request: &MergeRequest) -> Result<MergeOutcome, ForgeError> {
    let MergeRequest { base, head, message } = request;
    let ancestor = git.run(&["merge-base", "--is-ancestor", head.as_str(), base.as_str()]).await?;
    match ancestor.code {
        Some(0) => return Ok(MergeOutcome::AlreadyMerged),
        Some(1) => {}
        _ => return Err(unusable::merge_error(git, base, head, &ancestor).await),
    }
    let common = git.run(&["merge-base", base.as_str(), head.as_str()]).await?;
    match common.code {
        Some(0) => {}
        Some(1) => return Ok(MergeOutcome::Conflict(vec!["(no common history)".to_owned()])),
        _ => return Err(unusable::merge_error(git, base, head, &common).await),
    }
    let words =
        ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base.as_str(), head.as_str()];
    let merged = git.run(&words).await?;
    let text = String::from_utf8_lossy(&merged.stdout).into_owned();
    let mut parts = text.split('\0').filter(|part| !part.is_empty());
    // Exit code 1 means a conflict or a missing object: only a conflict comes with a tree.
    let tree = parts.next().and_then(|first| first.trim().parse::<Oid>().ok());
    match (merged.code, tree) {
        (Some(0), Some(tree)) => {
            git.candidate_built()?;
            Ok(MergeOutcome::Merged(commit(git, tree, base, head, message).await?))
        }
        (Some(1), Some(_)) => Ok(MergeOutcome::Conflict(parts.take(PATHS_MAX).map(str::to_owned).collect())),
        _ => Err(unusable::merge_error(git, base, head, &merged).await),
    }
}

/// Deterministic: the same parents, tree and message give the same commit, since its time is the later of its
/// parents' times.
async fn commit(git: &Git, tree: Oid, base: &Oid, head: &Oid, message: &str) -> Result<Merged, ForgeError> {
    let words = ["rev-list", "--no-walk", "--no-commit-header", "--format=%ct", base.as_str(), head.as_str()];
    let times = git.run_ok(&words).await?;
    let latest = times.lines().filter_map(|line| line.trim().parse::<u64>().ok()).max().unwrap_or(0);
    let date = format!("{latest} +0000");
    let (name, email) = (OsStr::new("Weaver merge queue"), OsStr::new("merge-queue@weaver.invalid"));
    let env = [
        ("GIT_AUTHOR_NAME", name),
        ("GIT_AUTHOR_EMAIL", email),
        ("GIT_AUTHOR_DATE", OsStr::new(&date)),
        ("GIT_COMMITTER_NAME", name),
        ("GIT_COMMITTER_EMAIL", email),
        ("GIT_COMMITTER_DATE", OsStr::new(&date)),
    ];
    let words = ["commit-tree", tree.as_str(), "-p", base.as_str(), "-p", head.as_str(), "-F", "-"];
    let with = RunOptions { env: &env, stdin: Some(message), work_tree: None };
    let commit = oid(&git.run_ok_with(&words, with).await?)?;
    Ok(Merged { tree, commit })
}
