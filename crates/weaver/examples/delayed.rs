//! Delayed tasks: after a delay, at an instant, or not at all once `expires_at` has passed.
//!
//! A day takes no time: a `TestQueue` has a virtual clock.

use std::error::Error;
use std::time::Duration;

use weaver::core::clock::ManualClock;
use weaver::prelude::*;
use weaver::runtime::testing::TestQueue;

async fn remind(what: String, clock: Shared<ManualClock>, _ctx: Ctx) -> Result<(), TaskError> {
    println!("{}  {what}", clock.now());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let queue = TestQueue::new();
    let client = queue.client();
    // A shared value, found by its type: the clock, to print the virtual time.
    let registry = Registry::new().share(queue.clock().clone()).handle_with("remind", remind)?;
    let remind = |what: &str| NewTask::new("remind").json(what);
    let now = queue.clock().now();
    const HOUR: Duration = Duration::from_secs(3600);

    // Relative to the store's clock, not the producer's.
    client.enqueue(remind("tomorrow")?.delay(24 * HOUR)).await?;
    client.enqueue(remind("at nine")?.run_at(now.saturating_add(9 * HOUR))).await?;
    client.enqueue(remind("now")?).await?;

    // Run a scheduled task now.
    let impatient = client.enqueue(remind("after all, now")?.delay(24 * HOUR)).await?;
    client.store().run_now(impatient.key()).await?;

    // A lunch reminder is useless in the evening.
    let lunch = remind("lunch")?.delay(18 * HOUR).expires_at(now.saturating_add(13 * HOUR));
    let lunch = client.enqueue(lunch).await?;

    println!("{}\n", client.store().explain(lunch.key()).await?);
    queue.drain(&registry).await;
    println!("{}  lunch is {}", queue.clock().now(), lunch.status().await?.state);
    Ok(())
}
