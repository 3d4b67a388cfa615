//! Directories, pipes and processes for the tests.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Real time after which a test fails as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Fails the test if the work takes too long.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(STUCK_AFTER, work).await {
        Ok(value) => value,
        Err(_) => panic!("this should happen: {what}"),
    }
}

/// Polls until a condition is true, yielding in between.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let looking = async {
        while !is_true() {
            tokio::task::yield_now().await;
        }
    };
    in_time(what, looking).await;
}

/// A directory of one test, removed with it.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weaver-handlers-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A named pipe for reports of a process to the test.
    pub(crate) fn pipe(&self, name: &str) -> Pipe {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let path = self.0.join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Pipe(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // Best effort: leftovers are in the temporary directory.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub(crate) struct Pipe(PathBuf);

impl Pipe {
    /// Waits until a process has written into it and closed it.
    pub(crate) async fn read(&self) -> String {
        let path = self.0.clone();
        let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path).unwrap());
        in_time(&format!("{} is written", self.0.display()), reading).await.unwrap()
    }

    /// The process ids that were written into it.
    pub(crate) async fn read_pids(&self) -> Vec<u32> {
        self.read().await.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }
}

/// Whether a process runs; a zombie does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !matches!(text.rsplit_once(") ").unwrap().1.as_bytes()[0], b'Z' | b'X')
}
