//! What handlers can do and return.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::ports::{ReadFrom, Seq, StreamKey};
use weaver_core::prelude::*;
use weaver_core::task::{CancelReason, Cause};
use weaver_runtime::{BuildError, Ctx, Registry, TaskError, blocking};

use crate::harness::{Notes, WorkerHarness, harness, settle, until};

#[derive(Serialize, Deserialize)]
struct Sum {
    numbers: Vec<i64>,
}

async fn sum(args: Sum, _ctx: Ctx) -> Result<i64, TaskError> {
    Ok(args.numbers.iter().sum())
}

#[tokio::test]
async fn a_plain_async_fn_is_a_handler_and_what_it_returns_is_kept() {
    let harness = harness();
    let _running = harness.work(Registry::new().handle("sum", sum).unwrap());
    let key = harness.enqueue(NewTask::new("sum").json(&Sum { numbers: vec![1, 2, 3] }).unwrap()).await;
    let record = harness.until(&key, TaskState::Succeeded).await;
    assert_eq!(record.result.as_deref(), Some(&b"6"[..]));
}

#[tokio::test]
async fn handlers_share_values_without_globals() {
    let harness = harness();
    let notes = Notes::default();
    let registry = Registry::new().share(notes.clone()).handle("note", |text: String, ctx: Ctx| async move {
        ctx.shared::<Notes>()?.add(text);
        Ok(())
    });
    let _running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("note").json("hello").unwrap()).await;
    harness.until(&key, TaskState::Succeeded).await;
    assert_eq!(notes.all(), ["hello"]);
}

fn outcomes() -> Registry {
    let registry = Registry::new().handle("outcome", |name: String, _: Ctx| async move {
        match name.as_str() {
            "retry" => Err(TaskError::retry("again")),
            "retry after" => Err(TaskError::retry_after("again", Duration::from_secs(7))),
            "snooze" => Err(TaskError::snooze(Duration::from_secs(9))),
            "cancel" => Err(TaskError::cancel("not needed")),
            "fatal" => Err(TaskError::fatal("hopeless")),
            "any error" => {
                name.parse::<u8>()?;
                Ok(())
            }
            _ => Ok(()),
        }
    });
    registry.unwrap()
}

#[tokio::test]
async fn a_handlers_error_decides_the_outcome_of_its_task() {
    let harness = harness();
    let _running = harness.work(outcomes());
    let expected = [
        ("done", TaskState::Succeeded, None),
        ("retry", TaskState::RetryScheduled, Some(Cause::Failed)),
        ("retry after", TaskState::RetryScheduled, Some(Cause::Failed)),
        ("snooze", TaskState::RetryScheduled, Some(Cause::Snoozed)),
        ("cancel", TaskState::Cancelled, Some(Cause::Cancelled(CancelReason::Handler))),
        ("fatal", TaskState::Dead, Some(Cause::Failed)),
        ("any error", TaskState::RetryScheduled, Some(Cause::Failed)),
    ];
    for (name, state, cause) in expected {
        let key = harness.enqueue(NewTask::new("outcome").json(name).unwrap()).await;
        let record = harness.until(&key, state).await;
        assert_eq!(record.cause, cause, "{name}");
        let wait = record.next_run_at().map(|at| at.since(record.updated_at).as_secs());
        assert!(name != "retry after" || wait == Some(7), "{wait:?}");
        assert!(name != "snooze" || (wait == Some(9) && record.failures == 0), "{wait:?}");
    }
}

#[tokio::test]
async fn a_panic_is_a_failure_that_carries_its_message() {
    let harness = harness();
    let registry = Registry::new().handle("panic", |_: (), _: Ctx| async move {
        if true {
            panic!("the {} fell over", "handler");
        }
        Ok(())
    });
    let running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("panic")).await;
    let record = harness.until(&key, TaskState::RetryScheduled).await;
    assert!(record.last_error.unwrap().contains("the handler fell over"));
    assert!(!running.worker.is_finished(), "the worker continues");
}

