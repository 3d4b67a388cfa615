//! The directory of a store: its lock, its format, and its crash-safe creation.
//!
//! ```text
//! LOCK         locked by the process that has the store open; contains its pid
//! FORMAT       one line: `weaver-embedded 1`
//! weaver.redb  everything else
//! ```
//!
//! Only the owner can access these files.
//!
//! Creation can crash at any step: the data is written under a temporary name, then `FORMAT`, then the data
//! file is renamed.
//!
//! Data without `FORMAT`, or `FORMAT` without data, therefore means that a file was deleted. It is refused:
//! creating an empty store there would hide the loss.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::medium::PROBE_EXTENSION;
use crate::private;

/// The directory format that this version writes, and the newest it reads.
pub const FORMAT: u32 = 1;
const FORMAT_NAME: &str = "weaver-embedded";
const DATA_FILE: &str = "weaver.redb";
const NEW_DATA_FILE: &str = "weaver.redb.new";
const FORMAT_FILE: &str = "FORMAT";
const LOCK_FILE: &str = "LOCK";
/// Every file of a store.
const FILES: [&str; 7] =
    [DATA_FILE, NEW_DATA_FILE, FORMAT_FILE, LOCK_FILE, "FORMAT.new", "weaver.room", "weaver.redb.room"];
/// Files that servers of earlier versions left there.
const LEGACY_FILES: [&str; 2] = ["root.token", "server.address"];

/// A directory that this process has locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Locks the directory, creating it if it is missing. `create` creates the data file of a new store.
    pub(crate) fn take(
        path: &Path,
        create: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        private::make_directory(path).map_err(|source| StoreError::io(path, source))?;
        private::tighten(path, &FILES, |name| FILES.contains(&name) || LEGACY_FILES.contains(&name));
        let lock = lock(path)?;
        // Left by a process that was killed while it probed for free space.
        let _ = fs::remove_file(path.join(DATA_FILE).with_extension(PROBE_EXTENSION));
        let (data, new, format) = (path.join(DATA_FILE), path.join(NEW_DATA_FILE), path.join(FORMAT_FILE));
        match (read_format(path, &format)?, data.exists(), new.exists()) {
            (true, true, _) => {}
            // The last step of the creation was interrupted.
            (true, false, true) => publish(path, &new, &data)?,
            (true, false, false) => {
                let remedy =
                    "restore the latest backup; if the tasks in it are not needed, remove the directory";
                return Err(StoreError::Missing { file: data, remedy: remedy.to_owned() });
            }
            (false, true, _) => {
                let remedy = format!(
                    "restore it from the latest backup, or write the line `{FORMAT_NAME} {FORMAT}` into it if this \
                     version of Weaver was the last to use the store"
                );
                return Err(StoreError::Missing { file: format, remedy });
            }
            (false, false, _) => {
                let _ = fs::remove_file(&new);
                create(&new)?;
                write_synced(path, &format, format!("{FORMAT_NAME} {FORMAT}\n").as_bytes())?;
                publish(path, &new, &data)?;
            }
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(crate) fn data_file(&self) -> PathBuf {
        self.path.join(DATA_FILE)
    }
}

fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join(LOCK_FILE);
    let open = private::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(|source| StoreError::io(&path, source))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            let pid = if pid.trim().is_empty() { "?" } else { pid.trim() }.to_owned();
            return Err(StoreError::InUse { directory: directory.to_owned(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(StoreError::io(&path, source)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(|source| StoreError::io(&path, source))?;
    Ok(file)
}

/// Whether there is a format file; an error if its format is not supported.
fn read_format(directory: &Path, path: &Path) -> Result<bool, StoreError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(StoreError::io(path, source)),
    };
    let Some(number) = text.trim_end().strip_prefix(FORMAT_NAME).map(str::trim) else {
        let what = format!("expected the line `{FORMAT_NAME} {FORMAT}`");
        return Err(StoreError::Damaged { file: path.display().to_string(), what });
    };
    match number.parse::<u32>() {
        Ok(number) if (1..=FORMAT).contains(&number) => Ok(true),
        Ok(number) if number > FORMAT => Err(StoreError::NewerFormat {
            directory: directory.to_owned(),
            found: number.to_string(),
            known: FORMAT,
        }),
        _ => {
            let what = format!("`{number}` is not a format version");
            Err(StoreError::Damaged { file: path.display().to_string(), what })
        }
    }
}

fn write_synced(directory: &Path, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let new = path.with_extension("new");
    let write = || {
        let mut file = private::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|source| StoreError::io(path, source))
}

fn publish(directory: &Path, from: &Path, to: &Path) -> Result<(), StoreError> {
    let publish = || {
        fs::rename(from, to)?;
        File::open(directory)?.sync_all()
    };
    publish().map_err(|source| StoreError::io(to, source))
}
