//! A lock by which the other processes of a machine see that this one has ended, with all it started.
//!
//! ```text
//! worker ── ProcessLock ──▶ DIRECTORY/<process id>.lock   flock: held by this process and its children
//!    └ lease tokens begin with the process id
//! another process ── lock is free? ──▶ the leases whose tokens begin with that id are lost now
//! ```
//!
//! A free lock proves the end of a process because the kernel releases it with the last descriptor, and a
//! process has none left only after its end. A stopped process (SIGSTOP) keeps its descriptors. Everything
//! that would weaken the proof is ignored, and the leases expire as usual: a file that was deleted or copied,
//! another kernel (by boot id: another machine, or this one before a restart), and a file system whose locks
//! other kernels grant.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weaver_core::id::{LeaseToken, ProcessId};

/// Ending of the files' names: nothing else is ever read or removed.
const SUFFIX: &str = ".lock";
/// Longer than any of the files; a larger one is ignored.
const FILE_MAX_BYTES: u64 = 64 * 1024;
/// Differs on each kernel and each start of it; containers of one kernel have the same.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A lock that lasts as long as this process and the processes it started. Its file is removed on drop.
///
/// Children inherit the descriptor: a guard keeps the lock until it has ended its command, and a command
/// without a guard keeps it itself. One that runs on for good, as a daemon, keeps the lock; leases then expire
/// as usual.
#[derive(Debug)]
pub struct ProcessLock {
    process: ProcessId,
    directory: PathBuf,
    holder: Holder,
    path: PathBuf,
    _file: File,
}

/// What a file says about the process that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    /// The kernel whose lock it is.
    boot: String,
    /// The file itself: a copy of it is not locked, and proves nothing.
    device: u64,
    inode: u64,
    /// The store of the leases: processes of other stores leave the file alone.
    store: String,
}

/// A process that has ended. Holds its lock, so that one process at a time expires its leases.
#[derive(Debug)]
pub(crate) struct EndedProcess {
    pub(crate) process: ProcessId,
    path: PathBuf,
    _file: File,
}

impl ProcessLock {
    /// Takes a new lock in a directory of this user's, which is created if it is missing. `store` names the
    /// store for its other processes on this machine, which pass the same text.
    ///
    /// # Errors
    /// If the directory cannot be written, or its file system has no locks of this kernel alone (NFS, FUSE).
    /// A worker can do without: its leases then expire as usual.
    pub fn acquire(directory: &Path, store: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let boot = fs::read_to_string(BOOT_ID)?.trim().to_owned();
        let process = ProcessId(random()?);
        let path = directory.join(format!("{:016x}{SUFFIX}", process.0));
        // Locked under another name: under its own it is never free while this process lives.
        let new = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let locked = (|| {
            only_of_this_kernel(&file)?;
            file.try_lock()?;
            let found = file.metadata()?;
            let holder = Holder { boot, device: found.dev(), inode: found.ino(), store: store.to_owned() };
            file.write_all(&serde_json::to_vec(&holder)?)?;
            inherit(&file)?;
            fs::rename(&new, &path)?;
            Ok(holder)
        })();
        match locked {
            Ok(holder) => Ok(Self { process, directory: directory.to_owned(), holder, path, _file: file }),
            Err(error) => {
                // Nothing refers to it, and it has no content that counts.
                let _ = fs::remove_file(&new);
                Err(error)
            }
        }
    }

    /// Lease tokens that name this process, for [`WorkerBuilder::tokens`](crate::WorkerBuilder::tokens).
    ///
    /// # Panics
    /// They panic if the system has no randomness: lease tokens must not be guessable.
    pub fn tokens(&self) -> Arc<dyn Fn() -> LeaseToken + Send + Sync> {
        let process = self.process;
        Arc::new(move || LeaseToken::of_process(process, random().expect("the system has randomness")))
    }

    /// Processes of the same store on this machine that have ended without removing their file.
    pub(crate) fn ended(&self) -> Vec<EndedProcess> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let files = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let process = u64::from_str_radix(name.strip_suffix(SUFFIX)?, 16).ok()?;
            Some((ProcessId(process), entry.path()))
        });
        let others = files.filter(|(process, _)| *process != self.process);
        // One that cannot be read proves nothing.
        others.filter_map(|(process, path)| self.examine(process, path).ok().flatten()).collect()
    }

    fn examine(&self, process: ProcessId, path: PathBuf) -> io::Result<Option<EndedProcess>> {
        let mut file = File::open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let (found, there) = (file.metadata()?, fs::symlink_metadata(&path)?);
        let mut text = Vec::new();
        (&mut file).take(FILE_MAX_BYTES).read_to_end(&mut text)?;
        let holder: Holder = serde_json::from_slice(&text)?;
        if holder.boot != self.holder.boot {
            // Of this machine before it was restarted: the file system is not shared with another one.
            fs::remove_file(&path)?;
            return Ok(None);
        }
        let is_itself = (holder.device, holder.inode) == (found.dev(), found.ino())
            && (found.dev(), found.ino()) == (there.dev(), there.ino());
        let is_proof = is_itself && holder.store == self.holder.store;
        Ok(is_proof.then_some(EndedProcess { process, path, _file: file }))
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        // What remains is removed by the next process of the store.
        let _ = fs::remove_file(&self.path);
    }
}

impl EndedProcess {
    /// Forgets it: it has no leases any more.
    pub(crate) fn forget(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(file = %self.path.display(), %error, "cannot remove the lock of an ended process");
        }
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(target_os = "linux")]
fn inherit(file: &File) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn inherit(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refuses file systems whose locks may be granted by another machine, or lost by one: all but a known list.
#[cfg(target_os = "linux")]
fn only_of_this_kernel(file: &File) -> io::Result<()> {
    // Some architectures sign-extend it.
    let kind = rustix::fs::fstatfs(file)?.f_type as u64 & 0xFFFF_FFFF;
    if LOCAL.contains(&kind) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("its file system (type {kind:#x}) is not known to be local"),
    ))
}

#[cfg(not(target_os = "linux"))]
fn only_of_this_kernel(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, tmpfs, overlayfs (`linux/magic.h`).
#[cfg(target_os = "linux")]
const LOCAL: [u64; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E, 0x0102_1994, 0x794C_7630];

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn locks_of_network_file_systems_are_not_trusted() {
        // NFS, SMB, CIFS, FUSE, 9P, Ceph.
        for kind in [0x6969, 0xFE53_4D42, 0xFF53_4D42, 0x6573_5546, 0x0102_1997, 0x00C3_6400] {
            assert!(!LOCAL.contains(&kind), "{kind:#x}");
        }
        let refused = only_of_this_kernel(&File::open("/proc/self/status").unwrap()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
        assert!(refused.to_string().contains("not known to be local"), "{refused}");
    }
}
