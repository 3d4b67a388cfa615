//! The only place that names a concrete store: what a store's URL means, and how it is opened.

mod check;
#[cfg(feature = "dynamodb")]
pub(crate) mod dynamodb;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use weaver::core::clock::Clock;
use weaver::core::error::Error;
use weaver::core::ports::Store;
use weaver::core::queue::memory::InMemoryQueue;
use weaver::embedded::{EmbeddedOptions, StoreError};
use weaver_server::api::Figures;

use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};

pub(crate) use weaver::embedded::{EmbeddedStore as DirectoryStore, FORMAT, Listener, Opening};

/// Either of these says that a directory was meant to be a store; opening it tells what is wrong if only one is there.
pub(crate) const FORMAT_FILE: &str = "FORMAT";
pub(crate) const DATA_FILE: &str = "weaver.redb";
pub(crate) const LOCK_FILE: &str = "LOCK";

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// In the memory of this process, and gone with it.
    Memory,
    /// In a directory of this machine.
    Directory(PathBuf),
    /// In DynamoDB: its whole URL.
    #[cfg(feature = "dynamodb")]
    DynamoDb(String),
    /// On a PostgreSQL server. Shown without its password.
    #[cfg(feature = "postgres")]
    Postgres(Box<weaver::postgres::PostgresOptions>),
}

