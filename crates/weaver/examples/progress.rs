//! Progress and logs: a handler reports them, clients read them while it runs and afterwards.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use weaver::core::ports::{Journal, ReadFrom, StreamKey};
use weaver::prelude::*;

const TICK: Duration = Duration::from_millis(10);

async fn import(rows: u32, ctx: Ctx) -> Result<u32, TaskError> {
    ctx.log(format!("importing {rows} rows"));
    for row in 1..=rows {
        #[expect(clippy::disallowed_methods, reason = "simulates work")]
        tokio::time::sleep(TICK).await;
        // As often as you like: the latest value is sent with the next lease renewal.
        ctx.progress(row as f32 / rows as f32, format!("row {row} of {rows}"));
    }
    ctx.log("done");
    Ok(rows)
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a program may spawn its own worker, and wait")]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let client = Client::new(store.clone(), clock.clone());
    let worker = Worker::builder(Arc::new(LocalSource::new(store.clone())), clock)
        .registry(Registry::new().handle("import", import)?)
        // Progress arrives with each renewal, every third of the TTL: by default every ten seconds.
        .lease_ttl(Duration::from_millis(600))
        .build()?;
    let shutdown = Shutdown::new();
    let working = tokio::spawn(worker.run(shutdown.clone()));

    let task = client.enqueue(NewTask::new("import").json(&50)?).await?;
    let mut last = None;
    let record = loop {
        if let Some(ended) = task.wait_timeout(TICK).await? {
            break ended;
        }
        let record = store.get_task(task.key()).await?;
        if record.progress != last {
            last = record.progress;
            let progress = last.as_deref().map(|progress| (progress.fraction * 100.0, &progress.message));
            let Some((percent, message)) = progress else { continue };
            println!("{}: {percent:.0} %, {message}", record.state);
        }
    };
    println!("{}: {:?}", record.state, record.result);

    let log = StreamKey::attempt_log(task.key(), record.attempt);
    for entry in store.read_entries(&log, ReadFrom::Last(100), 100).await?.entries {
        println!("log: {}", String::from_utf8_lossy(&entry.body));
    }
    shutdown.request();
    working.await?;
    Ok(())
}
