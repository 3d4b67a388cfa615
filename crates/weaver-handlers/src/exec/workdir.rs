//! Where commands run: below a root, with no way out.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use weaver_process::confine::User;

/// The operator's root, found once: what happens to the path later does not move it.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
}

/// A directory that was found below the root.
pub(super) struct Entered {
    /// Where it is. It may be somewhere else by the time it is entered, so a guard enters it without
    /// following links.
    pub(super) path: PathBuf,
    /// The same by way of `held`: what was opened is what is entered.
    pub(super) through: PathBuf,
    /// Must live until the process has started.
    pub(super) held: Option<OwnedFd>,
}

impl Root {
    pub(super) fn new(path: &Path) -> Result<Self, String> {
        if !path.is_absolute() {
            return Err(format!("`{}` is no absolute path", path.display()));
        }
        let found = fs::canonicalize(path).map_err(|error| format!("`{}`: {error}", path.display()))?;
        if !found.is_dir() {
            return Err(format!("`{}` is no directory", path.display()));
        }
        Ok(Self { path: found })
    }

    /// The path of a directory below the root, and a handle that must live until the process has started. A
    /// task can change directories below the root while another one is on its way into them, so the path is
    /// opened in one step that refuses to leave, and the process enters what was opened.
    pub(super) fn enter(&self, below: Option<&str>) -> Result<Entered, String> {
        let Some(below) = below else {
            return Ok(Entered { path: self.path.clone(), through: self.path.clone(), held: None });
        };
        let is_inside = Path::new(below)
            .components()
            .all(|part| !matches!(part, Component::RootDir | Component::ParentDir));
        if !is_inside || below.contains('\0') {
            return Err(format!("`dir` is `{below}`: it must be a path below the root, without `..`"));
        }
        let path = fs::canonicalize(self.path.join(below))
            .map_err(|error| format!("`dir` is `{below}`: {error}"))?;
        let inner = path
            .strip_prefix(&self.path)
            .map_err(|_| format!("`dir` is `{below}`: it leads out of the root"))?;
        let opened = open(&self.path, inner, &path).map_err(|error| format!("`dir` is `{below}`: {error}"));
        opened.map(|(through, held)| Entered { path, through, held })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whose it is, as far as that can be known.
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
    // Symbolic links were followed when the path was found: one that is there now is new.
    match openat2(&root, inner, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS) {
        Ok(dir) => Ok((format!("/proc/self/fd/{}", dir.as_raw_fd()).into(), Some(dir))),
        // An old kernel, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => Ok((path.to_owned(), None)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open(_root: &Path, _inner: &Path, path: &Path) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
    if path.is_dir() { Ok((path.to_owned(), None)) } else { Err(std::io::ErrorKind::NotADirectory.into()) }
}
