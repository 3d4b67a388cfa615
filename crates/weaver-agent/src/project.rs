//! The project a runner works on, and the right to work on it: one agent at a time, whoever started it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use weaver_core::clock::Clock;
use weaver_process::confine::User;

/// A directory that is there, by its one true path.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
}

/// The right to work on a project: gone when this is, and every process that was started under it. A runner
/// that is killed leaves its agent to the guard, and the project stays locked until the guard is done.
#[derive(Debug)]
#[must_use = "the project is free again when this is dropped"]
pub struct ProjectLock {
    _directory: File,
}

impl Project {
    /// The project in a directory.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let root = directory.canonicalize()?;
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { root })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whose it is, as far as that can be known.
    pub fn owner(&self) -> Option<User> {
        let found = std::fs::metadata(&self.root).ok()?;
        Some(User { uid: found.uid(), gid: found.gid() })
    }

    /// Waits until no other runner of this machine works here. Leases keep two runners from one task; nothing
    /// but this keeps them from two tasks in the same files. `busy` is called once if it has to wait.
    ///
    /// # Errors
    /// If the directory is gone, or its file system knows no locks.
    pub async fn lock(
        &self,
        clock: &dyn Clock,
        every: Duration,
        busy: impl FnOnce(),
    ) -> io::Result<ProjectLock> {
        let directory = File::open(&self.root)?;
        let mut busy = Some(busy);
        loop {
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    // Inherited: see `ProjectLock`.
                    fcntl_setfd(&directory, FdFlags::empty())?;
                    return Ok(ProjectLock { _directory: directory });
                }
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(busy) = busy.take() {
                busy();
            }
            // Asked again and again: a thread that waits in the kernel could not be told to stop.
            clock.sleep_until(clock.monotonic().saturating_add(every)).await;
        }
    }
}
