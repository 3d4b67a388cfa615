//! Online backup: a consistent copy of a running store.

use std::path::Path;

use redb::{Database, Durability};

use crate::EmbeddedStore;
use crate::directory::Directory;
use crate::error::StoreError;
use crate::fault::{StoreFault, StoreResult};
use crate::keys;
use crate::load::open_database;
use crate::medium::FileMedium;
use crate::rows;
use crate::store::{Snapshot, snapshot};

/// Rows copied per transaction of the target.
const ROWS_PER_STEP: usize = 20_000;

impl EmbeddedStore {
    /// Copies one snapshot of the store into a directory without a store; returns the number of rows copied.
    ///
    /// The copy is an ordinary store, compacted, and appears only when it is complete and fsynced. Other
    /// calls are not delayed; the source file may grow meanwhile.
    ///
    /// Blocking: in async code, call it from `spawn_blocking`.
    pub fn backup(&self, directory: impl AsRef<Path>) -> Result<u64, StoreError> {
        let directory = directory.as_ref();
        let mut copied = None;
        let target = Directory::take(directory, |path| {
            let medium = FileMedium::new_at(path.to_owned());
            let target = open_database(&medium, &self.options, &self.listener, true)?.database;
            let source = self.database()?;
            let rows = snapshot(&source, |table| copy(table, &target));
            copied = Some(rows.map_err(StoreFault::into_error)?);
            Ok(())
        })?;
        copied.ok_or_else(|| StoreError::Occupied { directory: target.path.clone() })
    }
}

fn copy(source: &Snapshot, target: &Database) -> StoreResult<u64> {
    let mut rows = rows::scan_all(source, &[])?;
    let mut copied = 0;
    loop {
        let mut transaction = target.begin_write()?;
        // Only the last commit is fsynced: until then the copy has no name.
        let _ = transaction.set_durability(Durability::None);
        let mut step = 0;
        {
            let mut table = transaction.open_table(keys::TABLE)?;
            for row in rows.by_ref().take(ROWS_PER_STEP) {
                let (key, value) = row?;
                // Fails on a wrong checksum: damage is not copied silently.
                rows::body_of(key.value(), value.value())?;
                table.insert(key.value(), value.value())?;
                step += 1;
            }
        }
        transaction.commit()?;
        copied += step as u64;
        if step < ROWS_PER_STEP {
            break;
        }
    }
    let mut last = target.begin_write()?;
    last.set_two_phase_commit(true);
    last.commit()?;
    Ok(copied)
}
