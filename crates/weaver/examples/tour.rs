//! A task's life in memory: it is delayed, fails, comes back, succeeds, and is explained at every stop.
//!
//! Time is moved by hand, so that the tour takes no time.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use weaver::core::clock::ManualClock;
use weaver::core::ports::{Beat, RunnerKey, Runners};
use weaver::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::default();
    let queue = InMemoryQueue::new(Arc::new(clock.clone()));

    println!("— a task is enqueued, due in ten seconds, and nobody is there to run it");
    let task = NewTask::new("send_email").json(&serde_json::json!({ "to": "ada@example.org" }))?;
    let key = queue.enqueue(task.queue("mail").delay(Duration::from_secs(10))).await?.key;
    println!("{}\n", queue.explain(&key).await?);

    println!("— a worker arrives, and ten seconds pass");
    queue.beat(vec![heartbeat(clock.now())?]).await?;
    clock.advance(Duration::from_secs(10));
    println!("{}\n", queue.explain(&key).await?);

    println!("— the worker takes it");
    let leased = queue.dequeue_ready(request(1)?).await?.ok_or("a task is due")?;
    println!("{}\n", queue.explain(&key).await?);

    println!("— it fails, and will come back");
    queue.mark_failed(&leased, "the mail server is down").await?;
    println!("{}\n", queue.explain(&key).await?);

    println!("— somebody does not want to wait; this time it succeeds");
    queue.run_now(&key).await?;
    let leased = queue.dequeue_ready(request(2)?).await?.ok_or("a task is due")?;
    queue.mark_succeeded(&leased, Some("\"sent\"".into())).await?;
    println!("{}\n", queue.explain(&key).await?);

    println!("— its history");
    for attempt in queue.history(&key).await? {
        let error = attempt.error.as_deref().unwrap_or("-");
        println!("  attempt {} on {}: {:?}, {error}", attempt.attempt, attempt.worker, attempt.outcome);
    }
    Ok(())
}

fn request(token: u128) -> Result<LeaseRequest, Box<dyn Error>> {
    // Real workers draw their tokens at random.
    let (namespace, queue) = (Namespace::default(), QueueName::new("mail")?);
    Ok(LeaseRequest::new(namespace, queue, WorkerId::new("mailer-1")?, LeaseToken(token)))
}

fn heartbeat(started_at: Timestamp) -> Result<Beat, Box<dyn Error>> {
    Ok(Beat {
        key: RunnerKey { namespace: Namespace::default(), runner_id: WorkerId::new("mailer-1")? },
        project_root: None,
        started_at,
        queues: vec![QueueName::new("mail")?],
        types: None,
        capacity: 16,
        running: 0,
        draining: false,
    })
}
