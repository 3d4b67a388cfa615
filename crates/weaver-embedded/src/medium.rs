//! The medium that the store's bytes are on: a file, or a fault-injecting one in tests.
//!
//! ```text
//! redb ──▶ Guarded (guard.rs) ──▶ Medium::open()          a file, a power cut, a full disk
//! ```

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use redb::StorageBackend;

use crate::private;

/// The storage of a store's data file.
pub trait Medium: fmt::Debug + Send + Sync {
    /// Opens a backend. Called again after an I/O error; earlier backends are no longer used then.
    fn open(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Its name in messages, usually a path.
    fn name(&self) -> String;

    /// An error (`StorageFull`) unless the medium can grow by this many bytes.
    fn check_free_space(&self, bytes: u64) -> io::Result<()>;
}

/// Extension of the file that probes for free space, with the data file's name.
pub(crate) const PROBE_EXTENSION: &str = "room";

#[derive(Debug)]
pub(crate) struct FileMedium {
    path: PathBuf,
    may_create: bool,
}

impl FileMedium {
    /// A file that must exist: an empty file in place of a lost one would hide the loss.
    pub(crate) fn existing(path: PathBuf) -> Self {
        Self { path, may_create: false }
    }

    /// A file that is created if it is missing.
    pub(crate) fn new_at(path: PathBuf) -> Self {
        Self { path, may_create: true }
    }
}

impl Medium for FileMedium {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let mut options = private::options();
        let file = options.read(true).write(true).create(self.may_create).truncate(false).open(&self.path)?;
        Ok(Box::new(PlainFile { file }))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn check_free_space(&self, bytes: u64) -> io::Result<()> {
        let probe = self.path.with_extension(PROBE_EXTENSION);
        let room = private::create(&probe).and_then(|file| allocate(&file, 0, bytes));
        std::fs::remove_file(&probe)?;
        room
    }
}

/// Not locked: the directory's `LOCK` is, which contains the holder's pid.
#[derive(Debug)]
struct PlainFile {
    file: File,
}

impl StorageBackend for PlainFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let before = self.len()?;
        // Blocks are allocated when the file grows: a full disk fails here, where nothing is lost, and not at
        // a page write within the file.
        if len > before {
            allocate(&self.file, before, len - before)?;
        }
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}

fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, bytes) {
        // Not every file system supports it; then a full disk fails a page write.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}
