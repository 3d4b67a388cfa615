//! Graceful shutdown: the worker leases nothing new, lets its handlers finish within a grace period, signals
//! the others to stop, and releases their tasks. A released task is not charged with a failure.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use weaver::prelude::*;

async fn work(millis: u64, begun: Shared<Arc<Semaphore>>, ctx: Ctx) -> Result<(), TaskError> {
    println!("a task of {millis} ms begins");
    begun.add_permits(1);
    #[expect(clippy::disallowed_methods, reason = "simulates work")]
    let work = tokio::time::sleep(Duration::from_millis(millis));
    tokio::select! {
        biased;
        () = work => {
            println!("the task of {millis} ms has finished");
            Ok(())
        }
        () = ctx.cancelled() => {
            println!("the task of {millis} ms is signalled to stop ({:?})", ctx.stop_reason());
            Err(TaskError::retry("stopped half way"))
        }
    }
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a program may spawn its own worker")]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let client = Client::new(store.clone(), clock.clone());
    let begun = Arc::new(Semaphore::new(0));
    let worker = Worker::builder(Arc::new(LocalSource::new(store)), clock)
        .registry(Registry::new().share(begun.clone()).handle_with("work", work)?)
        .grace(Duration::from_millis(300))
        .build()?;
    let shutdown = Shutdown::new();
    let working = tokio::spawn(worker.run(shutdown.clone()));

    let short = client.enqueue(NewTask::new("work").json(&50)?).await?;
    let long = client.enqueue(NewTask::new("work").json(&60_000)?).await?;
    let _both = begun.acquire_many(2).await?;

    // A program does `tokio::spawn(async move { shutdown.request_on_signals().await })`. A second request or
    // signal skips the grace period.
    shutdown.request();
    let summary = working.await?;
    println!("{} succeeded, {} released, {} failed", summary.succeeded, summary.released, summary.failed);
    println!("the short one: {}", short.status().await?.state);
    println!("the long one: {}", client.store().explain(long.key()).await?);
    println!("its failures: {}", long.status().await?.failures);
    Ok(())
}
