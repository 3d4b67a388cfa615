//! The files of a commit, in a directory that knows nothing of the repository.
//!
//! Not `git worktree`: that leaves a `.git` through which the code under test could move refs, and entries in
//! the repository that a crash leaves behind. Not `git archive`: `export-ignore` in a change would hide files
//! from its own checks.

use std::ffi::OsStr;
use std::path::Path;

use super::command::{Git, With};
use crate::domain::Oid;
use crate::forge::ForgeError;

pub(super) async fn check_out(git: &Git, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
    let mut index = into.as_os_str().to_owned();
    index.push(".index");
    let env = [("GIT_INDEX_FILE", index.as_os_str())];
    let written = write(git, commit, into, &env).await;
    // It is of no use to anybody; one that was never written is not there.
    let _ = std::fs::remove_file(&index);
    written
}

async fn write(git: &Git, commit: &Oid, into: &Path, env: &[(&str, &OsStr)]) -> Result<(), ForgeError> {
    let with = || With { env, stdin: None, work_tree: Some(into) };
    git.good_with(&["read-tree", commit.as_str()], with()).await?;
    git.good_with(&["checkout-index", "--all", "--force", "--quiet"], with()).await?;
    Ok(())
}
