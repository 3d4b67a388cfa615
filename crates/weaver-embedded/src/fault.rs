//! Faults of a request: an error for its caller alone, or one that fails the batch and reopens the store.

use std::fmt;

use weaver_core::error::{Error, Invalid};

use crate::codec::{Damage, Undecodable};
use crate::keys;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum StoreFault {
    /// The caller gets this error; nothing was written for it, and the rest of the batch goes on.
    Refused(Error),
    /// The database handle is unusable: every request of the batch fails, and the file is reopened.
    Broken(String),
}

pub(crate) type StoreResult<T> = Result<T, StoreFault>;

const REMEDY: &str = "run `weaver store check`, and restore the latest backup if it reports damage";

impl StoreFault {
    /// A damaged row, described by its key; only the caller of this request fails.
    pub(crate) fn damaged(key: &[u8], why: impl std::fmt::Display) -> Self {
        let what = format!("{}: {why}; it", keys::describe(key));
        Self::Refused(Error::Damaged { what, remedy: REMEDY.to_owned() })
    }

    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Broken(reason) => Error::Unavailable { reason },
        }
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(out),
            Self::Broken(reason) => out.write_str(reason),
        }
    }
}

impl From<Error> for StoreFault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Invalid> for StoreFault {
    fn from(invalid: Invalid) -> Self {
        Self::Refused(invalid.into())
    }
}

impl From<redb::StorageError> for StoreFault {
    fn from(error: redb::StorageError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<redb::TableError> for StoreFault {
    fn from(error: redb::TableError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<redb::TransactionError> for StoreFault {
    fn from(error: redb::TransactionError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<redb::CommitError> for StoreFault {
    fn from(error: redb::CommitError) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Adds the row's key to a decoding error.
pub(crate) trait OfRow<T> {
    fn of_row(self, key: &[u8]) -> StoreResult<T>;
}

impl<T> OfRow<T> for Result<T, Undecodable> {
    fn of_row(self, key: &[u8]) -> StoreResult<T> {
        self.map_err(|undecodable| StoreFault::damaged(key, undecodable))
    }
}

impl<T> OfRow<T> for Result<T, Damage> {
    fn of_row(self, key: &[u8]) -> StoreResult<T> {
        self.map_err(|damage| StoreFault::damaged(key, damage))
    }
}