#[tokio::test]
async fn blocking_work_runs_beside_the_others_and_its_panics_are_failures_too() {
    let harness = harness();
    let registry = Registry::new().handle("digest", |text: String, _: Ctx| async move {
        blocking(move || if text.is_empty() { panic!("nothing to digest") } else { Ok(text.len()) }).await
    });
    let _running = harness.work(registry.unwrap());
    let good = harness.enqueue(NewTask::new("digest").json("four").unwrap()).await;
    let bad = harness.enqueue(NewTask::new("digest").json("").unwrap()).await;
    // Real threads are at work here: their end is an event that is waited for, not a time.
    let ended = |record: &TaskRecord| record.state != TaskState::Running && record.executions > 0;
    while !ended(&harness.record(&good).await) || !ended(&harness.record(&bad).await) {
        tokio::task::yield_now().await;
    }
    assert_eq!(harness.record(&good).await.result.as_deref(), Some(&b"4"[..]));
    assert!(harness.record(&bad).await.last_error.unwrap().contains("nothing to digest"));
}

#[tokio::test]
async fn a_handler_that_takes_longer_than_its_timeout_is_dropped_and_has_timed_out() {
    let harness = harness();
    let notes = Notes::default();
    let registry = Registry::new().share(notes.clone()).handle("slow", |_: (), ctx: Ctx| async move {
        let notes = ctx.shared::<Notes>()?;
        notes.add(format!("{:?}", ctx.time_left()));
        std::future::pending::<()>().await;
        Ok(())
    });
    let _running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("slow").timeout(Duration::from_secs(20))).await;
    harness.until(&key, TaskState::Running).await;
    harness.pass(19).await;
    assert_eq!(harness.record(&key).await.state, TaskState::Running);
    harness.pass(1).await;
    let record = harness.until(&key, TaskState::RetryScheduled).await;
    assert_eq!((record.cause, record.failures), (Some(Cause::TimedOut), 1));
    assert_eq!(notes.all(), ["Some(20s)"]);
}

#[tokio::test]
async fn a_result_that_is_too_large_ends_the_task_and_says_so() {
    let harness = harness();
    let registry = Registry::new().handle("huge", |_: (), _: Ctx| async move { Ok("x".repeat(100_000)) });
    let _running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("huge")).await;
    let record = harness.until(&key, TaskState::Dead).await;
    assert!(record.last_error.unwrap().contains("65536"));
}

#[tokio::test]
async fn what_a_handler_logs_can_be_read_and_what_it_enqueues_runs() {
    let harness = harness();
    let registry = Registry::new()
        .handle("first", |_: (), ctx: Ctx| async move {
            ctx.log("one");
            ctx.log("two");
            let follow_up = NewTask::new("second").idempotency_key(format!("after {}", ctx.key().id));
            ctx.enqueue(follow_up).await?;
            Ok(ctx.fence())
        })
        .and_then(|registry| registry.handle("second", |_: (), _: Ctx| async move { Ok(()) }));
    let _running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("first")).await;
    let record = harness.until(&key, TaskState::Succeeded).await;
    assert_eq!(record.result.as_deref(), Some(&b"2"[..]), "the fence is the version it ran under");
    let log =
        harness.store.read_entries(&StreamKey::attempt_log(&key, 1), ReadFrom::Last(10), 10).await.unwrap();
    let lines: Vec<_> = log.entries.iter().map(|entry| entry.body.as_ref()).collect();
    assert_eq!(lines, [b"one", b"two"]);
    let follow_up = TaskKey::new(Namespace::default(), TaskId(key.id.0 + 1));
    harness.until(&follow_up, TaskState::Succeeded).await;
}

