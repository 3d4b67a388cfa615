//! The durable store in a directory of this machine.

mod examine;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use weaver::core::clock::Clock;
use weaver::core::error::Error;
use weaver::core::ports::Store;
use weaver::core::quarantine::{CheckProgress, CheckReport};
use weaver::embedded::{EmbeddedOptions, StoreError};

use super::kind::no_schema;
use super::{IfMissing, Kind, Made, Migrated, Opener, StoreKind, StoreUrl};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::finding::Finding;

pub(crate) use weaver::embedded::{EmbeddedStore as DirectoryStore, FORMAT, Listener, Opening};

pub(super) const KIND: Kind =
    Kind { schemes: &["file"], example: "a directory (`./path`), `file:path`", parse };

/// Either file marks a directory as a store; opening reports what is wrong if only one exists.
const FORMAT_FILE: &str = "FORMAT";
const DATA_FILE: &str = "weaver.redb";
const LOCK_FILE: &str = "LOCK";

#[derive(Clone)]
pub(super) struct Embedded {
    directory: PathBuf,
}

fn parse(text: &str) -> Result<StoreUrl, Failure> {
    let wrong = |message: String, next: String| Err(Failure::new(Exit::Usage, message).next(next));
    let rest = text.strip_prefix("file:").unwrap_or(text);
    match rest.strip_prefix("//").unwrap_or(rest) {
        "" => wrong(format!("`{text}` names no directory"), "write `file:./path`".to_owned()),
        path if rest.starts_with("//") && !path.starts_with('/') => {
            let meant = format!("write `file:{path}` for a local directory");
            wrong(format!("`{text}` is on another machine"), meant)
        }
        path => Ok(StoreUrl::new(Embedded::at(PathBuf::from(path)))),
    }
}

impl fmt::Display for Embedded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.directory.display().fmt(out)
    }
}

impl Embedded {
    pub(super) fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Fails if the path is a file.
    fn directory(&self) -> Result<&Path, Failure> {
        if self.directory.exists() && !self.directory.is_dir() {
            let message = format!("{self} is a file; a store is a directory");
            return Err(Failure::new(Exit::Usage, message).next("name a directory with --store"));
        }
        Ok(&self.directory)
    }

    /// Opens on the blocking pool.
    async fn open(&self, opener: &Opener<'_>, if_missing: IfMissing) -> Result<DirectoryStore, Failure> {
        let (store, terms) = (self.clone(), Terms::of(opener));
        let opened = tokio::task::spawn_blocking(move || store.open_by(terms, if_missing)).await;
        // Resumes a panic of the work.
        opened.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
    }

    /// A mistyped path must not create an empty store.
    fn open_by(&self, terms: Terms, if_missing: IfMissing) -> Result<DirectoryStore, Failure> {
        let directory = self.directory()?;
        if if_missing == IfMissing::Refuse && !is_store(directory) {
            return Err(Failure::new(Exit::NotFound, format!("no store in {self}")).next(format!(
                "create one with `weaver store init --store {self}`, or name another with --store"
            )));
        }
        Ok(DirectoryStore::open_with(directory, terms.clock, terms.options, terms.listener)?)
    }
}

/// Owned, for the blocking pool.
struct Terms {
    clock: Arc<dyn Clock>,
    options: EmbeddedOptions,
    listener: Listener,
}

impl Terms {
    fn of(opener: &Opener<'_>) -> Self {
        let options =
            EmbeddedOptions { retention: opener.config.span(keys::RETENTION), ..EmbeddedOptions::default() };
        Self { clock: Arc::clone(&opener.clock), options, listener: Arc::clone(&opener.listener) }
    }
}

#[async_trait]
impl StoreKind for Embedded {
    fn place(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn holder(&self) -> Option<u32> {
        std::fs::read_to_string(self.directory.join(LOCK_FILE)).ok()?.trim().parse().ok()
    }

    async fn open_to_serve(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure> {
        Ok(Arc::new(self.open(opener, IfMissing::Make).await?))
    }

    async fn open_to_work(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure> {
        Ok(Arc::new(self.open(opener, IfMissing::Refuse).await?))
    }

    async fn open_directory(
        &self,
        opener: &Opener<'_>,
        if_missing: IfMissing,
    ) -> Result<DirectoryStore, Failure> {
        self.open(opener, if_missing).await
    }

    async fn init(&self, opener: &Opener<'_>) -> Result<Made, Failure> {
        let made = !is_store(self.directory()?);
        let store = self.open(opener, IfMissing::Make).await?;
        // Closing blocks, too.
        let closed = tokio::task::spawn_blocking(move || drop(store)).await;
        closed.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
        Ok(Made { made, format: Some(FORMAT), lines: Vec::new() })
    }

    async fn migrate(&self, _: bool) -> Result<Migrated, Failure> {
        Err(no_schema(self))
    }

    async fn check_records(
        &self,
        _: &Config,
        _: &Arc<dyn Clock>,
        _: CheckProgress<'_>,
    ) -> Result<Option<CheckReport>, Failure> {
        Ok(None)
    }

    async fn examine(&self, _: &Config, _: &Arc<dyn Clock>) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// Whether a store was created there, complete or not.
fn is_store(directory: &Path) -> bool {
    directory.join(FORMAT_FILE).exists() || directory.join(DATA_FILE).exists()
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
            // The other messages say what to do.
            StoreError::Io { .. } => failure.next("check the path and its disk: `weaver doctor`"),
            _ => failure,
        }
    }
}