impl StoreUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |message: String| Failure::new(Exit::Usage, message);
        let known = "use `memory:`, a directory (`./path`), `file:path`, `postgres://…` or `dynamodb://…`";
        if text.is_empty() {
            return Err(wrong("the store's URL is empty".to_owned()).next(known));
        }
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            return Ok(Self::Directory(PathBuf::from(text)));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => {
                Err(wrong(format!("`{text}`: a store in memory has no name")).next("write `memory:`"))
            }
            "file" => match rest.strip_prefix("//").unwrap_or(rest) {
                "" => Err(wrong(format!("`{text}` names no directory")).next("write `file:./path`")),
                path if rest.starts_with("//") && !path.starts_with('/') => {
                    let meant = format!("write `file:{path}` for a directory of this machine");
                    Err(wrong(format!("`{text}` names another machine")).next(meant))
                }
                path => Ok(Self::Directory(PathBuf::from(path))),
            },
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => match weaver::postgres::PostgresOptions::parse(text) {
                Ok(options) => Ok(Self::Postgres(Box::new(options))),
                Err(error) => Err(wrong(error.to_string())
                    .next("write `postgres://user:password@host/database`; docs/operating/postgres.md has the options")),
            },
            #[cfg(not(feature = "postgres"))]
            "postgres" | "postgresql" => Err(lacking(text, "PostgreSQL", "postgres")),
            #[cfg(feature = "dynamodb")]
            "dynamodb" => Ok(Self::DynamoDb(text.to_owned())),
            #[cfg(not(feature = "dynamodb"))]
            "dynamodb" => Err(lacking(text, "DynamoDB", "dynamodb")),
            other => Err(wrong(format!("`{text}`: there is no store of the kind `{other}:`")).next(known)),
        }
    }

    /// Opens what is there. A name that was mistyped must not make an empty store.
    pub(crate) fn open_existing(&self, opener: &Opener) -> Result<DirectoryStore, Failure> {
        let directory = self.directory()?;
        if !is_store(directory) {
            let shown = directory.display();
            return Err(Failure::new(Exit::NotFound, format!("there is no store in {shown}")).next(format!(
                "make one with `weaver store init --store {shown}`, or name another with --store"
            )));
        }
        opener.open(directory)
    }

    /// Opens what is there, or makes it.
    pub(crate) fn open_or_make(&self, opener: &Opener) -> Result<DirectoryStore, Failure> {
        opener.open(self.directory()?)
    }

    /// Opens what a server serves, made if it is not there.
    pub(crate) async fn open_to_serve(self, opener: Opener) -> Result<Arc<dyn Store>, Failure> {
        match self {
            Self::Memory => Ok(Arc::new(InMemoryQueue::new(Arc::clone(&opener.clock)))),
            Self::Directory(_) => {
                let opened = tokio::task::spawn_blocking(move || self.open_or_make(&opener)).await;
                // A panic of the work is one of the command.
                let opened =
                    opened.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
                Ok(Arc::new(opened?))
            }
            #[cfg(feature = "dynamodb")]
            Self::DynamoDb(url) => {
                let opened = tokio::task::spawn_blocking(move || opener.open_dynamodb(&url, true)).await;
                opened.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(options) => {
                let options = opener.with_retention(*options);
                Ok(Arc::new(weaver::postgres::PostgresStore::open(options, opener.clock).await?))
            }
        }
    }

    /// Brings a schema up to date, or only says what that would take.
    #[cfg(feature = "postgres")]
    pub(crate) async fn migrate(&self, dry_run: bool) -> Result<weaver::postgres::Migrations, Failure> {
        match self {
            Self::Postgres(options) => Ok(weaver::postgres::PostgresStore::migrate(options, dry_run).await?),
            _ => {
                let message =
                    format!("{self} has no schema to migrate: it is brought up to date when it is opened");
                Err(Failure::new(Exit::Usage, message).next("name a database with --store postgres://…"))
            }
        }
    }

    /// The guards of a schema that are missing or disabled.
    #[cfg(feature = "postgres")]
    pub(crate) async fn weak_guards(&self) -> Result<Vec<weaver::postgres::WeakGuard>, Failure> {
        match self {
            Self::Postgres(options) => Ok(weaver::postgres::PostgresStore::weak_guards(options).await?),
            _ => Ok(Vec::new()),
        }
    }

    /// Opens what a worker or a producer works on; it must be there. Blocks.
    pub(crate) fn open_to_work(&self, opener: &Opener) -> Result<Arc<dyn Store>, Failure> {
        match self {
            #[cfg(feature = "dynamodb")]
            Self::DynamoDb(url) => opener.open_dynamodb(url, false),
            #[cfg(feature = "postgres")]
            Self::Postgres(options) => {
                let mut options = opener.with_retention(*options.clone());
                options.migrate = false;
                let open = weaver::postgres::PostgresStore::open(options, Arc::clone(&opener.clock));
                Ok(Arc::new(tokio::runtime::Handle::current().block_on(open)?))
            }
            _ => Ok(Arc::new(self.open_existing(opener)?)),
        }
    }

    /// The directory; a failure if it is none.
    pub(crate) fn directory(&self) -> Result<&Path, Failure> {
        let directory = match self {
            Self::Directory(directory) => directory,
            Self::Memory => {
                let message = "a store in memory is gone with its process: there is none to open";
                return Err(Failure::new(Exit::Usage, message).next("name a directory with --store"));
            }
            #[cfg(feature = "dynamodb")]
            Self::DynamoDb(_) => {
                let message =
                    "this command looks after a store in a directory; DynamoDB has backups of its own";
                return Err(Failure::new(Exit::Usage, message).next("name a directory with --store"));
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => {
                let message =
                    format!("{self} is looked after by PostgreSQL's own tools, not by this command");
                return Err(Failure::new(Exit::Usage, message).next(
                    "back it up with pg_dump, check it with pg_amcheck; `weaver store migrate` brings its schema up \
                     to date (docs/operating/postgres.md)",
                ));
            }
        };
        if directory.exists() && !directory.is_dir() {
            let message = format!("{} is a file, and a store is a directory", directory.display());
            return Err(Failure::new(Exit::Usage, message).next("name a directory with --store"));
        }
        Ok(directory)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => out.write_str("memory:"),
            Self::Directory(path) => path.display().fmt(out),
            #[cfg(feature = "dynamodb")]
            Self::DynamoDb(url) => out.write_str(url),
            #[cfg(feature = "postgres")]
            Self::Postgres(options) => write!(out, "{}", options.redacted()),
        }
    }
}

/// Whether somebody made a store there, complete or not.
pub(crate) fn is_store(directory: &Path) -> bool {
    directory.join(FORMAT_FILE).exists() || directory.join(DATA_FILE).exists()
}

/// What opening a store needs besides its place.
#[derive(Clone)]
pub(crate) struct Opener {
    clock: Arc<dyn Clock>,
    options: EmbeddedOptions,
    listener: Listener,
    #[cfg(feature = "dynamodb")]
    allow_aws: bool,
    /// Where a store that has figures of its own puts them.
    figures: Arc<OnceLock<Figures>>,
}