#[tokio::test]
async fn concurrency_limits_of_the_worker_and_of_a_type_are_kept() {
    let harness = harness();
    let notes = Notes::default();
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let registry = Registry::new().share(notes.clone()).share(gate.clone()).handle("any", hold).unwrap();
    let registry = registry.handle("rare", hold).unwrap();
    let _running = harness.start(harness.builder(registry).concurrency(5).type_limit("rare", 2));
    for task_type in ["rare", "rare", "rare", "rare", "any", "any", "any", "any"] {
        harness.enqueue(NewTask::new(task_type)).await;
    }
    until("five run", || notes.all().len() == 5).await;
    settle().await;
    let begun = notes.all();
    assert_eq!(begun.iter().filter(|begun| *begun == "rare").count(), 2, "{begun:?}");
    assert_eq!(begun.len(), 5);
    gate.add_permits(100);
    until("all have run", || notes.all().len() == 8).await;
}

async fn hold(_: (), ctx: Ctx) -> Result<(), TaskError> {
    ctx.shared::<Notes>()?.add(ctx.record().spec.envelope.task_type.as_str());
    let permits = ctx.shared::<std::sync::Arc<tokio::sync::Semaphore>>()?;
    permits.acquire().await?.forget();
    Ok(())
}

#[test]
fn a_worker_with_invalid_settings_is_not_built() {
    let harness = harness();
    let builder = || harness.builder(Registry::new().handle("sum", sum).unwrap());
    assert!(matches!(builder().concurrency(0).build().err(), Some(BuildError::OutOfRange { .. })));
    assert!(matches!(builder().lease_ttl(Duration::ZERO).build().err(), Some(BuildError::OutOfRange { .. })));
    assert!(matches!(builder().queues(["a\nb"]).build().err(), Some(BuildError::Invalid(_))));
    assert!(matches!(
        builder().queues::<&str>([]).build().err(),
        Some(BuildError::Nothing { what: "queue" })
    ));
    assert!(matches!(builder().namespaces::<&str>([]).build().err(), Some(BuildError::Nothing { .. })));
    assert!(matches!(builder().type_limit("t", 0).build().err(), Some(BuildError::OutOfRange { .. })));
}

/// The text of every line of a task's first log.
async fn log_of(harness: &WorkerHarness, key: &TaskKey) -> Vec<String> {
    let (stream, mut lines, mut after) = (StreamKey::attempt_log(key, 1), Vec::new(), Seq(0));
    loop {
        let page = harness.store.read_entries(&stream, ReadFrom::After(after), 1000).await.unwrap();
        let Some(last) = page.entries.last() else { return lines };
        after = last.seq;
        lines.extend(page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.body).into_owned()));
    }
}

#[tokio::test]
async fn a_log_that_is_too_long_keeps_its_beginning_and_its_end_and_counts_what_is_missing() {
    const LINES: usize = 100_000;
    let harness = harness();
    let registry = Registry::new().handle("flood", |_: (), ctx: Ctx| async move {
        (0..LINES).for_each(|number| ctx.log(format!("line {number:0>60}")));
        ctx.log("the error");
        Err::<(), _>(TaskError::fatal("no"))
    });
    let _running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("flood")).await;
    harness.until(&key, TaskState::Dead).await;
    let log = log_of(&harness, &key).await;
    assert_eq!(log[0], format!("line {:0>60}", 0));
    assert_eq!(log.last().unwrap(), "the error");
    let at = log.iter().position(|line| line.contains("lines are missing here")).unwrap();
    let missing: usize = log[at].split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(missing + log.len() - 1, LINES + 1, "{}", log[at]);
    assert_eq!(log[at + 1], format!("line {:0>60}", at + missing), "{}", log[at]);
}

#[tokio::test]
async fn what_a_cancelled_handler_logs_last_is_kept() {
    let harness = harness();
    let registry = Registry::new().handle("careful", |_: (), ctx: Ctx| async move {
        ctx.log("begun");
        ctx.cancelled().await;
        ctx.log("tidied up");
        Ok(())
    });
    let _running = harness.work(registry.unwrap());
    let key = harness.enqueue(NewTask::new("careful")).await;
    harness.until(&key, TaskState::Running).await;
    harness.store.cancel(&key).await.unwrap();
    harness.pass(2).await;
    while harness.record(&key).await.has_hold() {
        tokio::task::yield_now().await;
    }
    assert_eq!(log_of(&harness, &key).await, ["begun", "tidied up"]);
}
