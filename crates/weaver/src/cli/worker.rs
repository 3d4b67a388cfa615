//! `weaver worker`: runs the built-in handlers, for a server or on a store.

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use weaver::core::clock::Clock;
use weaver::runtime::{Registry, RunSummary, Shutdown, Worker, WorkerBuilder};
use weaver_client::RemoteSource;

use crate::cli::local::LocalWorkers;
use crate::cli::store::StoreTask;
use crate::cli::{Context, Given, StoreArgs, confinement, remote};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, start_log};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver worker --server https://jobs.example.org --queues mail,reports\n  \
    weaver worker --store ./weaver-data --concurrency 4\n\n\
    Runs tasks of type `http` and, if weaver.toml has [handlers.exec], `exec`; other types are left to other workers.\n\
    SIGTERM or Ctrl-C drains the worker: no new leases, running tasks may finish within --grace; a second signal stops at once.\n\
    Either way, tasks that do not finish are released."
)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Server URL, or unix:PATH of its socket
    /// [default: this user's server on this machine]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    pub(crate) server: Option<String>,
    /// Name of the worker, unique among live workers [default: random]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    pub(crate) settings: WorkerSettings,
}

/// Flags that are also settings.
#[derive(Debug, Args)]
pub(crate) struct WorkerSettings {
    /// Queues to serve, comma-separated [default: default]
    #[arg(long, value_name = "NAMES")]
    pub(crate) queues: Option<String>,
    /// Namespaces to serve, comma-separated; `*`: all [default: default]
    #[arg(long, value_name = "NAMES")]
    pub(crate) namespaces: Option<String>,
    /// Tasks that run at once, 1 to 100000 [default: 16]
    #[arg(long, value_name = "COUNT")]
    pub(crate) concurrency: Option<String>,
    /// Grace period for running tasks at shutdown [default: 30s]
    #[arg(long, value_name = "SPAN")]
    pub(crate) grace: Option<String>,
    /// Log level: error, warn, info, debug or trace [default: info]
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
    let (mut builder, context) = if is_local {
        let task = StoreTask::new(context)?;
        let store = task.open_to_work(&Progress::new("opening the store")).await?;
        (LocalWorkers::new(&store, task.url()).builder(&task.context.clock), task.context)
    } else {
        let source = RemoteSource::new(remote::connect(&context.config)?.client);
        (Worker::builder(Arc::new(source), Arc::clone(&context.clock)), context)
    };
    if let Some(name) = args.name {
        builder = builder.name(name);
    }
    let worker = build(builder, Registry::new(), &context.config, &context.clock)?;
    let summary = until_shutdown(worker).await?;
    print_summary(&summary, &context)?;
    Ok(Exit::Done)
}

/// Prints the counts of a worker's run.
pub(crate) fn print_summary(summary: &RunSummary, context: &Context) -> Result<(), Failure> {
    let RunSummary { succeeded, failed, released, cancelled, lost } = summary;
    let answer = json!({
        "succeeded": succeeded, "failed": failed, "released": released, "cancelled": cancelled, "lost": lost
    });
    context.output.answer(&answer, || {
        format!("{succeeded} succeeded, {failed} failed, {released} released, {cancelled} cancelled, {lost} lost.\n")
    })
}

/// A worker with the built-in handlers, added to those of the registry.
pub(crate) fn build(
    builder: WorkerBuilder,
    registry: Registry,
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<Worker, Failure> {
    let registry = with_built_in(registry, config, clock)?;
    builder
        .registry(registry)
        .queues(config.names(keys::WORKER_QUEUES))
        .namespaces(config.names(keys::WORKER_NAMESPACES))
        .concurrency(config.count(keys::WORKER_CONCURRENCY))
        .grace(config.span(keys::WORKER_GRACE))
        .build()
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()).next("see `weaver worker --help`"))
}

/// Adds the built-in handlers that the operator's policy allows.
pub(crate) fn with_built_in(
    registry: Registry,
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<Registry, Failure> {
    let isolation = confinement::isolation(config)?;
    weaver_handlers::register(registry, config.handlers.0.clone(), &isolation, clock).map_err(|error| {
        let message = format!("{}: handlers.{error}", config.handlers.1);
        Failure::new(Exit::Usage, message).next("correct that section of weaver.toml")
    })
}

/// Runs until a signal requests a shutdown and the worker has drained.
pub(crate) async fn until_shutdown(worker: Worker) -> Result<RunSummary, Failure> {
    let shutdown = Shutdown::new();
    tokio::select! {
        summary = worker.run(shutdown.clone()) => Ok(summary),
        signals = shutdown.request_on_signals() => {
            let reason = signals.err().map_or_else(String::new, |error| error.to_string());
            let message = format!("installing signal handlers failed: {reason}");
            Err(Failure::new(Exit::Failed, message).next("retry"))
        }
    }
}
