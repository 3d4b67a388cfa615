//! Why a store could not be opened, checked, copied or read in; each names the file and the way out.

use std::io;
use std::path::PathBuf;

use crate::trouble::Trouble;

/// Why something with a whole store did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has it open.
    #[error("{} is in use by process {pid}: stop that process, or open another directory", .directory.display())]
    InUse {
        /// The store.
        directory: PathBuf,
        /// Who has it, as it wrote down itself; `?` if that cannot be read.
        pid: String,
    },
    /// A later version of Weaver wrote it.
    #[error(
        "{} has format {found}, and this version of Weaver reads up to {known}: use the version that wrote it, or export \
         with that one and import with this one",
        .directory.display()
    )]
    NewerFormat {
        /// The store.
        directory: PathBuf,
        /// Its format.
        found: String,
        /// The latest known here.
        known: u32,
    },
    /// A file is not there although another says it should be.
    #[error("{} is missing: {way_out}", .file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// What to do.
        way_out: String,
    },
    /// What was read is not what was written.
    #[error(
        "{file} is damaged ({what}): restore the latest backup of its directory; what is in the file was not changed"
    )]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A backup would overwrite a store.
    #[error("{} holds a store already: give the backup a directory of its own", .directory.display())]
    Occupied {
        /// The directory.
        directory: PathBuf,
    },
    /// It may be read but not written.
    #[error("{} cannot be written ({source}): give this user the right to write to it, or open another directory", .path.display())]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A line of an export could not be read in; nothing of it, or only the lines before it, were.
    #[error(
        "line {line} of the export: {what}; correct it and import again (what is already there is left as it is)"
    )]
    Import {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The store does not answer any more.
    #[error("{0}")]
    Store(#[from] weaver_core::error::Error),
}

impl StoreError {
    /// What kept a store from being read: rows that are not what was written, or a disk that does not answer.
    pub(crate) fn of_trouble(file: String, trouble: Trouble) -> Self {
        match trouble {
            Trouble::Refused(error) => Self::Damaged { file, what: error.to_string() },
            Trouble::Broken(reason) => Self::Io { path: file, source: io::Error::other(reason) },
        }
    }

    pub(crate) fn io(path: impl AsRef<std::path::Path>, source: io::Error) -> Self {
        let path = path.as_ref();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path: path.to_owned(), source }
            }
            io::ErrorKind::InvalidData => {
                Self::Damaged { file: path.display().to_string(), what: source.to_string() }
            }
            io::ErrorKind::UnexpectedEof => {
                Self::Damaged { file: path.display().to_string(), what: "it was cut short".to_owned() }
            }
            _ => Self::Io { path: path.display().to_string(), source },
        }
    }
}
