//! Rolling deploys: tasks that one worker cannot run and another can.

use serde::{Deserialize, Serialize};
use weaver_core::prelude::*;
use weaver_core::task::MAX_ATTEMPTS_DEFAULT;
use weaver_runtime::{BuildError, Ctx, Registry, Shared, TaskError};

use crate::harness::{Notes, harness};

#[derive(Serialize, Deserialize)]
struct Sum {
    numbers: Vec<i64>,
}

async fn sum(args: Sum, _ctx: Ctx) -> Result<i64, TaskError> {
    Ok(args.numbers.iter().sum())
}

fn summing() -> Registry {
    Registry::new().handle("sum", sum).unwrap()
}

#[tokio::test]
async fn a_worker_leases_only_the_types_that_it_has_handlers_for() {
    let harness = harness();
    let _running = harness.work(summing());
    let foreign = harness.enqueue(NewTask::new("send_email")).await;
    let own = harness.enqueue(NewTask::new("sum").json(&Sum { numbers: vec![] }).unwrap()).await;
    harness.until(&own, TaskState::Succeeded).await;
    assert_eq!(harness.record(&foreign).await.state, TaskState::Queued);
    let nothing = harness.builder(Registry::new()).build();
    assert_eq!(nothing.err(), Some(BuildError::NoHandlers));
}

#[tokio::test]
async fn a_worker_of_any_type_fails_what_it_cannot_run_and_names_what_is_registered() {
    let harness = harness();
    let _running = harness.start(harness.builder(summing()).any_type());
    let key = harness.enqueue(NewTask::new("send_email")).await;
    let record = harness.until(&key, TaskState::RetryScheduled).await;
    let error = record.last_error.unwrap();
    assert!(error.contains("`send_email`") && error.contains("`sum`"), "{error}");
}

#[tokio::test]
async fn a_payload_of_a_newer_form_waits_for_a_worker_that_can_decode_it() {
    let harness = harness();
    let old =
        harness.work(Registry::new().handle("sum", |_: Vec<i64>, _: Ctx| async move { Ok(0) }).unwrap());
    let key = harness.enqueue(NewTask::new("sum").json(&Sum { numbers: vec![40, 2] }).unwrap()).await;
    let record = harness.until(&key, TaskState::RetryScheduled).await;
    let error = record.last_error.unwrap();
    assert!(error.contains("could not be decoded") && error.contains("a newer version"), "{error}");
    assert_eq!((record.failures, record.spec.max_attempts), (1, MAX_ATTEMPTS_DEFAULT));
    old.shutdown.request();
    old.worker.await.unwrap();
    let _new = harness.start(harness.builder(summing()).name("w2"));
    harness.pass(16).await;
    let record = harness.until(&key, TaskState::Succeeded).await;
    assert_eq!(record.result.as_deref(), Some(&b"42"[..]));
}

#[tokio::test]
async fn a_payload_that_no_worker_can_decode_is_dead_when_its_attempts_are_used_up() {
    let harness = harness();
    let _running = harness.work(summing());
    let key = harness.enqueue(NewTask::new("sum").json("not a sum").unwrap().max_attempts(2)).await;
    harness.until(&key, TaskState::RetryScheduled).await;
    harness.pass(16).await;
    let record = harness.until(&key, TaskState::Dead).await;
    assert_eq!((record.executions, record.failures), (2, 2));
}

async fn note(text: String, notes: Shared<Notes>, _ctx: Ctx) -> Result<(), TaskError> {
    notes.add(text);
    Ok(())
}

#[tokio::test]
async fn a_handler_gets_the_shared_values_that_its_arguments_name() {
    let harness = harness();
    let notes = Notes::default();
    let both = |text: String, (notes, times): (Shared<Notes>, Shared<usize>), _: Ctx| async move {
        (0..*times).for_each(|_| notes.add(text.clone()));
        Ok(())
    };
    let registry = Registry::new().share(notes.clone()).share(2_usize).handle_with("note", note).unwrap();
    let _running = harness.work(registry.handle_with("both", both).unwrap());
    for (task_type, text) in [("note", "hello"), ("both", "again")] {
        let key = harness.enqueue(NewTask::new(task_type).json(text).unwrap()).await;
        harness.until(&key, TaskState::Succeeded).await;
    }
    assert_eq!(notes.all(), ["hello", "again", "again"]);
}

#[tokio::test]
async fn a_shared_value_that_a_handler_needs_and_lacks_is_an_error_of_build() {
    let harness = harness();
    let refusal = |registry: Registry| harness.builder(registry).build().err().map(|error| error.to_string());
    let lacking = || Registry::new().handle_with("note", note).unwrap();
    let message = refusal(lacking()).expect("nothing is shared");
    assert!(
        message.contains("`note`") && message.contains("Notes") && message.contains("share"),
        "{message}"
    );
    assert_eq!(refusal(lacking().share(Notes::default())), None);
    // Replaced by one that needs nothing.
    assert_eq!(refusal(lacking().handle("note", sum).unwrap()), None);
    // Required by a handler that reads it while it runs, and declared in the registry.
    let message = refusal(summing().needs::<Notes>()).expect("nothing is shared");
    assert!(message.contains("Notes"), "{message}");
}

#[tokio::test]
async fn a_shared_value_that_is_missed_while_a_handler_runs_is_a_failed_attempt_that_names_it() {
    let harness = harness();
    let registry = Registry::new().handle("note", |_: (), ctx: Ctx| async move {
        ctx.shared::<Notes>()?;
        Ok(())
    });
    let _running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("note")).await;
    let record = harness.until(&key, TaskState::RetryScheduled).await;
    assert!(record.last_error.unwrap().contains("Notes"));
}
