//! Where a check runs: a directory of its own, gone afterwards whatever happens.

use std::io;
use std::path::{Path, PathBuf};

/// Directories of one run. Removed when dropped.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
}

impl Place {
    /// Makes them, empty.
    pub(super) fn new(root: PathBuf) -> io::Result<Self> {
        // One of a process that was killed may be there.
        remove(&root)?;
        let place = Self { root };
        for directory in [place.files(), place.home()] {
            std::fs::create_dir_all(directory)?;
        }
        Ok(place)
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
    use super::*;

    #[test]
    fn a_place_is_gone_afterwards_even_if_the_check_took_away_the_right_to_write() {
        use std::os::unix::fs::PermissionsExt;
        let root = std::env::temp_dir().join(format!("weaver-place-{}", std::process::id()));
        let place = Place::new(root.clone()).unwrap();
        let inner = place.files().join("deep");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("file"), "x").unwrap();
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o500)).unwrap();
        drop(place);
        assert!(!root.exists());
    }
}
