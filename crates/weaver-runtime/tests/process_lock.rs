//! Leases of a process that has ended are lost at once; all others wait for their expiry.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use weaver_core::prelude::*;
use weaver_runtime::testing::TestQueue;
use weaver_runtime::{LocalSource, ProcessLock, WorkSource};

/// A directory of locks, and a store with one task that a process has leased.
struct World {
    directory: PathBuf,
    queue: TestQueue,
    key: TaskKey,
    process: Option<ProcessLock>,
}

impl World {
    async fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("weaver-locks-{name}-{}", std::process::id()));
        let queue = TestQueue::new();
        let store = queue.store();
        let key = store.enqueue(NewTask::new("work")).await.unwrap().key;
        let process = ProcessLock::acquire(&directory, "here").unwrap();
        let worker = WorkerId::new("ada").unwrap();
        let request =
            LeaseRequest::new(key.namespace.clone(), QueueName::default(), worker, process.tokens()());
        assert_eq!(store.lease(request).await.unwrap().len(), 1);
        Self { directory, queue, key, process: Some(process) }
    }

    /// The file of the process, which is the only one.
    fn file(&self) -> PathBuf {
        let mut entries = std::fs::read_dir(&self.directory).unwrap();
        entries.next().expect("the process has a lock").unwrap().path()
    }

    /// Ends the process as SIGKILL does: its descriptors are closed, and its file stays.
    fn kill(&mut self) {
        let (file, aside) = (self.file(), self.directory.with_extension("aside"));
        std::fs::rename(&file, &aside).unwrap();
        drop(self.process.take());
        std::fs::rename(&aside, &file).unwrap();
    }

    /// A round of maintenance by another process of that store; returns the attempts it found lost.
    async fn lost(&self, store: &str) -> u32 {
        let lock = Arc::new(ProcessLock::acquire(&self.directory, store).unwrap());
        let source = LocalSource::new(self.queue.store()).with_process_lock(lock);
        source.maintain(Default::default()).await.unwrap().lost
    }

    async fn record(&self) -> TaskRecord {
        self.queue.store().get_task(&self.key).await.unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn copy_in_place(file: &Path) {
    let copy = file.with_extension("copy");
    std::fs::copy(file, &copy).unwrap();
    std::fs::rename(&copy, file).unwrap();
}

/// A child that inherits the lock and runs until it is killed.
fn child() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn a_lease_of_a_process_that_ended_is_lost_at_once_and_charged_as_a_loss() {
    let mut world = World::new("ended").await;
    world.kill();
    assert_eq!(world.lost("here").await, 1);
    let record = world.record().await;
    assert_eq!((record.state, record.losses, record.failures), (TaskState::RetryScheduled, 1, 0));
    assert_eq!(record.ready_at, record.updated_at, "due at once, without backoff");
    assert_eq!(std::fs::read_dir(&world.directory).unwrap().count(), 0, "its lock is forgotten");
}

#[tokio::test]
async fn a_lease_of_a_living_process_is_kept() {
    let world = World::new("alive").await;
    assert_eq!(world.lost("here").await, 0);
    assert_eq!(world.record().await.state, TaskState::Running);
    assert!(world.file().exists());
}

#[tokio::test]
async fn a_lease_is_kept_until_every_process_that_its_holder_started_has_ended() {
    let mut world = World::new("child").await;
    let mut child = child();
    world.kill();
    assert_eq!(world.lost("here").await, 0, "the child still runs");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(world.lost("here").await, 1);
}

#[tokio::test]
async fn a_lock_file_that_was_deleted_or_copied_proves_nothing() {
    let world = World::new("copied").await;
    copy_in_place(&world.file());
    assert_eq!(world.lost("here").await, 0, "the copy is not locked, and its holder lives");
    std::fs::remove_file(world.file()).unwrap();
    assert_eq!(world.lost("here").await, 0);
    assert_eq!(world.record().await.state, TaskState::Running);
}

#[tokio::test]
async fn a_lock_of_another_boot_or_another_store_proves_nothing() {
    let mut world = World::new("elsewhere").await;
    world.kill();
    assert_eq!(world.lost("there").await, 0);
    let file = world.file();
    let text = std::fs::read_to_string(&file).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let other = "00000000-0000-4000-8000-000000000000";
    assert!(text.contains(boot.trim()));
    // In place: the file keeps its inode.
    std::fs::write(&file, text.replace(boot.trim(), other)).unwrap();
    assert_eq!(world.lost("here").await, 0);
    assert!(!file.exists(), "nothing will ever follow from it");
    assert_eq!(world.record().await.state, TaskState::Running);
}

#[tokio::test]
async fn leases_of_other_processes_are_kept_when_one_ends() {
    let mut world = World::new("others").await;
    let store = world.queue.store();
    let other = store.enqueue(NewTask::new("work")).await.unwrap().key;
    let worker = WorkerId::new("ada").unwrap();
    // The same worker name, and a token of no process.
    let request =
        LeaseRequest::new(other.namespace.clone(), QueueName::default(), worker, LeaseToken(7 << 64));
    assert_eq!(store.lease(request).await.unwrap().len(), 1);
    world.kill();
    assert_eq!(world.lost("here").await, 1);
    assert_eq!(store.get_task(&other).await.unwrap().state, TaskState::Running);
}

#[tokio::test]
async fn a_process_that_exits_removes_its_lock() {
    let mut world = World::new("clean").await;
    drop(world.process.take());
    assert_eq!(std::fs::read_dir(&world.directory).unwrap().count(), 0);
    assert_eq!(world.lost("here").await, 0);
}
