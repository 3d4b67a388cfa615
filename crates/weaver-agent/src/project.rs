//! The project of a runner, and its lock: one agent at a time, across all runners of the machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use weaver_core::clock::Clock;
use weaver_process::confine::User;

/// An existing directory, by its canonical path.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
}

/// An exclusive lock (`flock`) on a project. It is inherited: after a runner is killed, the project stays
/// locked until the guard has ended the agent.
#[derive(Debug)]
#[must_use = "the project is unlocked when this is dropped"]
pub struct ProjectLock {
    _directory: File,
}

impl Project {
    /// Canonicalizes the path.
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

    /// The canonical path of its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The owner of the directory; `None` if it cannot be read.
    pub fn owner(&self) -> Option<User> {
        let found = std::fs::metadata(&self.root).ok()?;
        Some(User { uid: found.uid(), gid: found.gid() })
    }

    /// Waits for the lock, polling `every` so often. Leases keep two runners from running one task; only this
    /// keeps them from running two tasks in the same files. `busy` is called once if it has to wait.
    ///
    /// # Errors
    /// If the directory was removed, or its file system has no locks.
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
            // Polled: a thread that blocks in the kernel could not be cancelled.
            clock.sleep_until(clock.monotonic().saturating_add(every)).await;
        }
    }
}
