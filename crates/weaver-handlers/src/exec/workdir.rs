//! Working directories of commands: below a root, without escape by symlinks or `..`.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use weaver_process::confine::User;

/// The operator's root, canonicalized once: later changes of the path do not move it.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
}

/// A checked directory below the root.
pub(super) struct Entered {
    /// Its canonical path. It may change before it is entered, so a guard enters it without following
    /// symlinks.
    pub(super) path: PathBuf,
    /// The same through the descriptor `held`: the process enters the directory that was checked.
    pub(super) through: PathBuf,
    /// Must stay open until the process has started.
    pub(super) held: Option<OwnedFd>,
}

impl Root {
    pub(super) fn new(path: &Path) -> Result<Self, String> {
        if !path.is_absolute() {
            return Err(format!("`{}` is not an absolute path", path.display()));
        }
        let found = fs::canonicalize(path).map_err(|error| format!("`{}`: {error}", path.display()))?;
        if !found.is_dir() {
            return Err(format!("`{}` is not a directory", path.display()));
        }
        Ok(Self { path: found })
    }

    /// Opens a directory below the root. Another task can change directories below the root concurrently
    /// (TOCTOU), so the path is opened in one step that refuses to leave the root, and the process enters
    /// that descriptor.
    pub(super) fn enter(&self, below: Option<&str>) -> Result<Entered, String> {
        let Some(below) = below else {
            return Ok(Entered { path: self.path.clone(), through: self.path.clone(), held: None });
        };
        let is_inside = Path::new(below)
            .components()
            .all(|part| !matches!(part, Component::RootDir | Component::ParentDir));
        if !is_inside || below.contains('\0') {
            return Err(format!("`dir` is `{below}`: it must be a relative path without `..`"));
        }
        let path = fs::canonicalize(self.path.join(below))
            .map_err(|error| format!("`dir` is `{below}`: {error}"))?;
        let inner = path
            .strip_prefix(&self.path)
            .map_err(|_| format!("`dir` is `{below}`: it is outside the working root"))?;
        let opened = open(&self.path, inner, &path).map_err(|error| format!("`dir` is `{below}`: {error}"));
        opened.map(|(through, held)| Entered { path, through, held })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn owner(&self) -> Option<User> {
        let found = fs::metadata(&self.path).ok()?;
        Some(User { uid: found.uid(), gid: found.gid() })
    }
}

#[cfg(target_os = "linux")]
fn open(root: &Path, inner: &Path, path: &Path) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
    use rustix::io::Errno;

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inner = if inner.as_os_str().is_empty() { Path::new(".") } else { inner };
    let root = open(root, flags, Mode::empty())?;
    // The path is canonical: a symlink that is there now is new.
    match openat2(&root, inner, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS) {
        Ok(dir) => Ok((format!("/proc/self/fd/{}", dir.as_raw_fd()).into(), Some(dir))),
        // An old kernel, or a seccomp filter that does not allow the call.
        Err(Errno::NOSYS | Errno::PERM) => Ok((path.to_owned(), None)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open(_root: &Path, _inner: &Path, path: &Path) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
    if path.is_dir() { Ok((path.to_owned(), None)) } else { Err(std::io::ErrorKind::NotADirectory.into()) }
}
