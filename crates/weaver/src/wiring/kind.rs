//! What the command needs of a kind of store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use weaver::core::clock::Clock;
use weaver::core::ports::Store;
use weaver::core::quarantine::{CheckProgress, CheckReport};

use super::{DirectoryStore, Opener};
use crate::config::Config;
use crate::exit::Failure;
use crate::finding::Finding;

/// A store at a place, not opened yet. Displayed as its URL, without its password.
///
/// # Contract
/// - Only `open_to_serve`, `init` and `migrate` make or change anything; the others leave the store as it is.
/// - What a kind does not have is refused with a message that says what to use instead.
#[async_trait]
pub(crate) trait StoreKind: fmt::Display + Send + Sync {
    /// The directory of this machine that it is in, if it is in one.
    fn place(&self) -> Option<&Path>;

    /// The process that has it open, where only one can.
    fn holder(&self) -> Option<u32>;

    /// Opens what a server serves, made if it is not there.
    async fn open_to_serve(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure>;

    /// Opens what a worker or a producer works on; it must be there.
    async fn open_to_work(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure>;

    /// Opens a store that this command looks after by itself, in a directory.
    async fn open_directory(
        &self,
        opener: &Opener<'_>,
        if_missing: IfMissing,
    ) -> Result<DirectoryStore, Failure>;

    /// Makes it, unless it is there.
    async fn init(&self, opener: &Opener<'_>) -> Result<Made, Failure>;

    /// Brings a schema up to date, or only says what that would take.
    async fn migrate(&self, dry_run: bool) -> Result<Migrated, Failure>;

    /// Reads every record while other processes may have it open; `None` for a store that has to be opened
    /// alone to be checked.
    async fn check_records(
        &self,
        config: &Config,
        clock: &Arc<dyn Clock>,
        progress: CheckProgress<'_>,
    ) -> Result<Option<CheckReport>, Failure>;

    /// What `weaver doctor` says about it. The first finding is about the store itself.
    async fn examine(&self, config: &Config, clock: &Arc<dyn Clock>) -> Vec<Finding>;
}

/// Whether a store that is not there is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Refuse,
    Make,
}

/// What `weaver store init` did.
#[derive(Debug)]
pub(crate) struct Made {
    /// False: it was there already, and is left as it is.
    pub(crate) made: bool,
    /// The version of its format, where the store has one.
    pub(crate) format: Option<u32>,
    /// What was made, a line each, where it is more than one thing.
    pub(crate) lines: Vec<String>,
}

/// What was done to a schema, or would be.
#[derive(Debug)]
pub(crate) struct Migrated {
    /// The version that it had.
    pub(crate) before: i32,
    pub(crate) steps: Vec<MigrationStep>,
}

/// One step of a schema's versions.
#[derive(Debug)]
pub(crate) struct MigrationStep {
    pub(crate) version: i32,
    pub(crate) name: String,
    pub(crate) sql: String,
}

/// Of a store that is brought up to date when it is opened.
pub(super) fn no_schema(store: &dyn StoreKind) -> Failure {
    let message = format!("{store} has no schema to migrate: it is brought up to date when it is opened");
    Failure::new(crate::exit::Exit::Usage, message).next("name a database with --store postgres://…")
}
