//! What stops a piece of work: an answer to its caller, or a store that must be opened again.

use std::fmt;

use weaver_core::error::{Error, Invalid};

use crate::codec::{Damage, Undecodable};
use crate::keys;

/// Why work did not get done.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The caller gets this; nothing was written for it, and others go on.
    Refused(Error),
    /// The file can no longer be relied on: everybody in the batch fails, and it is opened again.
    Broken(String),
}

pub(crate) type Outcome<T> = Result<T, Trouble>;

const WAY_OUT: &str = "run `weaver store check`, and restore the latest backup if it reports damage";

impl Trouble {
    /// A row that is not what was written.
    pub(crate) fn damaged(key: &[u8], why: impl std::fmt::Display) -> Self {
        let what = format!("{}: {why}; it", keys::describe(key));
        Self::Refused(Error::Damaged { what, way_out: WAY_OUT.to_owned() })
    }

    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Broken(reason) => Error::Unavailable { reason },
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(out),
            Self::Broken(reason) => out.write_str(reason),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Invalid> for Trouble {
    fn from(invalid: Invalid) -> Self {
        Self::Refused(invalid.into())
    }
}

impl From<redb::StorageError> for Trouble {
    fn from(error: redb::StorageError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<redb::TableError> for Trouble {
    fn from(error: redb::TableError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<redb::TransactionError> for Trouble {
    fn from(error: redb::TransactionError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<redb::CommitError> for Trouble {
    fn from(error: redb::CommitError) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Names the row that could not be read.
pub(crate) trait OfRow<T> {
    fn of_row(self, key: &[u8]) -> Outcome<T>;
}

impl<T> OfRow<T> for Result<T, Undecodable> {
    fn of_row(self, key: &[u8]) -> Outcome<T> {
        self.map_err(|undecodable| Trouble::damaged(key, undecodable))
    }
}

impl<T> OfRow<T> for Result<T, Damage> {
    fn of_row(self, key: &[u8]) -> Outcome<T> {
        self.map_err(|damage| Trouble::damaged(key, damage))
    }
}
