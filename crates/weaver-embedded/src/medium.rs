//! Where the bytes lie: a file, or in tests something that fails on purpose.
//!
//! ```text
//! redb ──▶ Guarded ──▶ Medium::open()          a file, a power cut, a full disk
//!           └ a checksum over the header's flags, and an end to a handle that has failed
//! ```

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;

/// Something the bytes of a store lie on.
pub trait Medium: fmt::Debug + Send + Sync {
    /// Opens it. Called again after an error; what an earlier call returned is not used any more by then.
    fn open(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// What it is called, for people.
    fn name(&self) -> String;

    /// Refuses if there is no room to grow by so many bytes.
    fn check_room(&self, bytes: u64) -> io::Result<()>;
}

/// A file.
#[derive(Debug)]
pub(crate) struct FileMedium {
    pub(crate) path: PathBuf,
}

impl Medium for FileMedium {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        Ok(Box::new(PlainFile { file }))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn check_room(&self, bytes: u64) -> io::Result<()> {
        let probe = self.path.with_extension("room");
        let room = File::create(&probe).and_then(|file| allocate(&file, 0, bytes));
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
        // The disk's blocks are taken when the file grows. A full disk then refuses here, where nothing is lost, and
        // never a page in the middle of a file that looked large enough.
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

/// The bytes of redb's header that choose between its two commit slots and say whether it was closed cleanly. redb has no
/// checksum over them: one flipped bit there would silently bring back the commit before the last.
const FLAGS_BYTES: usize = 64;
/// redb's header; the rest of the first page is never written. Our checksum lies right behind it, in the same sector.
const HEADER_BYTES: usize = 320;
const GUARDED_BYTES: usize = HEADER_BYTES + 8;

/// A backend with a checksum over the header's flags, that can be told to write nothing more.
pub(crate) struct Guarded {
    inner: Box<dyn StorageBackend>,
    retired: Arc<AtomicBool>,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(out)
    }
}

impl Guarded {
    /// Refuses a file whose header is not the one that was written.
    pub(crate) fn new(inner: Box<dyn StorageBackend>, retired: Arc<AtomicBool>) -> io::Result<Self> {
        if inner.len()? >= GUARDED_BYTES as u64 {
            let mut header = [0; GUARDED_BYTES];
            inner.read(0, &mut header)?;
            let never_written = header.iter().all(|byte| *byte == 0);
            if !never_written && header[HEADER_BYTES..] != checksum(&header) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the header's checksum is wrong"));
            }
        }
        Ok(Self { inner, retired })
    }

    fn check(&self) -> io::Result<()> {
        if self.retired.load(Ordering::Acquire) {
            return Err(io::Error::other("this handle failed and was replaced"));
        }
        Ok(())
    }
}

fn checksum(header: &[u8]) -> [u8; 8] {
    let mut sum = [0; 8];
    sum[..4].copy_from_slice(b"WVR1");
    sum[4..].copy_from_slice(&crc32fast::hash(&header[..FLAGS_BYTES]).to_le_bytes());
    sum
}

impl StorageBackend for Guarded {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        if offset != 0 || data.len() < FLAGS_BYTES {
            return self.inner.write(offset, data);
        }
        // One write, so that flags and checksum reach the disk together.
        let mut header = data.to_vec();
        if header.len() < GUARDED_BYTES {
            header.resize(GUARDED_BYTES, 0);
        }
        let sum = checksum(&header);
        header[HEADER_BYTES..GUARDED_BYTES].copy_from_slice(&sum);
        self.inner.write(0, &header)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}
