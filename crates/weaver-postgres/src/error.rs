//! What can go wrong between us and the server.

use weaver_core::error::{Error, Invalid};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be used.
    #[error("the PostgreSQL URL cannot be used: {0}")]
    Url(String),
    /// The server does not answer, or not to us.
    #[error("PostgreSQL at {place} cannot be used: {reason}")]
    Connect {
        /// Where, without a password.
        place: String,
        /// What the server or the network said.
        reason: String,
    },
    /// The schema was made by a newer Weaver.
    #[error(
        "schema `{schema}` is at version {found}; this Weaver knows {known}: use the newer Weaver that migrated it"
    )]
    Newer {
        /// The schema.
        schema: String,
        /// Its version.
        found: i32,
        /// Ours.
        known: i32,
    },
    /// The schema is missing or older, and was not to be changed.
    #[error("schema `{schema}` is at version {found} of {known}: run `weaver store migrate`")]
    Older {
        /// The schema.
        schema: String,
        /// Its version; 0 if there is none.
        found: i32,
        /// Ours.
        known: i32,
    },
    /// A step of the migration failed; nothing of it was kept.
    #[error("migration {version} of schema `{schema}` failed, and nothing was changed: {reason}")]
    Migrate {
        /// The schema.
        schema: String,
        /// The step.
        version: i32,
        /// What the server said.
        reason: String,
    },
}

/// What goes wrong inside a call.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server or the way to it.
    Database(sqlx::Error),
    /// An answer for the caller.
    Refused(Error),
}

impl Trouble {
    /// A row that says something no Weaver wrote.
    pub(crate) fn unreadable(what: impl std::fmt::Display) -> Self {
        Self::Refused(Error::Damaged {
            what: format!("a row in PostgreSQL ({what})"),
            way_out: "another program or a newer Weaver wrote it; `weaver store check` names the row"
                .to_owned(),
        })
    }

    /// Whether somebody's transaction holds what it needs, for longer than it waits.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55P03"))
    }

    /// Whether a row holds what the statement cannot work with (SQLSTATE classes 22 and 23).
    pub(crate) fn is_about_data(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error))
            if error.code().is_some_and(|code| code.starts_with("22") || code.starts_with("23")))
    }

    /// Whether the same call can simply be made again: the server undid it for reasons of its own.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error))
            if matches!(error.code().as_deref(), Some("40001" | "40P01")))
    }
}

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
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

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Refused(error) => error,
            Trouble::Database(error) => Self::Unavailable { reason: reason(&error) },
        }
    }
}

/// What happened, in words for people. Nothing of the connection's URL is in it.
pub(crate) fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => match error.code().as_deref() {
            Some("55P03") => {
                "PostgreSQL: another transaction holds the task; end that one, or try again later".to_owned()
            }
            Some("42P05" | "26000") => {
                "PostgreSQL: prepared statements got mixed up by a pooler in transaction mode; add `pooler=transaction` and a \
                 direct `listen_url` to the URL"
                    .to_owned()
            }
            Some("57014") => format!("PostgreSQL: {} (see `statement_timeout_ms`)", error.message()),
            Some(code) => format!("PostgreSQL: {} ({code})", error.message()),
            None => format!("PostgreSQL: {}", error.message()),
        },
        sqlx::Error::PoolTimedOut => {
            "PostgreSQL: no connection became free in time; raise `pool_max` or look at what holds them"
                .to_owned()
        }
        sqlx::Error::Io(error) => format!("PostgreSQL: the connection failed ({error})"),
        sqlx::Error::Tls(error) => format!("PostgreSQL: TLS failed ({error})"),
        other => format!("PostgreSQL: {other}"),
    }
}

/// The result of a step inside a call.
pub(crate) type Outcome<T> = Result<T, Trouble>;
