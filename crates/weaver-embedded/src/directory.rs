//! The directory of a store: who has it, which format it is in, and how it comes to be.
//!
//! ```text
//! LOCK         locked by the process that has the store open; its pid is inside
//! FORMAT       one line: `weaver-embedded 1`
//! weaver.redb  everything else
//! ```
//!
//! All of them are their owner's alone.
//!
//! A store is made in an order that a crash can interrupt anywhere: the data under another name, then
//! `FORMAT`, then the data gets its name. Data without `FORMAT`, or `FORMAT` without data, is therefore
//! always somebody's deletion, and is refused: an empty store in place of a lost one would be the worst
//! answer.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::medium::ROOM_EXTENSION;
use crate::private;

/// The format this version writes, and the latest it reads.
pub const FORMAT: u32 = 1;
const FORMAT_NAME: &str = "weaver-embedded";
const DATA_FILE: &str = "weaver.redb";
const NEW_DATA_FILE: &str = "weaver.redb.new";
const FORMAT_FILE: &str = "FORMAT";
const LOCK_FILE: &str = "LOCK";
/// Every file of a store.
const FILES: [&str; 7] =
    [DATA_FILE, NEW_DATA_FILE, FORMAT_FILE, LOCK_FILE, "FORMAT.new", "weaver.room", "weaver.redb.room"];
/// What servers of earlier versions left beside them.
const LEFT_FILES: [&str; 2] = ["root.token", "server.address"];

/// A directory that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Takes the directory, making it if there is none. `create` makes the data file of a new store.
    pub(crate) fn take(
        path: &Path,
        create: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        private::make_directory(path).map_err(|source| StoreError::io(path, source))?;
        private::tighten(path, &FILES, |name| FILES.contains(&name) || LEFT_FILES.contains(&name));
        let lock = lock(path)?;
        // Left by a process that was killed while it looked for room.
        let _ = fs::remove_file(path.join(DATA_FILE).with_extension(ROOM_EXTENSION));
        let (data, new, format) = (path.join(DATA_FILE), path.join(NEW_DATA_FILE), path.join(FORMAT_FILE));
        match (read_format(path, &format)?, data.exists(), new.exists()) {
            (true, true, _) => {}
            // The last step of making it was interrupted.
            (true, false, true) => publish(path, &new, &data)?,
            (true, false, false) => {
                let way_out =
                    "restore the latest backup; if the tasks in it are not needed, remove the directory";
                return Err(StoreError::Missing { file: data, way_out: way_out.to_owned() });
            }
            (false, true, _) => {
                let way_out = format!(
                    "restore it from the latest backup, or write the line `{FORMAT_NAME} {FORMAT}` into it if this \
                     version of Weaver was the last to use the store"
                );
                return Err(StoreError::Missing { file: format, way_out });
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

/// Whether there is a format file; refuses one it does not know.
fn read_format(directory: &Path, path: &Path) -> Result<bool, StoreError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(StoreError::io(path, source)),
    };
    let Some(number) = text.trim_end().strip_prefix(FORMAT_NAME).map(str::trim) else {
        let what = format!("it should say `{FORMAT_NAME} {FORMAT}`");
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
            let what = format!("`{number}` is not a format");
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
