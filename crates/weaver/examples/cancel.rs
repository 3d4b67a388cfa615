//! A cancelled task ends at once. Its handler is signalled to stop, and kills what it started: here, a
//! process that would run for a minute.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Notify;
use weaver::prelude::*;

async fn run_process(seconds: u32, news: Shared<Arc<Notify>>, ctx: Ctx) -> Result<i32, TaskError> {
    // If the handler is dropped instead, `kill_on_drop` ends the process.
    let mut process = Command::new("sleep").arg(seconds.to_string()).kill_on_drop(true).spawn()?;
    println!("the process runs");
    news.notify_one();
    tokio::select! {
        status = process.wait() => Ok(status?.code().unwrap_or(-1)),
        () = ctx.cancelled() => {
            process.kill().await?;
            println!("signalled to stop ({:?}): the process has ended", ctx.stop_reason());
            news.notify_one();
            // The outcome is ignored: the task has already ended.
            Err(TaskError::cancel("stopped"))
        }
    }
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a program may spawn its own worker")]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let client = Client::new(store.clone(), clock.clone());
    let news = Arc::new(Notify::new());
    let registry = Registry::new().share(news.clone()).handle_with("run_process", run_process)?;
    let worker = Worker::builder(Arc::new(LocalSource::new(store)), clock)
        .registry(registry)
        // Leases are renewed every third of this; a renewal reports cancellations.
        .lease_ttl(Duration::from_millis(1200))
        .build()?;
    let shutdown = Shutdown::new();
    let working = tokio::spawn(worker.run(shutdown.clone()));

    let task = client.enqueue(NewTask::new("run_process").json(&60)?).await?;
    news.notified().await;
    task.cancel().await?;
    println!("the task is {}", task.status().await?.state);
    news.notified().await;

    shutdown.request();
    println!("the worker counts {} cancelled", working.await?.cancelled);
    Ok(())
}
