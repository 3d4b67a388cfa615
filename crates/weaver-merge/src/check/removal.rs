//! Removes directories of checks in a thread of its own: a large checkout takes seconds, for which neither the
//! next check nor the end of the process waits.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::workspace::clean_up;

/// Directories that wait for their removal. Further ones are removed by the check that leaves them, so that
/// checks do not fill the disk faster than it is freed.
const WAITING_MAX: usize = 64;
/// How long the last check's directories may delay the end of the process. The next process removes what is
/// left then.
const EXIT_MAX: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// The thread. It ends when this is dropped, after what waits.
#[derive(Debug)]
pub(super) struct Remover {
    jobs: Option<SyncSender<Job>>,
    /// Disconnected when the thread has ended. In a mutex because a receiver is not `Sync`.
    ended: Mutex<Receiver<()>>,
    exit_max: Duration,
}

impl Remover {
    pub(super) fn new() -> Self {
        Self::start(EXIT_MAX)
    }

    fn start(exit_max: Duration) -> Self {
        let (jobs, received) = sync_channel::<Job>(WAITING_MAX);
        let (running, ended) = sync_channel(0);
        let thread = std::thread::Builder::new().name("weaver-removal".to_owned());
        let started = thread.spawn(move || {
            let _running = running;
            received.into_iter().for_each(|job| job());
        });
        if let Err(error) = &started {
            tracing::warn!(%error, "no thread to remove directories; checks remove them");
        }
        Self { jobs: started.is_ok().then_some(jobs), ended: Mutex::new(ended), exit_max }
    }

    /// Removes a directory. It stays locked meanwhile, if it is one that other processes look at.
    pub(super) fn remove(&self, directory: PathBuf, held: Option<File>) {
        self.run(Box::new(move || {
            if let Err(error) = remove(&directory) {
                let directory = directory.display();
                tracing::warn!(%directory, %error, "cannot remove a directory of a check");
            }
            // Not before: until then no other process removes it too.
            drop(held);
        }));
    }

    /// Removes the workspaces of dead processes of this user.
    pub(super) fn clean_up(&self, parent: &Path) {
        let parent = parent.to_owned();
        self.run(Box::new(move || clean_up(&parent, rustix::process::geteuid().as_raw())));
    }

    fn run(&self, job: Job) {
        let Some(jobs) = &self.jobs else { return job() };
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = jobs.try_send(job) {
            job();
        }
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.jobs = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(self.exit_max) == Err(RecvTimeoutError::Timeout) {
            tracing::info!("directories of checks are left for the next process to remove");
        }
    }
}

/// Also what a check made read-only; a missing directory is removed already.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path)?;
            std::fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn make_writable(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // Not through links: their targets are not ours.
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weaver-removal-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("files")).unwrap();
        path
    }

    /// A remover whose thread is busy until the sender is dropped.
    fn busy(exit_max: Duration) -> (Remover, std::sync::mpsc::Sender<()>) {
        let remover = Remover::start(exit_max);
        let (release, released) = channel::<()>();
        remover.run(Box::new(move || {
            let _ = released.recv(); // An error: the sender was dropped.
        }));
        (remover, release)
    }

    #[test]
    fn a_check_does_not_wait_until_its_directory_is_removed() {
        let (remover, release) = busy(Duration::MAX);
        let directory = directory("check");
        remover.remove(directory.clone(), None);
        assert!(directory.exists());
        drop(release);
        drop(remover);
        assert!(!directory.exists(), "it is removed before the remover ends");
    }

    #[test]
    fn the_end_of_a_process_waits_for_a_bounded_time_and_leaves_the_rest() {
        let (remover, release) = busy(Duration::from_millis(1));
        let directory = directory("exit");
        remover.remove(directory.clone(), None);
        drop(remover);
        assert!(directory.exists(), "it is left");
        drop(release);
        std::fs::remove_dir_all(&directory).ok();
    }

    #[test]
    fn checks_that_leave_directories_faster_than_they_are_removed_remove_them() {
        let (remover, release) = busy(Duration::MAX);
        let waiting: Vec<PathBuf> = (0..=WAITING_MAX).map(|number| directory(&number.to_string())).collect();
        // The thread may have taken its first job or not: one more than fits is enough either way.
        let last = directory("last");
        waiting.iter().chain([&last]).for_each(|directory| remover.remove(directory.clone(), None));
        assert!(!last.exists(), "the queue was full");
        drop(release);
        drop(remover);
        assert!(waiting.iter().all(|directory| !directory.exists()));
    }
}
