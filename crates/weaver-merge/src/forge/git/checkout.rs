//! Writes the files of a commit into a directory without a reference to the repository.
//!
//! Not `git worktree`: that leaves a `.git` through which the code under test could move refs, and entries in
//! the repository that a crash leaves behind. Not `git archive`: `export-ignore` in a change would hide files
//! from its own checks.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::command::{Git, GitOutput, RunOptions};
use super::unusable;
use crate::domain::Oid;
use crate::forge::ForgeError;

/// Owners and times of change may differ from the index: files are given to the user that runs checks.
const BY_CONTENTS: [&str; 4] = ["-c", "core.checkStat=minimal", "-c", "core.trustctime=false"];

pub(super) async fn check_out(git: &Git, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
    let index = index_of(into);
    let commands: [&[&str]; 2] =
        [&["read-tree", commit.as_str()], &["checkout-index", "--all", "--force", "--quiet"]];
    let mut written = Ok(());
    for words in commands {
        if written.is_ok() {
            written = run(git, words, into, &index).await;
        }
    }
    // No longer needed; it does not exist if nothing was written.
    let _ = std::fs::remove_file(&index);
    written
}

/// The index stays beside the directory: with it, git knows what differs.
pub(super) async fn update(git: &Git, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
    let index = index_of(into);
    if Path::new(&index).exists() {
        // Attributes decide how files are written, also files that are the same in both commits.
        let attributes =
            ["diff-index", "--cached", "--quiet", commit.as_str(), "--", ":(top,glob)**/.gitattributes"];
        if ask(git, &attributes, into, &index).await?.code != Some(0) {
            empty(into, &index).map_err(|error| {
                ForgeError::Unavailable(format!("cannot empty {}: {error}", into.display()))
            })?;
        }
    }
    let words = [&BY_CONTENTS[..], &["read-tree", "--reset", "-u", commit.as_str()]].concat();
    run(git, &words, into, &index).await
}

fn empty(directory: &Path, index: &OsStr) -> io::Result<()> {
    std::fs::remove_dir_all(directory)?;
    std::fs::remove_file(index)?;
    std::fs::create_dir(directory)
}

fn index_of(directory: &Path) -> OsString {
    let mut index = directory.as_os_str().to_owned();
    index.push(".index");
    index
}

async fn run(git: &Git, words: &[&str], into: &Path, index: &OsStr) -> Result<(), ForgeError> {
    let output = ask(git, words, into, index).await?;
    if output.code == Some(0) { Ok(()) } else { Err(unusable::write_error(&output, into)) }
}

async fn ask(git: &Git, words: &[&str], into: &Path, index: &OsStr) -> Result<GitOutput, ForgeError> {
    let env = [("GIT_INDEX_FILE", index)];
    git.run_with(words, RunOptions { env: &env, stdin: None, work_tree: Some(into) }).await
}
