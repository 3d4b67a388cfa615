//! The lifecycle of a task: delayed, failed, retried, succeeded, and explained at every step.
//!
//! On a manual clock, so that it takes no time.

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

    println!("— a task is enqueued, due in ten seconds, and no worker is running");
    let task = NewTask::new("send_email").json(&serde_json::json!({ "to": "ada@example.org" }))?;
    let key = queue.enqueue(task.queue("mail").delay(Duration::from_secs(10))).await?.key;
    println!("{}\n", queue.explain(&key).await?);

    println!("— a worker starts, and ten seconds pass");
    queue.beat(vec![heartbeat(clock.now())?]).await?;
    clock.advance(Duration::from_secs(10));
    println!("{}\n", queue.explain(&key).await?);

    println!("— the worker leases it");
    let leased = queue.dequeue_ready(request(1)?).await?.ok_or("a task is due")?;
    println!("{}\n", queue.explain(&key).await?);

    println!("— it fails, and is retried later");
    queue.mark_failed(&leased, "the mail server is down").await?;
    println!("{}\n", queue.explain(&key).await?);

    println!("— it is run now; this time it succeeds");
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
    // Real workers use random tokens.
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

        every: None,
    })
}
