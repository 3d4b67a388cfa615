//! A file that counts its writes, for the store and for the bare loop alike.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::StorageBackend;
use weaver_benches::scratch::Scratch;
use weaver_embedded::Medium;

/// Bytes written and syncs, so far.
#[derive(Debug, Default)]
pub struct Counted {
    pub bytes: AtomicU64,
    pub syncs: AtomicU64,
}

impl Counted {
    pub fn read(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.syncs.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
pub struct CountedFile {
    path: PathBuf,
    pub counted: Arc<Counted>,
}

impl CountedFile {
    pub fn new(scratch: &Scratch) -> Self {
        Self { path: scratch.path().join("data"), counted: Arc::default() }
    }
}

impl Medium for CountedFile {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        Ok(Box::new(Backend { file, counted: Arc::clone(&self.counted) }))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn check_free_space(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct Backend {
    file: File,
    counted: Arc<Counted>,
}

impl Backend {
    pub fn new(path: &Path) -> (Self, Arc<Counted>) {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let counted = Arc::new(Counted::default());
        (Self { file: options.expect("a file"), counted: Arc::clone(&counted) }, counted)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.counted.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.counted.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(data, offset)
    }
}
