//! Writes the files of a commit into a directory without a reference to the repository.
//!
//! Not `git worktree`: that leaves a `.git` through which the code under test could move refs, and entries in
//! the repository that a crash leaves behind. Not `git archive`: `export-ignore` in a change would hide files
//! from its own checks.

use std::ffi::OsStr;
use std::path::Path;

use super::command::{Git, RunOptions};
use super::unusable;
use crate::domain::Oid;
use crate::forge::ForgeError;

pub(super) async fn check_out(git: &Git, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
    let mut index = into.as_os_str().to_owned();
    index.push(".index");
    let env = [("GIT_INDEX_FILE", index.as_os_str())];
    let written = write(git, commit, into, &env).await;
    // No longer needed; it does not exist if nothing was written.
    let _ = std::fs::remove_file(&index);
    written
}

async fn write(git: &Git, commit: &Oid, into: &Path, env: &[(&str, &OsStr)]) -> Result<(), ForgeError> {
    let commands: [&[&str]; 2] =
        [&["read-tree", commit.as_str()], &["checkout-index", "--all", "--force", "--quiet"]];
    for words in commands {
        let output = git.run_with(words, RunOptions { env, stdin: None, work_tree: Some(into) }).await?;
        if output.code != Some(0) {
            return Err(unusable::error(&output));
        }
    }
    Ok(())
}
