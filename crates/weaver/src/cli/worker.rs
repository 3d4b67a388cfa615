//! `weaver worker`: runs tasks of the built-in kinds, for a server or on a store of its own.

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use weaver::core::clock::Clock;
use weaver::runtime::{LocalSource, Registry, RunSummary, Shutdown, WorkSource, Worker};
use weaver_client::RemoteSource;

use crate::cli::store::StoreTask;
use crate::cli::{Context, Given, StoreArgs, confinement, remote};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, start_log};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver worker --server https://jobs.example.org --queues mail,reports\n  \
    weaver worker --store ./weaver-data --concurrency 4\n\n\
    It runs tasks of the types `http` and, if weaver.toml has [handlers.exec], `exec`; others are left to other workers.\n\
    SIGTERM or Ctrl-C: it takes nothing more and finishes what runs within --grace; the second time it stops at once.\n\
    Either way, what does not finish is given back."
)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Work for the server at this address, or unix:PATH of its socket
    /// [default: this user's server on this machine]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    pub(crate) server: Option<String>,
    /// Its name, unique among workers; drawn if not given
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    pub(crate) settings: WorkerSettings,
}

/// Flags that are settings too.
#[derive(Debug, Args)]
pub(crate) struct WorkerSettings {
    /// The queues to take tasks from, separated by commas [default: default]
    #[arg(long, value_name = "NAMES")]
    pub(crate) queues: Option<String>,
    /// The namespaces to take tasks from, separated by commas; `*`: all [default: default]
    #[arg(long, value_name = "NAMES")]
    pub(crate) namespaces: Option<String>,
    /// How many tasks to run at once [default: 16]
    #[arg(long, value_name = "COUNT")]
    pub(crate) concurrency: Option<String>,
    /// How long tasks may go on after a stop was asked for [default: 30s]
    #[arg(long, value_name = "SPAN")]
    pub(crate) grace: Option<String>,
    /// How much to log [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
}

impl WorkerArgs {
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        let mut given = self.settings.given().to_vec();
        given.extend([self.store.setting(), (keys::SERVER, self.server.as_ref())]);
        given
    }
}

impl WorkerSettings {
    pub(crate) fn given(&self) -> [Given<'_>; 5] {
        [
            (keys::WORKER_QUEUES, self.queues.as_ref()),
            (keys::WORKER_NAMESPACES, self.namespaces.as_ref()),
            (keys::WORKER_CONCURRENCY, self.concurrency.as_ref()),
            (keys::WORKER_GRACE, self.grace.as_ref()),
            (keys::LOG, self.log.as_ref()),
        ]
    }
}

pub(crate) async fn run(args: WorkerArgs, context: Context) -> Result<Exit, Failure> {
    start_log(&context.config);
    let is_local = args.store.store.is_some();
    let (source, context): (Arc<dyn WorkSource>, Context) = if is_local {
        let task = StoreTask::new(context)?;
        let store = task.open_to_work(&Progress::new("opening the store")).await?;
        (Arc::new(LocalSource::new(store)), task.context)
    } else {
        (Arc::new(RemoteSource::new(remote::connect(&context.config)?.client)), context)
    };
    let worker = build(source, Registry::new(), args.name, &context.config, &context.clock)?;
    let summary = until_told(worker).await?;
    tell(&summary, &context)?;
    Ok(Exit::Done)
}

/// Says what a worker did.
pub(crate) fn tell(summary: &RunSummary, context: &Context) -> Result<(), Failure> {
    let RunSummary { succeeded, failed, released, cancelled, lost } = summary;
    let answer = json!({"succeeded": succeeded, "failed": failed, "released": released, "cancelled": cancelled, "lost": lost});
    context.output.answer(&answer, || {
        format!("{succeeded} succeeded, {failed} failed, {released} given back, {cancelled} cancelled, {lost} lost.\n")
    })
}

/// A worker with the built-in handlers, and those that are in the registry already.
pub(crate) fn build(
    source: Arc<dyn WorkSource>,
    registry: Registry,
    name: Option<String>,
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<Worker, Failure> {
    let registry = with_built_in(registry, config, clock)?;
    let mut builder = Worker::builder(source, Arc::clone(clock))
        .registry(registry)
        .queues(config.names(keys::WORKER_QUEUES))
        .namespaces(config.names(keys::WORKER_NAMESPACES))
        .concurrency(config.count(keys::WORKER_CONCURRENCY))
        .grace(config.span(keys::WORKER_GRACE));
    if let Some(name) = name {
        builder = builder.name(name);
    }
    builder
        .build()
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()).next("see `weaver worker --help`"))
}

/// Adds the built-in handlers, as the operator's policy has them.
pub(crate) fn with_built_in(
    registry: Registry,
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<Registry, Failure> {
    let isolation = confinement::isolation(config)?;
    weaver_handlers::register(registry, config.handlers.0.clone(), &isolation, clock).map_err(|error| {
        let message = format!("{}: handlers.{error}", config.handlers.1);
        Failure::new(Exit::Usage, message).next("correct that part of weaver.toml")
    })
}

/// Runs until a signal asks to stop, and what runs is finished or given back.
pub(crate) async fn until_told(worker: Worker) -> Result<RunSummary, Failure> {
    let shutdown = Shutdown::new();
    tokio::select! {
        summary = worker.run(shutdown.clone()) => Ok(summary),
        signals = shutdown.ask_on_signals() => {
            let reason = signals.err().map_or_else(String::new, |error| error.to_string());
            Err(Failure::new(Exit::Failed, format!("signals cannot be received: {reason}")).next("start it again"))
        }
    }
}
