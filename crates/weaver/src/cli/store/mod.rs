//! `weaver store …`: looking after a store that no other process has open.

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
use weaver_server::Figures;

use crate::cli::{Context, StoreArgs};
use crate::config::keys;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, with_progress};
use crate::wiring::{DirectoryStore, IfMissing, Listener, Made, Opener, Opening, StoreUrl};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver store init\n  weaver store check --store ./weaver-data\n  \
    weaver store backup ./backup-1\n\nOne process at a time has a directory open: stop `weaver serve` or the worker first.")]
pub(crate) enum Command {
    /// Make a store
    Init(InitArgs),
    /// Read every record and name those that cannot be read; in a directory, verify every checksum too
    Check(CheckArgs),
    /// Give space that is not used any more back to the disk
    Compact(CompactArgs),
    /// Copy the store into a directory of its own
    Backup(backup::BackupArgs),
    /// Write everything out as lines of JSON
    Export(export::ExportArgs),
    /// Read in what `export` wrote
    Import(import::ImportArgs),
    /// Bring the schema of a PostgreSQL store up to date
    Migrate(migrate::MigrateArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver store init\n  weaver store init --store ./elsewhere\n\n\
    A store that is there already is left as it is.")]
pub(crate) struct InitArgs {
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver store check\n  weaver store check --store ./backup-1 --output json\n  \
    weaver store check --store postgres://db.example.org/jobs\n\n\
    Changes nothing. PostgreSQL and DynamoDB are checked while servers use them.\n\
    Ends with 5 if something is damaged, with 6 if only a newer Weaver can read it."
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

/// A store, and something to be done with it.
pub(crate) struct StoreTask {
    url: StoreUrl,
    pub(crate) context: Context,
    figures: OnceLock<Arc<OnceLock<Figures>>>,
}

impl StoreTask {
    pub(crate) fn new(context: Context) -> Result<Self, Failure> {
        Ok(Self::at(StoreUrl::parse(context.config.text(keys::STORE))?, context))
    }

    pub(crate) fn at(url: StoreUrl, context: Context) -> Self {
        Self { url, context, figures: OnceLock::new() }
    }

    /// The figures of the store that was opened to be served, if it has any of its own.
    pub(crate) fn figures(&self) -> Option<Figures> {
        self.figures.get().and_then(|figures| figures.get()).cloned()
    }

    pub(crate) fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Opens the store for a server, and makes it if it is not there.
    pub(crate) async fn open_to_serve(&self, progress: &Arc<Progress>) -> Result<Arc<dyn Store>, Failure> {
        let opener = self.opener(progress);
        let _ = self.figures.set(opener.figures()); // A command opens one store.
        with_progress(&*self.context.clock, progress, self.url.open_to_serve(&opener)).await
    }

    /// Opens the store that is there, whatever kind it is, to run tasks of it.
    pub(crate) async fn open_to_work(&self, progress: &Arc<Progress>) -> Result<Arc<dyn Store>, Failure> {
        let opener = self.opener(progress);
        with_progress(&*self.context.clock, progress, self.url.open_to_work(&opener)).await
    }

    /// Makes the store, unless it is there.
    async fn init(&self, progress: &Arc<Progress>) -> Result<Made, Failure> {
        let opener = self.opener(progress);
        with_progress(&*self.context.clock, progress, self.url.init(&opener)).await
    }

    /// Opens a store in a directory, works on it, and closes it, where that may take its time.
    async fn on_store<T: Send + 'static>(
        &self,
        if_missing: IfMissing,
        progress: &Arc<Progress>,
        work: impl FnOnce(&DirectoryStore) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let opener = self.opener(progress);
        let done = async {
            let store = self.url.open_directory(&opener, if_missing).await?;
            answer_of(tokio::task::spawn_blocking(move || work(&store)).await)
        };
        with_progress(&*self.context.clock, progress, done).await
    }

    fn opener(&self, progress: &Arc<Progress>) -> Opener<'_> {
        Opener::new(&self.context.config, Arc::clone(&self.context.clock), listener(progress))
    }
}

/// A panic of the work is one of the command.
fn answer_of<T>(done: Result<Result<T, Failure>, tokio::task::JoinError>) -> Result<T, Failure> {
    done.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
}

/// Shows what opening does, and then again what the command is about.
fn listener(progress: &Arc<Progress>) -> Listener {
    let label = progress.label();
    let progress = Arc::clone(progress);
    Arc::new(move |step| match step {
        Opening::Done => progress.say(label.as_str()),
        step => progress.say(step.to_string()),
    })
}
