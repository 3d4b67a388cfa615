//! `weaver store …`: maintenance of a store that no other process has open.

mod backup;
mod check;
mod compact;
mod export;
mod import;
mod init;
mod migrate;

use std::sync::{Arc, OnceLock};

use clap::{Args, Subcommand};
use weaver::core::ports::Store;
use weaver_server::StoreMetrics;

use crate::cli::{Context, StoreArgs};
use crate::config::keys;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, with_progress};
use crate::wiring::{DirectoryStore, IfMissing, Listener, Made, Opener, Opening, StoreUrl};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver store init\n  weaver store check --store ./weaver-data\n  \
    weaver store backup ./backup-1\n\nA directory is open in one process at a time: stop `weaver serve` or the worker first.")]
pub(crate) enum Command {
    /// Create a store
    Init(InitArgs),
    /// Read every record and list the unreadable ones; in a directory, verify all checksums too
    Check(CheckArgs),
    /// Compact the file and return unused space to the file system
    Compact(CompactArgs),
    /// Copy the store to another directory
    Backup(backup::BackupArgs),
    /// Export all records as JSON lines
    Export(export::ExportArgs),
    /// Import JSON lines written by `export`
    Import(import::ImportArgs),
    /// Migrate the schema of a PostgreSQL store
    Migrate(migrate::MigrateArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver store init\n  weaver store init --store ./elsewhere\n\n\
    An existing store is left unchanged.")]
pub(crate) struct InitArgs {
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver store check\n  weaver store check --store ./backup-1 --output json\n  \
    weaver store check --store postgres://db.example.org/jobs\n\n\
    Read-only. PostgreSQL and DynamoDB can be checked while servers use them.\n\
    Exit code 5: records are damaged; 6: only a newer Weaver can read them."
)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver store compact\n  weaver store compact --store ./weaver-data")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    store: StoreArgs,
}

impl Command {
    pub(crate) fn store(&self) -> &StoreArgs {
        match self {
            Self::Init(args) => &args.store,
            Self::Check(args) => &args.store,
            Self::Compact(args) => &args.store,
            Self::Backup(args) => &args.store,
            Self::Export(args) => &args.store,
            Self::Import(args) => &args.store,
            Self::Migrate(args) => &args.store,
        }
    }
}

pub(crate) async fn run(command: Command, context: Context) -> Result<Exit, Failure> {
    let task = StoreTask::new(context)?;
    match command {
        Command::Init(_) => init::run(&task).await,
        Command::Check(_) => check::run(&task).await,
        Command::Compact(_) => compact::run(&task).await,
        Command::Backup(args) => backup::run(&task, args).await,
        Command::Export(args) => export::run(&task, &args).await,
        Command::Import(args) => import::run(&task, &args).await,
        Command::Migrate(args) => migrate::run(&task, &args).await,
    }
}

pub(crate) struct StoreTask {
    url: StoreUrl,
    pub(crate) context: Context,
    store_metrics: OnceLock<Arc<OnceLock<StoreMetrics>>>,
}

impl StoreTask {
    pub(crate) fn new(context: Context) -> Result<Self, Failure> {
        Ok(Self::at(StoreUrl::parse(context.config.text(keys::STORE))?, context))
    }

    pub(crate) fn at(url: StoreUrl, context: Context) -> Self {
        Self { url, context, store_metrics: OnceLock::new() }
    }

    /// The metrics of the store that was opened to be served, if it has its own.
    pub(crate) fn store_metrics(&self) -> Option<StoreMetrics> {
        self.store_metrics.get().and_then(|store_metrics| store_metrics.get()).cloned()
    }

    pub(crate) fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Opens the store for a server; creates it if it does not exist.
    pub(crate) async fn open_to_serve(&self, progress: &Arc<Progress>) -> Result<Arc<dyn Store>, Failure> {
        let opener = self.opener(progress);
        let _ = self.store_metrics.set(opener.store_metrics()); // A command opens one store.
        with_progress(&*self.context.clock, progress, self.url.open_to_serve(&opener)).await
    }

    /// Opens an existing store of any kind.
    pub(crate) async fn open_to_work(&self, progress: &Arc<Progress>) -> Result<Arc<dyn Store>, Failure> {
        let opener = self.opener(progress);
        with_progress(&*self.context.clock, progress, self.url.open_to_work(&opener)).await
    }

    /// Creates the store unless it exists.
    async fn init(&self, progress: &Arc<Progress>) -> Result<Made, Failure> {
        let opener = self.opener(progress);
        with_progress(&*self.context.clock, progress, self.url.init(&opener)).await
    }

    /// Opens a store in a directory, works on it and closes it, on the blocking pool.
    async fn on_store<T: Send + 'static>(
        &self,
        if_missing: IfMissing,
        progress: &Arc<Progress>,
        work: impl FnOnce(&DirectoryStore) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let opener = self.opener(progress);
        let done = async {
            let store = self.url.open_directory(&opener, if_missing).await?;
            joined(tokio::task::spawn_blocking(move || work(&store)).await)
        };
        with_progress(&*self.context.clock, progress, done).await
    }

    fn opener(&self, progress: &Arc<Progress>) -> Opener<'_> {
        Opener::new(&self.context.config, Arc::clone(&self.context.clock), listener(progress))
    }
}

/// Resumes a panic of the work.
fn joined<T>(done: Result<Result<T, Failure>, tokio::task::JoinError>) -> Result<T, Failure> {
    done.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
}

/// Shows the steps of opening, then the command's own label again.
fn listener(progress: &Arc<Progress>) -> Listener {
    let label = progress.label();
    let progress = Arc::clone(progress);
    Arc::new(move |step| match step {
        Opening::Done => progress.say(label.as_str()),
        step => progress.say(step.to_string()),
    })
}
