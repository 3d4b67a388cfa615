//! A cache directory that all checks of one repository share, if the operator configured one.
//!
//! It is shared trust: what the code of one change writes there, the checks of the next change read. It is
//! never shared between repositories.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use weaver_process::confine::User;

use crate::domain::Repository;

/// Bytes of the location's hash in the directory's name: enough to be unique.
const HASH_BYTES: usize = 8;

/// The cache of a repository, created if missing and owned by the user that runs checks.
pub(super) fn directory(parent: &Path, repository: &Repository, user: Option<User>) -> io::Result<PathBuf> {
    std::fs::create_dir_all(parent)?;
    let hash = Sha256::digest(repository.location.as_bytes());
    let hash: String = hash.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let path = parent.canonicalize()?.join(hash);
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let found = std::fs::symlink_metadata(&path)?;
    if !found.is_dir() {
        return Err(io::Error::other(format!("{} is not a directory", path.display())));
    }
    if let Some(user) = user.filter(|user| user.uid != found.uid()) {
        chown(&path, Some(user.uid), Some(user.gid))?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repository_has_a_cache_of_its_own_that_stays() {
        let parent = std::env::temp_dir().join(format!("weaver-cache-{}", std::process::id()));
        let repository = |location: &str| Repository { name: "same".into(), location: location.to_owned() };
        let one = directory(&parent, &repository("/srv/a"), None).unwrap();
        assert_ne!(one, directory(&parent, &repository("/srv/b"), None).unwrap());
        std::fs::write(one.join("kept"), "").unwrap();
        let again = directory(&parent, &repository("/srv/a"), None).unwrap();
        assert!(again.join("kept").exists());
        assert_eq!(std::fs::metadata(&one).unwrap().mode() & 0o777, 0o700);
        std::fs::remove_dir_all(parent).unwrap();
    }
}
