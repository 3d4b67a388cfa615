//! The directory a check runs in, removed afterwards.
//!
//! A killed process removes nothing, and one that ends may not remove everything. So the process that runs a
//! check holds a lock on its directory, which the kernel releases with the process; the next process
//! and the next check with the same parent remove unlocked directories.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weaver_process::confine::User;

use super::removal::{Remover, remove};

/// Prefix of the directories' names: nothing else is ever removed.
const PREFIX: &str = "weaver-check-";
/// Names to try: one may be taken, or another process that cleans up may remove a new directory before it is
/// locked.
const TRIES_MAX: usize = 32;

/// Directories of one run. Dropping it leaves their removal to the remover.
#[derive(Debug)]
pub(super) struct Workspace {
    root: PathBuf,
    held: Option<File>,
    remover: Arc<Remover>,
}

impl Workspace {
    /// Creates empty directories, and has those of dead processes removed.
    pub(super) fn new(parent: &Path, name: &str, remover: &Arc<Remover>) -> io::Result<Self> {
        std::fs::create_dir_all(parent)?;
        let (root, held) = create_locked(parent, name)?;
        remover.clean_up(parent);
        let workspace = Self { root, held: Some(held), remover: Arc::clone(remover) };
        for directory in [workspace.files(), workspace.home()] {
            std::fs::create_dir(directory)?;
        }
        Ok(workspace)
    }

    /// Gives both directories to the user that the check runs as.
    pub(super) fn chown_to(&self, user: User) -> io::Result<()> {
        [self.files(), self.home()].iter().try_for_each(|directory| chown_tree(directory, user))
    }

    /// The checkout of the commit.
    pub(super) fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// Receives what a check writes to files that it shares with others.
    pub(super) fn upper(&self) -> PathBuf {
        self.root.join("upper")
    }

    /// For the kernel, while an overlay is mounted.
    pub(super) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Creates the directories of an overlay, for the user that the check runs as.
    pub(super) fn create_layers(&self, user: Option<User>) -> io::Result<()> {
        for directory in [self.upper(), self.work()] {
            std::fs::create_dir(&directory)?;
            user.map_or(Ok(()), |user| chown_tree(&directory, user))?;
        }
        Ok(())
    }

    /// `HOME` and `TMPDIR` of the check.
    pub(super) fn home(&self) -> PathBuf {
        self.root.join("home")
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.remover.remove(self.root.clone(), self.held.take());
    }
}

/// Creates a directory that did not exist, and locks it.
fn create_locked(parent: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let process = std::process::id();
    for number in 0..TRIES_MAX {
        let root = parent.join(format!("{PREFIX}{name}-{process}-{number}"));
        // Only for the owner: the parent may be world-writable.
        match std::fs::DirBuilder::new().mode(0o700).create(&root) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        let Some(held) = open(&root)? else { continue };
        // Otherwise another process has locked it to remove it as abandoned.
        if held.try_lock().is_ok() && still_exists(&root, &held)? {
            return Ok((root, held));
        }
    }
    Err(io::Error::other("every candidate directory name is taken"))
}

fn still_exists(root: &Path, held: &File) -> io::Result<bool> {
    let inode = held.metadata()?.ino();
    Ok(std::fs::symlink_metadata(root).is_ok_and(|there| there.ino() == inode))
}

/// Removes our directories of dead processes. What cannot be removed is left for the next run: a check must
/// not fail because of another one.
pub(super) fn clean_up(parent: &Path, owner: u32) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        // Not through links, and not other users' directories: those could lead anywhere.
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == owner);
        if !(is_named_so && is_ours) {
            continue;
        }
        let path = entry.path();
        let abandoned = open(&path).ok().flatten().filter(|directory| directory.try_lock().is_ok());
        if abandoned.is_some()
            && let Err(error) = remove(&path)
        {
            let directory = path.display();
            tracing::warn!(%directory, %error, "cannot remove the workspace of a dead process");
        }
    }
}

/// Opens a directory; `None` if it does not exist.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Changes the owner of links themselves, never of their targets.
pub(super) fn chown_tree(path: &Path, user: User) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    if (found.uid(), found.gid()) != (user.uid, user.gid) {
        lchown(path, Some(user.uid), Some(user.gid))?;
    }
    if found.is_dir() {
        for entry in std::fs::read_dir(path)? {
            chown_tree(&entry?.path(), user)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parent(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weaver-workspace-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_workspace_is_removed_even_if_the_check_made_it_read_only() {
        let parent = parent("rights");
        let remover = Arc::new(Remover::new());
        let workspace = Workspace::new(&parent, "run", &remover).unwrap();
        let inner = workspace.files().join("deep");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("file"), "x").unwrap();
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o500)).unwrap();
        drop((workspace, remover));
        // It is empty.
        std::fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn the_workspace_of_a_dead_process_is_removed_and_a_locked_one_is_kept() {
        let parent = parent("dead");
        let remover = Arc::new(Remover::new());
        let held = Workspace::new(&parent, "run", &remover).unwrap();
        let (dead, foreign) = (parent.join(format!("{PREFIX}dead")), parent.join("foreign"));
        std::fs::create_dir_all(dead.join("files")).unwrap();
        std::fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::symlink(&foreign, parent.join(format!("{PREFIX}link"))).unwrap();
        let other_remover = Arc::new(Remover::new());
        let another = Workspace::new(&parent, "run", &other_remover).unwrap();
        assert!(held.files().is_dir() && another.files().is_dir(), "the same name gives another workspace");
        let root = another.root.clone();
        // The remover has done everything when it is gone.
        drop((another, other_remover));
        assert!(!dead.exists() && !root.exists());
        assert!(held.files().is_dir(), "it is locked");
        assert!(foreign.is_dir() && parent.join(format!("{PREFIX}link")).exists(), "not ours to remove");
        drop((held, remover));
        std::fs::remove_dir_all(parent).unwrap();
    }
}
