//! A disk whose power is cut. What was fsynced is there afterwards; of later writes, any part may be.
//!
//! ```text
//! write, set_len ─▶ seen (what reads return) and unsynced
//! sync           ─▶ unsynced becomes synced
//! cut            ─▶ synced + any of the unsynced sectors, each in any of the versions written since the last sync
//! ```

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;
use weaver_embedded::Medium;

use super::ram::{read_at, write_at};
use super::rng::Rng;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A disk; clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct PowerMedium(Arc<Mutex<Disk>>);

#[derive(Debug)]
struct Disk {
    synced: Vec<u8>,
    seen: Vec<u8>,
    unsynced: Vec<Unsynced>,
    /// Writes, syncs and changes of length until the power is cut.
    left: Option<u64>,
    is_off: bool,
    /// How many more syncs succeed before one fails.
    syncs_left: Option<u64>,
    /// Acknowledges fsyncs without doing them. No store survives that: a test that does not notice proves
    /// nothing.
    lies: bool,
    rng: Rng,
}

#[derive(Debug)]
enum Unsynced {
    Write(u64, Vec<u8>),
    Length(u64),
}

impl PowerMedium {
    /// A disk that holds these bytes.
    pub(crate) fn with(bytes: Vec<u8>, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Disk {
            seen: bytes.clone(),
            synced: bytes,
            unsynced: Vec::new(),
            left: None,
            is_off: false,
            syncs_left: None,
            lies: false,
            rng: Rng::new(seed),
        })))
    }

    /// Cuts the power during the write call after the next `calls`.
    pub(crate) fn cut_after(&self, calls: u64) {
        self.0.lock().left = Some(calls);
    }

    /// A sync fails after `syncs` that succeed. What it should have written may or may not be on the disk,
    /// and is read back either way, as on Linux: the next sync does not write it.
    pub(crate) fn fail_sync_after(&self, syncs: u64) {
        self.0.lock().syncs_left = Some(syncs);
    }

    /// From now on fsyncs are acknowledged and not done.
    pub(crate) fn lie(&self) {
        self.0.lock().lies = true;
    }

    /// Cuts the power, unless it is off already, and returns the disk's bytes.
    pub(crate) fn cut(&self) -> Vec<u8> {
        let mut disk = self.0.lock();
        disk.is_off = true;
        disk.lose_some();
        disk.synced.clone()
    }
}

impl Disk {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => self.is_off = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.check()
    }

    fn check(&self) -> io::Result<()> {
        if self.is_off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    /// Writes everything to the disk. Copying `seen` would do as well, but costs more.
    fn keep_all(&mut self) {
        for unsynced in self.unsynced.drain(..) {
            match unsynced {
                Unsynced::Write(offset, data) => write_at(&mut self.synced, offset, &data),
                Unsynced::Length(len) => self.synced.resize(len as usize, 0),
            }
        }
    }

    /// Writes a random part of what is not synced to the disk.
    fn lose_some(&mut self) {
        // Few, half and most: each has found bugs that the others did not.
        let kept_percent = [0, 3, 50, 97, 100][self.rng.below(5) as usize];
        let torn_percent = [0, 30][self.rng.below(2) as usize];
        // First the length: a file system journals it in order, so it is one of those the file had.
        let mut len = self.synced.len() as u64;
        for unsynced in &self.unsynced {
            if let Unsynced::Length(changed) = unsynced
                && self.rng.percent(kept_percent)
            {
                len = *changed;
            }
        }
        self.synced.resize(len as usize, 0);
        for unsynced in std::mem::take(&mut self.unsynced) {
            let Unsynced::Write(offset, data) = unsynced else { continue };
            let torn = self.rng.percent(torn_percent);
            if !torn && !self.rng.percent(kept_percent) {
                continue;
            }
            for (start, sector) in sectors(offset, &data) {
                let is_inside = start + sector.len() as u64 <= len;
                if is_inside && (!torn || self.rng.percent(50)) {
                    write_at(&mut self.synced, start, sector);
                }
            }
        }
    }
}

/// A write in pieces that do not cross a sector's end.
fn sectors(offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = (offset, data);
    std::iter::from_fn(move || {
        let (start, bytes) = rest;
        let room = SECTOR_BYTES - start as usize % SECTOR_BYTES;
        let (sector, after) = bytes.split_at(room.min(bytes.len()));
        rest = (start + sector.len() as u64, after);
        (!sector.is_empty()).then_some((start, sector))
    })
}

impl Medium for PowerMedium {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.0.lock().check()?;
        Ok(Box::new(self.clone()))
    }

    fn name(&self) -> String {
        "the disk's weaver.redb".to_owned()
    }

    fn check_free_space(&self, _bytes: u64) -> io::Result<()> {
        self.0.lock().check()
    }
}

impl StorageBackend for PowerMedium {
    fn len(&self) -> io::Result<u64> {
        let disk = self.0.lock();
        disk.check()?;
        Ok(disk.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.0.lock();
        disk.check()?;
        read_at(&disk.seen, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.unsynced.push(Unsynced::Length(len));
        disk.seen.resize(len as usize, 0);
        disk.step()
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.step()?;
        if disk.lies {
            return Ok(());
        }
        match &mut disk.syncs_left {
            Some(0) => {
                disk.syncs_left = None;
                disk.lose_some();
                return Err(io::Error::other("the sync failed"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        disk.keep_all();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.check()?;
        disk.unsynced.push(Unsynced::Write(offset, data.to_vec()));
        write_at(&mut disk.seen, offset, data);
        disk.step()
    }
}
