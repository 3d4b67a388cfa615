//! Enqueue a task, run it on a worker, await its result.

use std::error::Error;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weaver::prelude::*;

/// The payload: any type that serde can serialize.
#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

/// A handler is a plain `async fn`. Its return value is stored as JSON.
async fn greet(args: Greet, ctx: Ctx) -> Result<String, TaskError> {
    println!("task {}, attempt {}: greeting {}", ctx.key().id, ctx.attempt(), args.name);
    Ok(format!("Hello, {}!", args.name))
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a program may spawn its own worker")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A store, and a client that enqueues tasks.
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let client = Client::new(store.clone(), clock.clone());

    // A worker on the same store. With a shared store it could run in another process.
    let registry = Registry::new().handle("greet", greet)?;
    let worker = Worker::builder(Arc::new(LocalSource::new(store)), clock).registry(registry).build()?;
    let shutdown = Shutdown::new();
    let working = tokio::spawn(worker.run(shutdown.clone()));

    let task = client.enqueue(NewTask::new("greet").json(&Greet { name: "Ada".into() })?).await?;
    let greeting: String = task.result().await?;
    println!("the result: {greeting}");

    shutdown.request();
    let summary = working.await?;
    println!("the worker has stopped; succeeded: {}", summary.succeeded);
    Ok(())
}
