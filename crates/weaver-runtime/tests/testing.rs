//! The test helpers for authors of handlers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use weaver_core::ports::{Expect, QueueSettings, ReadFrom, StreamKey};
use weaver_core::prelude::*;
use weaver_core::task::{CancelReason, Cause, ContentType};
use weaver_runtime::testing::{TestQueue, run_inline};
use weaver_runtime::{Client, Ctx, Registry, TaskError};

const HOUR: Duration = Duration::from_secs(3600);

/// The names of the tasks that ran, in order.
type Trail = Mutex<Vec<String>>;

async fn note(name: String, ctx: Ctx) -> Result<(), TaskError> {
    ctx.shared::<Arc<Trail>>()?.lock().push(name);
    Ok(())
}

async fn fail(_: (), _: Ctx) -> Result<(), TaskError> {
    Err(TaskError::retry("no such host"))
}

fn noting() -> (Registry, Arc<Trail>) {
    let trail = Arc::<Trail>::default();
    (Registry::new().share(Arc::clone(&trail)).handle("note", note).expect("it is a name"), trail)
}

fn named(name: &str) -> NewTask {
    NewTask::new("note").json(name).expect("text is JSON")
}

/// Enqueues a task, drains, and returns it.
async fn drain_one(registry: &Registry, task: NewTask) -> (TestQueue, TaskRecord) {
    let queue = TestQueue::new();
    queue.client().enqueue(task).await.expect("it is valid");
    let mut ended = queue.drain(registry).await;
    assert_eq!(ended.len(), 1);
    (queue, ended.pop().expect("one"))
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<String>().expect("it panicked with a formatted text")
}

#[tokio::test]
async fn one_task_runs_inline_whatever_its_delay_and_says_how_it_ended() {
    async fn double(number: u32, ctx: Ctx) -> Result<u32, TaskError> {
        assert_eq!(ctx.attempt(), 1);
        ctx.enqueue(NewTask::new("follow-up")).await?;
        Ok(number * 2)
    }
    let registry = Registry::new().handle("double", double).unwrap();
    let task = NewTask::new("double").json(&21).unwrap().delay(HOUR).queue("numbers").namespace("shop");
    let result = Some(Bytes::from_static(b"42"));
    assert_eq!(run_inline(&registry, task).await, Outcome::Succeeded { result });
}

#[tokio::test]
async fn a_panic_is_a_failure_that_carries_its_message() {
    async fn index(number: usize, _: Ctx) -> Result<u32, TaskError> {
        if number == 9 { panic!("nine it is") } else { Ok([1, 2, 3][number]) }
    }
    let registry = Registry::new().handle("index", index).unwrap();
    let run = |number: usize| run_inline(&registry, NewTask::new("index").json(&number).unwrap());
    assert_eq!(run(9).await, Outcome::failed("the handler panicked: nine it is"));
    let formatted = "the handler panicked: index out of bounds: the len is 3 but the index is 7";
    assert_eq!(run(7).await, Outcome::failed(formatted));
}

#[tokio::test]
async fn a_type_without_a_handler_is_a_failure_that_names_the_registered_ones() {
    let (registry, _) = noting();
    let said = "no handler for task type `nope`: this worker has `note`";
    assert_eq!(run_inline(&registry, NewTask::new("nope")).await, Outcome::failed(said));
    let (_, record) = drain_one(&registry, NewTask::new("nope").max_attempts(2)).await;
    assert_eq!((record.state, record.failures), (TaskState::Dead, 2));
    assert_eq!(record.last_error.as_deref(), Some(said));
}

#[tokio::test]
async fn a_drain_runs_every_queue_of_every_namespace_in_the_order_of_a_worker() {
    let (registry, trail) = noting();
    let queue = TestQueue::new();
    let tasks = vec![
        named("last").priority(9),
        named("first").priority(0).queue("other"),
        named("next").priority(3),
        named("elsewhere").namespace("shop"),
    ];
    queue.client().enqueue_batch(tasks).await.unwrap();
    let ended = queue.drain(&registry).await;
    assert_eq!(*trail.lock(), ["first", "next", "last", "elsewhere"]);
    assert_eq!(ended.iter().map(|record| record.key.id.0).collect::<Vec<_>>(), [2, 3, 1, 4]);
    assert_eq!(queue.drain(&registry).await, [], "what has ended is not reported again");
}

#[tokio::test]
async fn a_drain_moves_the_clock_to_what_is_scheduled_and_no_further() {
    let (registry, trail) = noting();
    let queue = TestQueue::new();
    let start = queue.clock().now();
    queue
        .client()
        .enqueue_batch(vec![named("late").delay(3 * HOUR), named("soon").delay(HOUR)])
        .await
        .unwrap();
    let ended = queue.drain(&registry).await;
    assert_eq!(*trail.lock(), ["soon", "late"]);
    assert_eq!(ended[0].finished_at, Some(start.saturating_add(HOUR)));
    assert_eq!(queue.clock().now(), start.saturating_add(3 * HOUR));
}

