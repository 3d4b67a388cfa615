//! Where a check runs: a directory of its own, gone afterwards whatever happens.
//!
//! A process that is killed removes nothing. Whoever runs a check holds a lock on its directory, which the
//! kernel lets go of with the process; the next check in the same place removes what nobody holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};

use weaver_process::confine::User;

/// How the names of directories begin: nothing else is ever removed.
const PREFIX: &str = "weaver-check-";
/// How many names are tried: one may be taken, or somebody who cleans up may take a new directory for a
/// forgotten one.
const TRIES_MAX: usize = 32;

/// Directories of one run. Removed when dropped.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    _held: File,
}

impl Place {
    /// Makes them, empty, beside those of other runs, and removes those whose process is gone.
    pub(super) fn new(parent: &Path, name: &str) -> io::Result<Self> {
        std::fs::create_dir_all(parent)?;
        let (root, held) = hold_new(parent, name)?;
        clean_up(parent, held.metadata()?.uid());
        let place = Self { root, _held: held };
        for directory in [place.files(), place.home()] {
            std::fs::create_dir(directory)?;
        }
        Ok(place)
    }

    /// Gives both directories to the user that the check is.
    pub(super) fn hand_over(&self, user: User) -> io::Result<()> {
        [self.files(), self.home()].iter().try_for_each(|directory| give(directory, user))
    }

    /// The files of the commit.
    pub(super) fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// What the check takes for its home, and its place for temporary files.
    pub(super) fn home(&self) -> PathBuf {
        self.root.join("home")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.root) {
            tracing::warn!(directory = %self.root.display(), %error, "the files of a check are left behind");
        }
    }
}

/// Makes a directory that was not there, and holds it.
fn hold_new(parent: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let process = std::process::id();
    for number in 0..TRIES_MAX {
        let root = parent.join(format!("{PREFIX}{name}-{process}-{number}"));
        // For nobody else to look into: the place may be one that everybody can write to.
        match std::fs::DirBuilder::new().mode(0o700).create(&root) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        let Some(held) = open(&root)? else { continue };
        // Whoever holds it now takes it for a forgotten one.
        if held.try_lock().is_ok() && is_there(&root, &held)? {
            return Ok((root, held));
        }
    }
    Err(io::Error::other("every name for it is taken"))
}

fn is_there(root: &Path, held: &File) -> io::Result<bool> {
    let inode = held.metadata()?.ino();
    Ok(std::fs::symlink_metadata(root).is_ok_and(|there| there.ino() == inode))
}

/// Removes our directories of runs whose process is gone. What cannot be removed is left for the next time: a
/// check must not fail because of another one.
fn clean_up(parent: &Path, owner: u32) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        // Not through links, and nobody else's: those could lead anywhere.
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == owner);
        if !(is_named_so && is_ours) {
            continue;
        }
        let path = entry.path();
        let forgotten = open(&path).ok().flatten().filter(|directory| directory.try_lock().is_ok());
        if forgotten.is_some()
            && let Err(error) = remove(&path)
        {
            tracing::warn!(directory = %path.display(), %error, "the files of a dead check are left behind");
        }
    }
}

/// A directory, `None` if it is not there.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // A check may take away its own right to write, and ours with it.
            allow(path)?;
            std::fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Links are given themselves, never what they lead to.
fn give(path: &Path, user: User) -> io::Result<()> {
    lchown(path, Some(user.uid), Some(user.gid))?;
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

fn allow(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // Not through links: what they lead to is not ours.
        if entry.file_type()?.is_dir() {
            allow(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parent(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weaver-place-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_place_is_gone_afterwards_even_if_the_check_took_away_the_right_to_write() {
        let parent = parent("rights");
        let place = Place::new(&parent, "run").unwrap();
        let inner = place.files().join("deep");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("file"), "x").unwrap();
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o500)).unwrap();
        drop(place);
        // It is empty.
        std::fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn what_a_dead_process_left_is_removed_and_what_a_living_one_holds_is_not() {
        let parent = parent("dead");
        let held = Place::new(&parent, "run").unwrap();
        let (dead, foreign) = (parent.join(format!("{PREFIX}dead")), parent.join("foreign"));
        std::fs::create_dir_all(dead.join("files")).unwrap();
        std::fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::symlink(&foreign, parent.join(format!("{PREFIX}link"))).unwrap();
        let another = Place::new(&parent, "run").unwrap();
        assert!(held.files().is_dir() && another.files().is_dir(), "the same name is another place");
        assert!(!dead.exists());
        assert!(foreign.is_dir() && parent.join(format!("{PREFIX}link")).exists(), "not ours to remove");
        drop((held, another));
        std::fs::remove_dir_all(parent).unwrap();
    }
}
