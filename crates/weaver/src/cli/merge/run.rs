//! `weaver merge run`: the engine and a worker for its checks, without a server.

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
use crate::cli::{Context, StoreArgs};
use crate::exit::{Exit, Failure};

/// How often it is looked whether everything is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver merge run --until-idle\n  weaver merge run --store ./weaver-data\n\n\
    `weaver serve` does the same, and answers the other commands meanwhile. This is for a machine without a server:\n\
    a store in a directory belongs to one process at a time, so put changes in line with --store before it runs."
)]
pub(crate) struct RunArgs {
    /// End when nobody waits, or every queue that has entries is paused
    #[arg(long)]
    until_idle: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

pub(super) async fn run(args: &RunArgs, store: Arc<dyn Store>, context: &Context) -> Result<Exit, Failure> {
    let engine = engine(&store, &context.config, &context.clock)?;
    let side = Side::new(engine.clone(), &store, &context.config, &context.clock)?;
    let (closing, shutdown) = (CancellationToken::new(), Shutdown::new());
    let watch = async {
        over(args.until_idle, &engine, &shutdown, &*context.clock).await;
        closing.cancel();
        shutdown.ask();
    };
    tokio::select! {
        _ = async { tokio::join!(Box::pin(side.run(&closing, &shutdown)), watch) } => {}
        signals = shutdown.ask_on_signals() => {
            let reason = signals.err().map_or_else(String::new, |error| error.to_string());
            let message = format!("signals cannot be received: {reason}");
            return Err(Failure::new(Exit::Failed, message).next("start it again"));
        }
    }
    let queues = engine.queues().await?;
    let (landed, waiting) = queues.iter().fold((0, 0), |(landed, waiting), queue| {
        (landed + queue.tally.landed, waiting + queue.entries.len())
    });
    let answer = json!({"landed": landed, "waiting": waiting});
    context.output.answer(&answer, || format!("{landed} landed so far, {waiting} waiting.\n"))?;
    Ok(Exit::Done)
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
