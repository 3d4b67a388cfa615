//! `weaver merge run`: the merge engine and a worker for its checks, without a server.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use weaver::core::clock::Clock;
use weaver::core::ports::Store;
use weaver::runtime::Shutdown;
use weaver_merge::engine::MergeEngine;

use super::side::{Side, engine};
use crate::cli::local::LocalWorkers;
use crate::cli::{Context, StoreArgs};
use crate::config::keys;
use crate::exit::{Exit, Failure};
use crate::wiring::StoreUrl;

/// Poll interval of `--until-idle`.
const POLL_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver merge run --until-idle\n  weaver merge run --store ./weaver-data\n\n\
    `weaver serve` does the same and serves the other commands meanwhile. This is for a machine without a server: a store in\n\
    a directory is open in one process at a time, so enqueue changes with --store before it runs."
)]
pub(crate) struct RunArgs {
    /// Exit when every queue is empty or paused
    #[arg(long)]
    until_idle: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

pub(super) async fn run(args: &RunArgs, store: Arc<dyn Store>, context: &Context) -> Result<Exit, Failure> {
    let engine = engine(&store, &context.config, &context.clock)?;
    let workers = LocalWorkers::new(&store, &StoreUrl::parse(context.config.text(keys::STORE))?);
    let side = Side::new(engine.clone(), &store, &workers, &context.config, &context.clock)?;
    let (closing, shutdown) = (CancellationToken::new(), Shutdown::new());
    let watch = async {
        finished(args.until_idle, &engine, &shutdown, &*context.clock).await;
        closing.cancel();
        shutdown.request();
    };
    tokio::select! {
        _ = async { tokio::join!(Box::pin(side.run(&closing, &shutdown)), watch) } => {}
        signals = shutdown.request_on_signals() => {
            let reason = signals.err().map_or_else(String::new, |error| error.to_string());
            let message = format!("installing signal handlers failed: {reason}");
            return Err(Failure::new(Exit::Failed, message).next("retry"));
        }
    }
    let queues = engine.queues().await?;
    let (landed, waiting) = queues.iter().fold((0, 0), |(landed, waiting), queue| {
        (landed + queue.tally.landed, waiting + queue.entries.len())
    });
    let answer = json!({"landed": landed, "waiting": waiting});
    context.output.answer(&answer, || format!("{landed} landed in total, {waiting} waiting.\n"))?;
    Ok(Exit::Done)
}

/// Resolves on a shutdown request or, with `until_idle`, when every queue is empty or paused.
async fn finished(until_idle: bool, engine: &MergeEngine, shutdown: &Shutdown, clock: &dyn Clock) {
    while !(shutdown.is_requested() || until_idle && is_idle(engine).await) {
        clock.sleep_until(clock.monotonic().saturating_add(POLL_EVERY)).await;
    }
}

async fn is_idle(engine: &MergeEngine) -> bool {
    // Errors do not end the run; the engine logs them.
    engine.queues().await.is_ok_and(|queues| {
        queues.iter().all(|queue| {
            let is_still = queue.entries.is_empty() || queue.paused.is_some();
            is_still && queue.removal.is_none() && queue.outbox.is_empty() && queue.stopping.is_empty()
        })
    })
}
