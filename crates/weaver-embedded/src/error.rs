//! Errors of opening, checking, copying and importing a store. Each names the file and what to do.

use std::io;
use std::path::PathBuf;

use crate::fault::StoreFault;

/// Why an operation on a whole store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has the store open.
    #[error("{} is in use by process {pid}: stop that process, or open another directory", .directory.display())]
    InUse {
        /// Directory as the caller passed it.
        directory: PathBuf,
        /// Content of `LOCK`, written by the process that holds it; `?` if it is empty or unreadable.
        pid: String,
    },
    /// A later version of Weaver wrote it.
    #[error(
        "{} has format {found}, and this version of Weaver reads up to {known}: use the version that wrote it, or export \
         with that one and import with this one",
        .directory.display()
    )]
    NewerFormat {
        /// Directory as the caller passed it.
        directory: PathBuf,
        /// The format number in `FORMAT`.
        found: String,
        /// The newest format that this version reads.
        known: u32,
    },
    /// Either `FORMAT` or the data file is missing while the other is there.
    #[error("{} is missing: {remedy}", .file.display())]
    Missing {
        /// Path of the missing file.
        file: PathBuf,
        /// The next step for the operator.
        remedy: String,
    },
    /// A checksum or the structure of a file is wrong.
    #[error(
        "{file} is damaged ({what}): restore the latest backup of its directory; the file was not modified"
    )]
    Damaged {
        /// Path of the damaged file, or the medium's name.
        file: String,
        /// The check that failed.
        what: String,
    },
    /// A backup would overwrite a store.
    #[error("{} already contains a store: choose an empty directory for the backup", .directory.display())]
    Occupied {
        /// The backup's target directory.
        directory: PathBuf,
    },
    /// The file or directory is not writable.
    #[error("{} is not writable ({source}): grant this user write permission, or use another directory", .path.display())]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Any other I/O error.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A line of an export is invalid. Lines before it may have been imported, it and later ones were not.
    #[error(
        "line {line} of the export: {what}; fix it and import again (existing records are left unchanged)"
    )]
    Import {
        /// Line number, from 1.
        line: u64,
        /// Why the line is refused.
        what: String,
    },
    /// The store failed while the operation ran.
    #[error("{0}")]
    Store(#[from] weaver_core::error::Error),
}

impl StoreError {
    /// A fault while the store was read: damaged rows, or a failing disk.
    pub(crate) fn from_fault(file: String, fault: StoreFault) -> Self {
        match fault {
            StoreFault::Refused(error) => Self::Damaged { file, what: error.to_string() },
            StoreFault::Broken(reason) => Self::Io { path: file, source: io::Error::other(reason) },
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
                Self::Damaged { file: path.display().to_string(), what: "the file is truncated".to_owned() }
            }
            _ => Self::Io { path: path.display().to_string(), source },
        }
    }
}
