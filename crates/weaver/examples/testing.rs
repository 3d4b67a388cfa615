//! Testing handlers: one inline, or a whole queue drained on virtual time. Usually in a `#[test]`.

use std::error::Error;
use std::time::Duration;

use weaver::prelude::*;
use weaver::runtime::testing::{TestQueue, run_inline};

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// The handler under test: it greets, and enqueues a reminder.
async fn welcome(name: String, ctx: Ctx) -> Result<String, TaskError> {
    if name.is_empty() {
        return Err(TaskError::fatal("no name given"));
    }
    // A handler may run more than once: the idempotency key makes it one reminder.
    let reminder = NewTask::new("remind").json(&name)?.idempotency_key(format!("remind {name}"));
    ctx.enqueue(reminder.delay(WEEK)).await?;
    Ok(format!("Welcome, {name}!"))
}

async fn remind(_name: String, ctx: Ctx) -> Result<(), TaskError> {
    if ctx.attempt() == 1 { Err(TaskError::retry("the mail server is down")) } else { Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::new().handle("welcome", welcome)?.handle("remind", remind)?;

    // One handler, inline: what does it return?
    let outcome = run_inline(&registry, NewTask::new("welcome").json("Ada")?).await;
    assert_eq!(outcome, Outcome::Succeeded { result: Some("\"Welcome, Ada!\"".into()) });
    let outcome = run_inline(&registry, NewTask::new("welcome").json("")?).await;
    assert_eq!(outcome, Outcome::fatal("no name given"));
    println!("inline: it welcomes, and refuses an empty name");

    // The whole queue: follow-ups, delays and retries.
    let queue = TestQueue::new();
    let began = queue.clock().now();
    queue.client().enqueue(NewTask::new("welcome").json("Ada")?).await?;
    for task in queue.drain(&registry).await {
        println!("drained: {} {} in attempt {}", task.spec.envelope.task_type, task.state, task.attempt);
        assert_eq!(task.state, TaskState::Succeeded);
    }

    // What was enqueued.
    let reminder = queue.assert_enqueued("remind", |payload| payload == "Ada").await;
    assert_eq!(reminder.failures, 1);
    assert!(queue.clock().now().since(began) >= WEEK);
    println!("a week has passed, in no time");
    Ok(())
}
