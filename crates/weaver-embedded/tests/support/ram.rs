//! A medium in memory that keeps its bytes when a store is reopened.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;
use weaver_embedded::Medium;

/// A file in memory; clones share its bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct RamMedium {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl RamMedium {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// One that holds these bytes.
    pub(crate) fn with(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(Mutex::new(bytes)) }
    }

    /// A copy of what it holds now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }
}

impl Medium for RamMedium {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(self.clone()))
    }

    fn name(&self) -> String {
        "the memory's weaver.redb".to_owned()
    }

    fn check_free_space(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}

impl StorageBackend for RamMedium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_at(&self.bytes.lock(), offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        write_at(&mut self.bytes.lock(), offset, data);
        Ok(())
    }
}

/// Reads as a file does: past its end is an error.
pub(super) fn read_at(bytes: &[u8], offset: u64, out: &mut [u8]) -> io::Result<()> {
    let start = offset as usize;
    let found = bytes.get(start..start + out.len());
    out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

/// Writes as a file does: past its end makes it longer.
pub(super) fn write_at(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let start = offset as usize;
    if bytes.len() < start + data.len() {
        bytes.resize(start + data.len(), 0);
    }
    bytes[start..start + data.len()].copy_from_slice(data);
}
