//! Tasks that start later: after a while, at an instant, or not at all if it is too late by then.
//!
//! A day passes at once: a `TestQueue` moves its own clock.

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
    // Handlers share values by their type; here it is the clock, to print what time it is for them.
    let registry = Registry::new().share(queue.clock().clone()).handle_with("remind", remind)?;
    let remind = |what: &str| NewTask::new("remind").json(what);
    let now = queue.clock().now();
    const HOUR: Duration = Duration::from_secs(3600);

    // By the store's clock, whatever the producer's says.
    client.enqueue(remind("tomorrow")?.delay(24 * HOUR)).await?;
    client.enqueue(remind("at nine")?.run_at(now.saturating_add(9 * HOUR))).await?;
    client.enqueue(remind("now")?).await?;

    // Somebody does not want to wait.
    let impatient = client.enqueue(remind("after all, now")?.delay(24 * HOUR)).await?;
    client.store().run_now(impatient.key()).await?;

    // Nobody needs a reminder of lunch in the evening.
    let lunch = remind("lunch")?.delay(18 * HOUR).expires_at(now.saturating_add(13 * HOUR));
    let lunch = client.enqueue(lunch).await?;

    println!("{}\n", client.store().explain(lunch.key()).await?);
    queue.drain(&registry).await;
    println!("{}  lunch is {}", queue.clock().now(), lunch.status().await?.state);
    Ok(())
}