impl Opener {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>, listener: Listener) -> Self {
        let options =
            EmbeddedOptions { retention: config.span(keys::RETENTION), ..EmbeddedOptions::default() };
        Self {
            clock,
            options,
            listener,
            #[cfg(feature = "dynamodb")]
            allow_aws: config.text(keys::DYNAMODB_ALLOW_AWS) == "true",
            figures: Arc::default(),
        }
    }

    /// Where to find the store's own figures once it is open.
    pub(crate) fn figures(&self) -> Arc<OnceLock<Figures>> {
        Arc::clone(&self.figures)
    }

    /// The options of a database with the retention of the settings.
    #[cfg(feature = "postgres")]
    fn with_retention(
        &self,
        mut options: weaver::postgres::PostgresOptions,
    ) -> weaver::postgres::PostgresOptions {
        options.retention = self.options.retention;
        options
    }

    /// Called where blocking is allowed, inside a runtime.
    #[cfg(feature = "dynamodb")]
    fn open_dynamodb(&self, url: &str, may_make: bool) -> Result<Arc<dyn Store>, Failure> {
        let connection = dynamodb::connection_to(url, self.allow_aws)?;
        tokio::runtime::Handle::current().block_on(dynamodb::open(&connection, self, may_make))
    }

    fn open(&self, directory: &Path) -> Result<DirectoryStore, Failure> {
        let opened = DirectoryStore::open_with(
            directory,
            Arc::clone(&self.clock),
            self.options,
            Arc::clone(&self.listener),
        );
        opened.map_err(Failure::from)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::InUse { .. } | StoreError::Store(Error::Unavailable { .. }) => Exit::Busy,
            StoreError::Missing { .. }
            | StoreError::Damaged { .. }
            | StoreError::Store(Error::Damaged { .. }) => Exit::Damaged,
            StoreError::NewerFormat { .. } | StoreError::Occupied { .. } | StoreError::ReadOnly { .. } => {
                Exit::Refused
            }
            _ => Exit::Failed,
        };
        let failure = Self::new(exit, error.to_string());
        match error {
            // The others say in their message what to do.
            StoreError::Io { .. } => {
                failure.next("check the path and its disk: `weaver doctor` looks at both")
            }
            _ => failure,
        }
    }
}

#[cfg(feature = "postgres")]
impl From<weaver::postgres::OpenError> for Failure {
    fn from(error: weaver::postgres::OpenError) -> Self {
        use weaver::postgres::OpenError;
        let exit = match &error {
            OpenError::Url(_) => Exit::Usage,
            OpenError::Connect { .. } => Exit::Busy,
            OpenError::Newer { .. } | OpenError::Older { .. } => Exit::Refused,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

#[cfg(not(all(feature = "postgres", feature = "dynamodb")))]
fn lacking(text: &str, what: &str, feature: &str) -> Failure {
    // What follows the scheme may hold a password.
    let scheme = text.split(':').next().unwrap_or_default();
    let message = format!("`{scheme}://…`: this build of Weaver has no {what} store");
    Failure::new(Exit::Usage, message)
        .next(format!("use a build with the cargo feature `{feature}`, or a directory: --store ./path"))
}

/// A letter, then letters and digits: `C` or `./a` are no schemes.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(text: &str) -> StoreUrl {
        StoreUrl::Directory(PathBuf::from(text))
    }

    #[test]
    fn paths_with_and_without_a_scheme_are_directories() {
        for text in ["./data", "data", "../a:b", "/var/lib/weaver"] {
            assert_eq!(StoreUrl::parse(text), Ok(directory(text)));
            assert_eq!(StoreUrl::parse(&format!("file:{text}")), Ok(directory(text)));
        }
        assert_eq!(StoreUrl::parse("file:///var/lib/weaver"), Ok(directory("/var/lib/weaver")));
        assert_eq!(StoreUrl::parse("memory:"), Ok(StoreUrl::Memory));
    }

    #[test]
    fn a_store_this_build_lacks_is_answered_with_its_feature_and_without_its_password() {
        let mut lacking = Vec::new();
        if !cfg!(feature = "postgres") {
            lacking.push(("postgres://u:secret@h/db", "`postgres`"));
        }
        if !cfg!(feature = "dynamodb") {
            lacking.push(("dynamodb://localhost:8000", "`dynamodb`"));
        }
        for (text, feature) in lacking {
            let failure = StoreUrl::parse(text).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.next.as_ref().is_some_and(|next| next.contains(feature)), "{failure:?}");
            assert!(!format!("{failure:?}").contains("secret"));
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_database_is_shown_without_its_password() {
        let url = StoreUrl::parse("postgres://u:secret@h:5433/db?schema=x").unwrap();
        assert_eq!(url.to_string(), "postgres://u@h:5433/db");
        assert!(!format!("{url:?}").contains("secret"));
        let failure = StoreUrl::parse("postgres://u:secret@h/db?shema=x").unwrap_err();
        assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
    }

    #[test]
    fn what_is_no_url_of_a_store_is_refused_with_those_there_are() {
        for text in ["", "redis://localhost", "memory:x", "file:", "file://host/path"] {
            let failure = StoreUrl::parse(text).unwrap_err();
            assert!(failure.next.is_some(), "{text}: {failure:?}");
        }
    }
}
