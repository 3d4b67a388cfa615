//! Where the bytes lie: a file, or in tests something that fails on purpose.
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

/// Something the bytes of a store lie on.
pub trait Medium: fmt::Debug + Send + Sync {
    /// Opens it. Called again after an error; what an earlier call returned is not used any more by then.
    fn open(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// What it is called, for people.
    fn name(&self) -> String;

    /// Refuses if there is no room to grow by so many bytes.
    fn check_room(&self, bytes: u64) -> io::Result<()>;
}

/// What the file is called that tries whether there is room: the data file's name with this extension.
pub(crate) const ROOM_EXTENSION: &str = "room";

/// A file.
#[derive(Debug)]
pub(crate) struct FileMedium {
    path: PathBuf,
    may_create: bool,
}

impl FileMedium {
    /// One that must be there: an empty file in place of a lost one would be the worst answer.
    pub(crate) fn existing(path: PathBuf) -> Self {
        Self { path, may_create: false }
    }

    /// One that is made.
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

    fn check_room(&self, bytes: u64) -> io::Result<()> {
        let probe = self.path.with_extension(ROOM_EXTENSION);
        let room = private::create(&probe).and_then(|file| allocate(&file, 0, bytes));
        std::fs::remove_file(&probe)?;
        room
    }
}

/// No lock: the directory has one, which names its holder.
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
        // The disk's blocks are taken when the file grows. A full disk then refuses here, where nothing is
        // lost, and never a page in the middle of a file that looked large enough.
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
        // Not every file system can; then a full disk shows when a page is written.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}
