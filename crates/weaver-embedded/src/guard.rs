//! The layer between redb and a medium: a checksum over the header flags, which redb does not cover, and a
//! switch that disables a failed handle.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::StorageBackend;

/// The bytes of redb's header that select one of its two commit slots and record a clean shutdown. redb has
/// no checksum over them: one flipped bit would silently roll back to the previous commit. The two slots
/// after them have their own checksums, which cover the pages.
const FLAGS_BYTES: usize = 64;
/// redb's header; the rest of the first page is unused. Our checksum follows it, in the same sector.
const HEADER_BYTES: usize = 320;
const GUARDED_BYTES: usize = HEADER_BYTES + 8;

/// Health of a database handle, shared with the engine, which replaces failed ones.
#[derive(Debug, Default)]
pub(crate) struct Health {
    retired: AtomicBool,
    failed: AtomicBool,
    refused_bytes: AtomicU64,
}

impl Health {
    /// Disables the handle: from now on another one owns the file.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// Whether an I/O call failed: redb then refuses all further use of the handle.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Bytes by which the file could not be extended; 0 if that never happened.
    pub(crate) fn refused_bytes(&self) -> u64 {
        self.refused_bytes.load(Ordering::SeqCst)
    }
}

/// A backend with a checksum over the header's flags, which can be disabled.
pub(crate) struct Guarded {
    inner: Box<dyn StorageBackend>,
    health: Arc<Health>,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(out)
    }
}

impl Guarded {
    /// An error if the header's checksum is wrong, or if the file is empty and must not be created.
    pub(crate) fn new(
        inner: Box<dyn StorageBackend>,
        health: Arc<Health>,
        may_create: bool,
    ) -> io::Result<Self> {
        let len = inner.len()?;
        if len == 0 && may_create {
            return Ok(Self { inner, health });
        }
        if len < GUARDED_BYTES as u64 {
            let what = format!("the file is truncated to {len} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut header = [0; GUARDED_BYTES];
        inner.read(0, &mut header)?;
        if header[HEADER_BYTES..] != checksum(&header) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the header's checksum is wrong"));
        }
        Ok(Self { inner, health })
    }

    fn guard<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.check()?;
        let result = act();
        if result.is_err() {
            self.health.failed.store(true, Ordering::SeqCst);
        }
        // Checked again: the data may already have been written by the next handle.
        self.check()?;
        result
    }

    fn check(&self) -> io::Result<()> {
        if self.health.retired.load(Ordering::SeqCst) {
            return Err(io::Error::other("this file handle failed and was replaced"));
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
        self.guard(|| self.inner.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.guard(|| self.inner.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.guard(|| {
            let before = self.inner.len()?;
            let result = self.inner.set_len(len);
            if result.is_err() {
                self.health.refused_bytes.store(len.saturating_sub(before), Ordering::SeqCst);
            }
            result
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.guard(|| self.inner.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset != 0 || data.len() < FLAGS_BYTES {
            return self.guard(|| self.inner.write(offset, data));
        }
        // One write, so that flags and checksum reach the disk together.
        let mut header = data.to_vec();
        if header.len() < GUARDED_BYTES {
            header.resize(GUARDED_BYTES, 0);
        }
        let sum = checksum(&header);
        header[HEADER_BYTES..GUARDED_BYTES].copy_from_slice(&sum);
        self.guard(|| self.inner.write(0, &header))
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}
