//! A medium with injected faults, and a size limit.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;
use weaver_embedded::Medium;

use super::ram::RamMedium;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Open,
    Len,
    Read,
    Write,
    Sync,
    SetLen,
}

impl Call {
    pub(crate) const ALL: [Self; 6] =
        [Self::Open, Self::Len, Self::Read, Self::Write, Self::Sync, Self::SetLen];
}

/// Bytes in memory with faults; clones share both.
#[derive(Debug, Clone)]
pub(crate) struct FaultyMedium {
    bytes: RamMedium,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug, Default)]
struct Faults {
    plan: Option<Plan>,
    /// How many calls failed.
    failed: u64,
    max_len: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Plan {
    call: Call,
    /// Calls that succeed before.
    left: u64,
    kind: io::ErrorKind,
    /// Whether it keeps failing until `heal`.
    lasts: bool,
}

impl FaultyMedium {
    pub(crate) fn on(bytes: RamMedium) -> Self {
        Self { bytes, faults: Arc::default() }
    }

    /// This call fails once, after `after` that succeed.
    pub(crate) fn fail_once(&self, call: Call, after: u64, kind: io::ErrorKind) {
        self.faults.lock().plan = Some(Plan { call, left: after, kind, lasts: false });
    }

    /// This call fails from now on.
    pub(crate) fn fail(&self, call: Call, kind: io::ErrorKind) {
        self.faults.lock().plan = Some(Plan { call, left: 0, kind, lasts: true });
    }

    /// Nothing fails any more.
    pub(crate) fn heal(&self) {
        self.faults.lock().plan = None;
    }

    /// How many calls failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.faults.lock().failed
    }

    /// The disk is full at this length; `None`: it has room.
    pub(crate) fn limit(&self, max_len: Option<u64>) {
        self.faults.lock().max_len = max_len;
    }

    fn call(&self, call: Call) -> io::Result<()> {
        let mut faults = self.faults.lock();
        let Some(plan) = faults.plan.as_mut().filter(|plan| plan.call == call) else { return Ok(()) };
        if plan.left > 0 {
            plan.left -= 1;
            return Ok(());
        }
        let Plan { kind, lasts, .. } = *plan;
        if !lasts {
            faults.plan = None;
        }
        faults.failed += 1;
        Err(io::Error::new(kind, format!("{call:?} was made to fail")))
    }

    fn check_len(&self, len: u64) -> io::Result<()> {
        match self.faults.lock().max_len {
            Some(max_len) if len > max_len => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }
}

impl Medium for FaultyMedium {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.call(Call::Open)?;
        Ok(Box::new(self.clone()))
    }

    fn name(&self) -> String {
        self.bytes.name()
    }

    fn check_free_space(&self, bytes: u64) -> io::Result<()> {
        self.check_len(self.bytes.len()? + bytes)
    }
}

impl StorageBackend for FaultyMedium {
    fn len(&self) -> io::Result<u64> {
        self.call(Call::Len)?;
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call(Call::Read)?;
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(Call::SetLen)?;
        if len > self.bytes.len()? {
            self.check_len(len)?;
        }
        self.bytes.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(Call::Sync)?;
        self.bytes.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(Call::Write)?;
        self.check_len(offset + data.len() as u64)?;
        self.bytes.write(offset, data)
    }
}
