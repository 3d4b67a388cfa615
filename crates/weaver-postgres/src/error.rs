//! Errors: opening a store, and faults inside a port call.

use weaver_core::error::{Error, Invalid};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is malformed, or has an unknown option.
    #[error("invalid PostgreSQL URL: {0}")]
    Url(String),
    /// The server is unreachable, refuses the login, or fails the first statement.
    #[error("cannot connect to PostgreSQL at {server}: {reason}")]
    Connect {
        /// The URL without its password.
        server: String,
        /// The error of the server or the network.
        reason: String,
    },
    /// A newer Weaver migrated the schema.
    #[error(
        "schema `{schema}` is at version {found}; this Weaver knows {known}: use the newer Weaver that migrated it"
    )]
    Newer {
        /// The name of the schema.
        schema: String,
        /// The version found, greater than `known`.
        found: i32,
        /// The version that this Weaver needs: [`SCHEMA_VERSION`](crate::SCHEMA_VERSION).
        known: i32,
    },
    /// The schema is missing or older, and [`migrate`](crate::PostgresOptions::migrate) is off.
    #[error("schema `{schema}` is at version {found} of {known}: run `weaver store migrate`")]
    Older {
        /// The name of the schema.
        schema: String,
        /// The version found; 0 if there is no schema.
        found: i32,
        /// The version that this Weaver needs: [`SCHEMA_VERSION`](crate::SCHEMA_VERSION).
        known: i32,
    },
    /// A migration failed; its transaction was rolled back.
    #[error("migration {version} of schema `{schema}` failed and was rolled back: {reason}")]
    Migrate {
        /// The name of the schema.
        schema: String,
        /// The migration that failed; 0 before the first.
        version: i32,
        /// The error of the server or the network.
        reason: String,
    },
}

/// A fault inside a port call.
#[derive(Debug)]
pub(crate) enum StoreFault {
    /// The server or the connection failed.
    Database(sqlx::Error),
    /// An error that the caller gets as it is.
    Refused(Error),
}

impl StoreFault {
    /// A row that no Weaver of this version wrote.
    pub(crate) fn unreadable(what: impl std::fmt::Display) -> Self {
        Self::Refused(Error::Damaged {
            what: format!("a row in PostgreSQL ({what})"),
            remedy: "another program or a newer Weaver wrote it; `weaver store check` names the row"
                .to_owned(),
        })
    }

    /// Whether another transaction held a lock for longer than `lock_timeout`.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55P03"))
    }

    /// Whether the contents of a row made the statement fail (SQLSTATE classes 22 and 23).
    pub(crate) fn is_about_data(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error))
            if error.code().is_some_and(|code| code.starts_with("22") || code.starts_with("23")))
    }

    /// Whether the call can be retried: serialization failure or deadlock, rolled back by the server.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error))
            if matches!(error.code().as_deref(), Some("40001" | "40P01")))
    }
}

impl From<sqlx::Error> for StoreFault {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
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

impl From<StoreFault> for Error {
    fn from(fault: StoreFault) -> Self {
        match fault {
            StoreFault::Refused(error) => error,
            StoreFault::Database(error) => Self::Unavailable { reason: reason(&error) },
        }
    }
}

/// The message for operators. It never contains the URL, and so no password.
pub(crate) fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => match error.code().as_deref() {
            Some("55P03") => {
                "PostgreSQL: another transaction has locked the task; end it or retry later".to_owned()
            }
            Some("42P05" | "26000") => {
                "PostgreSQL: a pooler in transaction mode mixed up prepared statements; add \
                 `pooler=transaction` and a direct `listen_url` to the URL"
                    .to_owned()
            }
            Some("57014") => format!("PostgreSQL: {} (see `statement_timeout_ms`)", error.message()),
            Some(code) => format!("PostgreSQL: {} ({code})", error.message()),
            None => format!("PostgreSQL: {}", error.message()),
        },
        sqlx::Error::PoolTimedOut => {
            "PostgreSQL: timed out waiting for a free connection; raise `pool_max` or `acquire_timeout_ms`"
                .to_owned()
        }
        sqlx::Error::Io(error) => format!("PostgreSQL: connection failed ({error})"),
        sqlx::Error::Tls(error) => format!("PostgreSQL: TLS failed ({error})"),
        other => format!("PostgreSQL: {other}"),
    }
}

/// The result of a step inside a port call; the call itself answers with core's [`Error`].
pub(crate) type Result<T, E = StoreFault> = std::result::Result<T, E>;
