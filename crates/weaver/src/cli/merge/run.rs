//! `weaver merge run`: the engine, and a worker for its checks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use weaver::core::clock::Clock;
use weaver::core::ports::Store;
use weaver::runtime::{LocalSource, Registry, Shutdown, Worker};
use weaver_merge::check::{CHECK_QUEUE, CheckHandler, CheckOptions};
use weaver_merge::engine::MergeEngine;
use weaver_merge::forge::git::GitForges;
use weaver_merge::plan::Policy;

use crate::cli::{Context, StoreArgs};
use crate::exit::{Exit, Failure};

/// How long a check's command may take to end after SIGTERM.
const KILL_GRACE: Duration = Duration::from_secs(10);
/// How often it is looked whether everything is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// This binary, also after it was replaced on the disk.
const OWN_BINARY: &str = "/proc/self/exe";

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge run\n  weaver merge run --until-idle\n\n\
    A store in a directory belongs to one process at a time: while this runs, other commands on it wait outside.\n\
    With --store postgres://… they do not.")]
pub(crate) struct RunArgs {
    /// End when nobody waits, or every queue that has entries is paused
    #[arg(long)]
    until_idle: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

pub(super) async fn run(
    args: &RunArgs,
    engine: &MergeEngine,
    store: Arc<dyn Store>,
    context: &Context,
) -> Result<Exit, Failure> {
    let directory = std::env::temp_dir().join(format!("weaver-merge-{}", std::process::id()));
    let worker = worker(&store, directory.clone(), context)?;
    let shutdown = Shutdown::new();
    let work = async {
        let done = over(args.until_idle, engine, &shutdown, &*context.clock);
        engine.run(done).await;
        shutdown.ask();
    };
    tokio::select! {
        _ = async { tokio::join!(Box::pin(worker.run(shutdown.clone())), Box::pin(work)) } => {}
        signals = shutdown.ask_on_signals() => {
            let reason = signals.err().map_or_else(String::new, |error| error.to_string());
            let message = format!("signals cannot be received: {reason}");
            return Err(Failure::new(Exit::Failed, message).next("start it again"));
        }
    }
    // What a check leaves there is gone with it; the directory itself may never have been made.
    let _ = std::fs::remove_dir(&directory);
    let queues = engine.queues().await?;
    let (landed, waiting) = queues.iter().fold((0, 0), |(landed, waiting), queue| {
        (landed + queue.tally.landed, waiting + queue.entries.len())
    });
    let answer = json!({"landed": landed, "waiting": waiting});
    context.output.answer(&answer, || format!("{landed} landed so far, {waiting} waiting.\n"))?;
    Ok(Exit::Done)
}

fn worker(store: &Arc<dyn Store>, directory: PathBuf, context: &Context) -> Result<Worker, Failure> {
    let options = CheckOptions {
        directory,
        path: std::env::var_os("PATH").unwrap_or_default(),
        grace: KILL_GRACE,
        guard: cfg!(target_os = "linux").then(|| PathBuf::from(OWN_BINARY)),
    };
    let forges = Arc::new(GitForges::new(Arc::clone(&context.clock)));
    let handler = CheckHandler::new(Arc::clone(store), forges, Arc::clone(&context.clock), options);
    let source = Arc::new(LocalSource::new(Arc::clone(store)));
    let budget = u32::try_from(Policy::default().check_budget).unwrap_or(u32::MAX);
    let worker = Worker::builder(source, Arc::clone(&context.clock))
        .registry(Registry::new().handler(handler))
        .only_registered()
        .queues([CHECK_QUEUE])
        .concurrency(budget)
        .build();
    worker.map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

/// Resolves when a signal came, or (if that is asked for) when there is nothing that could go on by itself.
async fn over(until_idle: bool, engine: &MergeEngine, shutdown: &Shutdown, clock: &dyn Clock) {
    while !(shutdown.is_asked() || until_idle && rests(engine).await) {
        clock.sleep_until(clock.monotonic().saturating_add(LOOK_EVERY)).await;
    }
}

async fn rests(engine: &MergeEngine) -> bool {
    // What cannot be read is no reason to end; the engine says what is wrong.
    engine.queues().await.is_ok_and(|queues| {
        queues.iter().all(|queue| {
            let nobody_moves = queue.entries.is_empty() || queue.paused.is_some();
            nobody_moves && queue.outbox.is_empty() && queue.stopping.is_empty()
        })
    })
}