#[tokio::test]
async fn a_drain_does_not_wait_for_a_start_that_was_cancelled() {
    async fn call_off(key: TaskKey, ctx: Ctx) -> Result<(), TaskError> {
        Ok(ctx.shared::<Client>()?.handle(key).cancel().await?)
    }
    let queue = TestQueue::new();
    let registry = Registry::new().share(queue.client()).handle("call_off", call_off).unwrap();
    let start = queue.clock().now();
    let handle = queue.client().enqueue(named("never").delay(HOUR)).await.unwrap();
    queue.client().enqueue(NewTask::new("call_off").json(handle.key()).unwrap()).await.unwrap();
    let ended = queue.drain(&registry).await;
    assert_eq!(ended.iter().map(|record| record.key.id.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(queue.clock().now(), start);
}

#[tokio::test]
async fn a_drain_retries_a_failing_task_until_its_budget_is_spent() {
    let registry = Registry::new().handle("fail", fail).unwrap();
    let (queue, record) = drain_one(&registry, NewTask::new("fail")).await;
    assert_eq!((record.state, record.failures, record.executions), (TaskState::Dead, 5, 5));
    assert_eq!(record.last_error.as_deref(), Some("no such host"));
    assert!(queue.clock().now() > record.created_at, "the delays have passed");
}

#[tokio::test]
async fn a_drain_runs_what_handlers_enqueue_also_in_queues_that_are_new() {
    async fn chain(left: u32, ctx: Ctx) -> Result<(), TaskError> {
        if left > 0 {
            let next = NewTask::new("chain").json(&(left - 1))?.queue(format!("queue-{left}"));
            ctx.enqueue(next.namespace(if left == 1 { "aaa" } else { "zzz" })).await?;
        }
        Ok(())
    }
    let registry = Registry::new().handle("chain", chain).unwrap();
    let queue = TestQueue::new();
    queue.client().enqueue(NewTask::new("chain").json(&3).unwrap()).await.unwrap();
    let ended = queue.drain(&registry).await;
    assert_eq!(ended.len(), 4);
    assert_eq!(ended[3].key.namespace.as_str(), "aaa");
}

#[tokio::test]
async fn a_drain_stores_the_handlers_log_and_progress() {
    async fn talk(_: (), ctx: Ctx) -> Result<(), TaskError> {
        (0..40).for_each(|line| ctx.log(format!("line {line}")));
        ctx.progress(0.5, "half");
        Ok(())
    }
    let registry = Registry::new().handle("talk", talk).unwrap();
    let (queue, record) = drain_one(&registry, NewTask::new("talk")).await;
    assert_eq!(record.progress.expect("it was reported").message, "half");
    let stream = StreamKey::attempt_log(&record.key, 1);
    let log = queue.store().read_entries(&stream, ReadFrom::Last(100), 100).await.unwrap();
    assert_eq!(log.entries.len(), 40);
    assert_eq!(log.entries[39].body, "line 39");
}

#[tokio::test]
async fn a_result_too_large_to_keep_is_a_failure_that_says_so() {
    async fn boast(_: (), _: Ctx) -> Result<String, TaskError> {
        Ok("x".repeat(weaver_core::outcome::RESULT_MAX_BYTES))
    }
    let registry = Registry::new().handle("boast", boast).unwrap();
    let (_, record) = drain_one(&registry, NewTask::new("boast")).await;
    assert_eq!((record.state, record.executions), (TaskState::Dead, 1));
    assert!(record.last_error.unwrap().contains("the result has 65538 bytes"));
}

#[tokio::test]
async fn a_task_cancelled_by_its_own_handler_frees_its_key_at_once() {
    async fn give_up(_: (), ctx: Ctx) -> Result<(), TaskError> {
        ctx.shared::<Client>()?.handle(ctx.key().clone()).cancel().await?;
        Ok(())
    }
    let queue = TestQueue::new();
    let (registry, trail) = noting();
    let registry = registry.share(queue.client()).handle("give_up", give_up).unwrap();
    let start = queue.clock().now();
    let tasks = vec![NewTask::new("give_up").serial_key("one"), named("after").serial_key("one")];
    queue.client().enqueue_batch(tasks).await.unwrap();
    let ended = queue.drain(&registry).await;
    assert_eq!(ended[0].cause, Some(Cause::Cancelled(CancelReason::User)));
    assert_eq!(*trail.lock(), ["after"]);
    assert_eq!(queue.clock().now(), start, "nothing had to wait for the lease to end");
}

#[tokio::test]
async fn a_task_whose_worker_crashed_runs_again_after_lease_expiry() {
    let (registry, _) = noting();
    let queue = TestQueue::new();
    queue.client().enqueue(named("again")).await.unwrap();
    let worker = WorkerId::new("crashed").unwrap();
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(1));
    queue.store().dequeue_ready(request).await.unwrap().expect("it is due");
    let ended = queue.drain(&registry).await;
    assert_eq!((ended[0].state, ended[0].losses, ended[0].executions), (TaskState::Succeeded, 1, 2));
}

#[tokio::test]
async fn a_paused_queue_stays_as_it_is_and_what_expires_in_it_expires() {
    let (registry, trail) = noting();
    let queue = TestQueue::new();
    let paused = QueueSettings { paused: true, max_running: None, ..QueueSettings::default() };
    let (namespace, name) = (Namespace::default(), QueueName::default());
    queue.store().put_queue(&namespace, &name, paused, Expect::Anything).await.unwrap();
    let expires_at = queue.clock().now().saturating_add(HOUR);
    queue.client().enqueue_batch(vec![named("stays"), named("goes").expires_at(expires_at)]).await.unwrap();
    let ended = queue.drain(&registry).await;
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].cause, Some(Cause::Cancelled(CancelReason::Expired)));
    assert_eq!(queue.enqueued().await[0].state, TaskState::Queued);
    assert_eq!(*trail.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn a_drain_that_never_ends_panics_and_names_the_task() {
    async fn again(_: (), _: Ctx) -> Result<(), TaskError> {
        Err(TaskError::snooze(Duration::from_secs(1)))
    }
    let registry = Registry::new().handle("again", again).unwrap();
    let queue = TestQueue::new();
    queue.client().enqueue(NewTask::new("again")).await.unwrap();
    let panic = AssertUnwindSafe(queue.drain(&registry)).catch_unwind().await.unwrap_err();
    let text = message(&*panic);
    assert!(text.contains("100000 executions") && text.contains("default/1 of type `again`"), "{text}");
}

#[tokio::test]
async fn what_was_enqueued_is_found_by_type_and_payload_in_any_state() {
    let (registry, _) = noting();
    let queue = TestQueue::new();
    queue
        .client()
        .enqueue_batch(vec![named("Ada"), named("Grace").namespace("shop").delay(1000 * HOUR)])
        .await
        .unwrap();
    queue.drain(&registry).await;
    let found = queue.assert_enqueued("note", |payload| payload == "Grace").await;
    assert_eq!((found.key.id, found.state), (TaskId(2), TaskState::Succeeded));
    queue.assert_enqueued("note", |payload| payload == "Ada").await; // however long ago it ended
}

#[tokio::test]
async fn an_assertion_that_fails_says_where_it_stands_and_what_was_enqueued() {
    let queue = TestQueue::new();
    let none = AssertUnwindSafe(queue.assert_enqueued("note", |_| true)).catch_unwind().await.unwrap_err();
    assert!(message(&*none).ends_with("Nothing was enqueued at all."));

    let picture = NewTask::new("note").payload("pixels", ContentType::other("image/png"));
    queue.client().enqueue_batch(vec![named("Ada").queue("mail"), picture, NewTask::new("x")]).await.unwrap();
    for (task_type, fits) in [("note", "Grace"), ("other", "Ada")] {
        let line = line!() + 1;
        let assertion = queue.assert_enqueued(task_type, |payload| payload == fits);
        let panic = AssertUnwindSafe(assertion).catch_unwind().await.unwrap_err();
        let text = message(&*panic);
        assert!(text.contains(&format!("testing.rs:{line}")), "{text}");
        assert!(text.contains(&format!("no `{task_type}` task with such a payload. 3 enqueued:")), "{text}");
        assert!(text.contains("default/1 `note` (queued, queue `mail`): \"Ada\""), "{text}");
        assert!(text.contains("default/2 `note` (queued, queue `default`): pixels"), "{text}");
    }
}

#[tokio::test]
async fn a_handler_that_says_committed_without_a_transaction_has_failed_its_attempt() {
    async fn pretend(_: (), _: Ctx) -> Result<Outcome, TaskError> {
        Ok(Outcome::Committed)
    }
    let registry = Registry::new().handle("pretend", pretend).unwrap();
    let (_, task) = drain_one(&registry, NewTask::new("pretend").max_attempts(2)).await;
    assert_eq!((task.state, task.failures), (TaskState::Dead, 2));
    assert!(task.last_error.unwrap().contains("`complete_in` was never called"));
}

#[tokio::test]
async fn a_handler_may_return_an_outcome_of_its_own() {
    async fn enough(_: (), _: Ctx) -> Result<Outcome, TaskError> {
        Ok(Outcome::Cancelled { message: "enough".into() })
    }
    let registry = Registry::new().handle("enough", enough).unwrap();
    let (_, task) = drain_one(&registry, NewTask::new("enough")).await;
    assert_eq!(task.cause, Some(Cause::Cancelled(CancelReason::Handler)));
}
