//! Retries: a failed task runs again after its backoff, up to its `max_attempts`, unless the handler returns
//! a fatal error.
//!
//! The delays take no time: a `TestQueue` has a virtual clock.

use std::error::Error;
use std::time::Duration;

use weaver::prelude::*;
use weaver::runtime::testing::TestQueue;

/// Any error is retried; `TaskError` has the other outcomes.
async fn send(to: String, ctx: Ctx) -> Result<(), TaskError> {
    match (to.as_str(), ctx.attempt()) {
        ("unknown", _) => Err(TaskError::fatal("no such address")),
        ("busy", 1) => Err(TaskError::retry_after("the server said: in a minute", Duration::from_secs(60))),
        ("early", 1) => Err(TaskError::snooze(Duration::from_secs(8 * 3600))),
        ("flaky", 1 | 2) | ("down", _) => Err(TaskError::retry("connection refused")),
        _ => Ok(()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::new().handle("send", send)?;
    let queue = TestQueue::new();
    let client = queue.client();

    // One second, two, four; at most five attempts. The default backoff spreads attempts over hours, with
    // jitter.
    let policy = RetryPolicy::Exponential {
        base: Duration::from_secs(1),
        factor: 2,
        cap: Duration::from_secs(60),
        jitter: false,
    };
    for to in ["flaky", "busy", "early", "unknown", "down"] {
        client.enqueue(NewTask::new("send").json(to)?.retry(policy).max_attempts(5)).await?;
    }

    queue.drain(&registry).await;
    for task in queue.enqueued().await {
        let to: String = task.spec.envelope.decode()?;
        println!("{to}: {}, failures: {}", task.state, task.failures);
        for attempt in &*task.attempts {
            let after = attempt.ended_at.since(task.created_at);
            let error = attempt.error.as_deref().unwrap_or("");
            println!("  {after:>6?}  {:?} {error}", attempt.outcome);
        }
    }
    Ok(())
}
