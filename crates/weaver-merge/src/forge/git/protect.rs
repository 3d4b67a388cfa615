//! Replaces protected files of a checkout by those of the base.
//!
//! A change can make a protected path, or a directory above it, a link to anywhere. So nothing is written
//! through the checkout: the files of the base are written to a new directory, and moved from there to places
//! that are cleared first, without following links. The attributes that apply are the base's too.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::command::{Git, RunOptions};
use crate::domain::Oid;
use crate::forge::ForgeError;

const TRIES_MAX: usize = 1000;

pub(super) async fn restore(git: &Git, base: &Oid, paths: &[String], into: &Path) -> Result<(), ForgeError> {
    let failed = |error: io::Error| {
        ForgeError::Unavailable(format!("cannot restore protected files from {base}: {error}"))
    };
    let scratch = create_scratch(into).map_err(failed)?;
    let written = write(git, base, paths, &scratch).await;
    let moved = written.and_then(|()| replace(paths, &scratch, into).map_err(failed));
    fs::remove_dir_all(&scratch).map_err(failed)?;
    moved
}

/// Object names of the paths in a commit, as git lists them: equal if and only if the contents are.
pub(super) async fn objects(git: &Git, commit: &Oid, paths: &[String]) -> Result<String, ForgeError> {
    let mut words = vec!["ls-tree", "-z", commit.as_str(), "--"];
    words.extend(paths.iter().map(String::as_str));
    git.run_ok(&words).await
}

/// A new directory inside the checkout: on the same file system, so that files can be moved.
fn create_scratch(into: &Path) -> io::Result<PathBuf> {
    for number in 0..TRIES_MAX {
        let path = into.join(format!(".weaver-protected-{number}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(io::Error::other("every candidate directory name is taken"))
}

/// Writes the base's version of the paths into an empty directory.
async fn write(git: &Git, base: &Oid, paths: &[String], into: &Path) -> Result<(), ForgeError> {
    let mut index = into.as_os_str().to_owned();
    index.push(".index");
    let env = [("GIT_INDEX_FILE", index.as_os_str()), ("GIT_LITERAL_PATHSPECS", OsStr::new("1"))];
    let with = || RunOptions { env: &env, stdin: None, work_tree: Some(into) };
    let written = async {
        git.run_ok_with(&["read-tree", base.as_str()], with()).await?;
        let mut words = vec!["ls-files", "-z", "--cached", "--"];
        words.extend(paths.iter().map(String::as_str));
        let listed = git.run_with(&words, with()).await?;
        if listed.code != Some(0) {
            return Err(listed.error());
        }
        let names = String::from_utf8(listed.stdout).map_err(|_| {
            ForgeError::Unavailable("the name of a protected file is not UTF-8; rename it".to_owned())
        })?;
        let words = ["checkout-index", "--quiet", "-z", "--stdin"];
        let with = RunOptions { env: &env, stdin: Some(&names), work_tree: Some(into) };
        git.run_ok_with(&words, with).await.map(drop)
    };
    let written = written.await;
    // No longer needed; it does not exist if nothing was written.
    let _ = fs::remove_file(&index);
    written
}

fn replace(paths: &[String], from: &Path, into: &Path) -> io::Result<()> {
    for path in paths {
        let (there, place) = (from.join(path), into.join(path));
        let is_in_base = fs::symlink_metadata(&there).is_ok();
        let mut above = into.to_owned();
        let parts = Path::new(path).parent().into_iter().flat_map(Path::components);
        for part in parts {
            above.push(part);
            match fs::symlink_metadata(&above) {
                Ok(found) if found.is_dir() => {}
                // A link or a file where the base has a directory: what is below is not the checkout's.
                Ok(_) => {
                    fs::remove_file(&above)?;
                    if is_in_base {
                        fs::create_dir(&above)?;
                    }
                }
                Err(_) if is_in_base => fs::create_dir(&above)?,
                Err(_) => {}
            }
        }
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&place)?,
            Ok(_) => fs::remove_file(&place)?,
            Err(_) => {}
        }
        if is_in_base {
            fs::rename(&there, &place)?;
        }
    }
    Ok(())
}
