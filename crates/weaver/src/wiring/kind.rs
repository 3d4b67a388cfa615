//! The interface of a kind of store.

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

/// A store that is not opened yet. Displayed as its URL, without its password.
///
/// # Contract
/// - Only `open_to_serve`, `init` and `migrate` create or change anything.
/// - Unsupported operations are refused with a message that says what to use instead.
#[async_trait]
pub(crate) trait StoreKind: fmt::Display + Send + Sync {
    /// Its local directory, if it is in one.
    fn place(&self) -> Option<&Path>;

    /// The process that has it open, if only one can.
    fn holder(&self) -> Option<u32>;

    /// Opens it for a server; creates it if it does not exist.
    async fn open_to_serve(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure>;

    /// Opens it for a worker or producer; it must exist.
    async fn open_to_work(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure>;

    /// Opens a store in a directory exclusively, for maintenance.
    async fn open_directory(
        &self,
        opener: &Opener<'_>,
        if_missing: IfMissing,
    ) -> Result<DirectoryStore, Failure>;

    /// Creates it unless it exists.
    async fn init(&self, opener: &Opener<'_>) -> Result<Made, Failure>;

    /// Migrates the schema, or only returns the steps.
    async fn migrate(&self, dry_run: bool) -> Result<Migrated, Failure>;

    /// Reads every record while other processes may have it open; `None` for a store that must be opened
    /// exclusively to be checked.
    async fn check_records(
        &self,
        config: &Config,
        clock: &Arc<dyn Clock>,
        progress: CheckProgress<'_>,
    ) -> Result<Option<CheckReport>, Failure>;

    /// The findings of `weaver doctor`; the first is about the store itself.
    async fn examine(&self, config: &Config, clock: &Arc<dyn Clock>) -> Vec<Finding>;
}

/// Whether a missing store is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Refuse,
    Make,
}

/// The result of `weaver store init`.
#[derive(Debug)]
pub(crate) struct Made {
    /// False: it existed and is unchanged.
    pub(crate) made: bool,
    /// The format version, if the store has one.
    pub(crate) format: Option<u32>,
    /// The created tables, a line each.
    pub(crate) lines: Vec<String>,
}

/// The steps of a migration, applied or planned.
#[derive(Debug)]
pub(crate) struct Migrated {
    /// The version before the migration; 0: no schema.
    pub(crate) before: i32,
    pub(crate) steps: Vec<MigrationStep>,
}

#[derive(Debug)]
pub(crate) struct MigrationStep {
    pub(crate) version: i32,
    pub(crate) name: String,
    pub(crate) sql: String,
}

/// For stores that migrate when they are opened.
pub(super) fn no_schema(store: &dyn StoreKind) -> Failure {
    let message = format!("{store} has no schema to migrate: it migrates when it is opened");
    Failure::new(crate::exit::Exit::Usage, message).next("name a database with --store postgres://…")
}
