//! A copy of the whole store at one moment, while it runs.

use std::path::Path;

use redb::{Database, Durability};

use crate::EmbeddedStore;
use crate::directory::Directory;
use crate::error::StoreError;
use crate::keys;
use crate::load::open_database;
use crate::medium::FileMedium;
use crate::rows;
use crate::store::{Snapshot, snapshot};
use crate::trouble::{Outcome, Trouble};

/// So many rows are copied per transaction of the copy.
const ROWS_PER_STEP: usize = 20_000;

impl EmbeddedStore {
    /// Writes a copy of the store into a directory that has none. The copy is a store like any other, as
    /// small as its contents, and is complete or not there at all: it appears under its name when it is
    /// synced. Callers of the store are not held up; its file may grow while the copy is made. Blocks: call
    /// it where that is allowed.
    ///
    /// Answers how many rows were copied.
    pub fn backup(&self, directory: impl AsRef<Path>) -> Result<u64, StoreError> {
        let directory = directory.as_ref();
        let mut copied = None;
        let target = Directory::take(directory, |path| {
            let medium = FileMedium::new_at(path.to_owned());
            let target = open_database(&medium, &self.options, &self.listener, true)?.database;
            let source = self.database()?;
            let rows = snapshot(&source, |table| copy(table, &target));
            copied = Some(rows.map_err(Trouble::into_error)?);
            Ok(())
        })?;
        copied.ok_or_else(|| StoreError::Occupied { directory: target.path.clone() })
    }
}

fn copy(source: &Snapshot, target: &Database) -> Outcome<u64> {
    let mut rows = rows::scan_all(source, &[])?;
    let mut copied = 0;
    loop {
        let mut transaction = target.begin_write()?;
        // Only the last step needs to be synced: until then the copy does not exist.
        let _ = transaction.set_durability(Durability::None);
        let mut step = 0;
        {
            let mut table = transaction.open_table(keys::TABLE)?;
            for row in rows.by_ref().take(ROWS_PER_STEP) {
                let (key, value) = row?;
                // Damage is not copied on in silence.
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
