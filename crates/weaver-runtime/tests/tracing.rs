//! Log events of a task's lifecycle: the seed's events with the seed's fields, in a span with the producer's
//! trace.

#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::prelude::*;
use weaver_core::task::TraceContext;
use weaver_runtime::{Client, Ctx, LocalSource, Registry, Shutdown, TaskError, Worker};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The fields of an event or a span, by name. An event's name is its `message`.
#[derive(Debug, Clone, Default, PartialEq)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// All events and spans of the runtime.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    spans: Vec<Fields>,
    /// The spans that were entered and not left, innermost last. One thread: one stack.
    entered: Vec<u64>,
    /// Events with the span they were in.
    events: Vec<(Fields, Option<u64>)>,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("weaver_runtime")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields(BTreeMap::from([("name", attributes.metadata().name().to_owned())]));
        attributes.record(&mut fields);
        let mut heard = self.0.lock();
        heard.spans.push(fields);
        Id::from_u64(heard.spans.len() as u64)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut heard = self.0.lock();
        let span = heard.entered.last().copied();
        heard.events.push((fields, span));
    }

    fn enter(&self, span: &Id) {
        self.0.lock().entered.push(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.0.lock().entered.pop();
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

impl Log {
    fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        (log.clone(), tracing::subscriber::set_default(log))
    }

    /// The events of a name, in order.
    fn named(&self, message: &str) -> Vec<Fields> {
        let heard = self.0.lock();
        let events = heard.events.iter().map(|(fields, _)| fields);
        events.filter(|fields| fields.0.get("message").is_some_and(|said| said == message)).cloned().collect()
    }

    /// The span the first event of a name was in.
    fn span_of(&self, message: &str) -> Fields {
        let heard = self.0.lock();
        let event = heard.events.iter().find(|(fields, _)| fields.0["message"] == message);
        let span = event.and_then(|(_, span)| *span).expect("it was said in a span");
        heard.spans[span as usize - 1].clone()
    }
}

fn event(fields: &[(&'static str, &str)]) -> Fields {
    Fields(fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
}

async fn moody(mood: String, ctx: Ctx) -> Result<(), TaskError> {
    tracing::info!(target: "weaver_runtime::test", "inside");
    match (mood.as_str(), ctx.attempt()) {
        ("bad", _) | ("mixed", 1) => Err(TaskError::retry("not today")),
        _ => Ok(()),
    }
}

/// Runs a task to its end on a worker, on virtual time, and returns what was said.
async fn log_of(task: NewTask) -> Log {
    let (log, _guard) = Log::begin();
    let clock = ManualClock::default();
    let store: Arc<dyn Store> = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
    let client = Client::new(Arc::clone(&store), Arc::new(clock.clone()));
    let registry = Registry::new().handle("moody", moody).unwrap();
    let time: Arc<dyn Clock> = Arc::new(clock.clone());
    let worker = Worker::builder(Arc::new(LocalSource::new(store)), time).registry(registry).build().unwrap();
    let shutdown = Shutdown::new();
    let task = client.enqueue(task).await.unwrap();
    let working = worker.run(shutdown.clone());
    let watching = async {
        while !task.status().await.unwrap().state.is_terminal() {
            let waits = task.status().await.unwrap().state == TaskState::RetryScheduled;
            clock.advance(Duration::from_secs(u64::from(waits)));
            tokio::task::yield_now().await;
        }
        shutdown.request();
    };
    tokio::join!(working, watching);
    log
}

fn moody_task(mood: &str) -> NewTask {
    let retry = RetryPolicy::Fixed { delay: Duration::from_secs(7) };
    NewTask::new("moody").json(mood).unwrap().retry(retry)
}

// Whether an event is wanted is remembered for the whole process, so each test keeps its subscriber to its
// own thread and all of them want the same.
#[tokio::test]
async fn enqueued_started_and_succeeded_carry_the_task_its_type_and_the_attempt() {
    let log = log_of(moody_task("good")).await;
    let enqueued =
        [("message", "Enqueued"), ("task_id", "1"), ("task_type", "moody"), ("namespace", "default")];
    assert_eq!(log.named("Enqueued"), [event(&enqueued)]);
    let started = [("message", "Started"), ("task_id", "1"), ("attempt", "1")];
    assert_eq!(log.named("Started"), [event(&started)]);
    let succeeded = [("message", "Succeeded"), ("task_id", "1"), ("attempt", "1")];
    assert_eq!(log.named("Succeeded"), [event(&succeeded)]);
    for other in ["Failed", "RetryScheduled", "Dead"] {
        assert_eq!(log.named(other), [], "{other}");
    }
}

#[tokio::test]
async fn failed_carries_the_error_and_retry_scheduled_the_next_run_and_the_backoff() {
    let log = log_of(moody_task("mixed")).await;
    let failed = [("message", "Failed"), ("task_id", "1"), ("attempt", "1"), ("err", "not today")];
    assert_eq!(log.named("Failed"), [event(&failed)]);
    let scheduled = [
        ("message", "RetryScheduled"),
        ("task_id", "1"),
        ("next_run_at", "2026-01-01T00:00:07.000000Z"),
        ("backoff", "7s"),
    ];
    assert_eq!(log.named("RetryScheduled"), [event(&scheduled)]);
    let attempts: Vec<_> =
        log.named("Started").into_iter().map(|started| started.0["attempt"].clone()).collect();
    assert_eq!(attempts, ["1", "2"]);
    assert_eq!(log.named("Succeeded")[0].0["attempt"], "2");
}

#[tokio::test]
async fn dead_carries_the_last_error_and_the_attempts() {
    let log = log_of(moody_task("bad").max_attempts(3)).await;
    assert_eq!(log.named("Failed").len(), 3);
    assert_eq!(log.named("RetryScheduled").len(), 2);
    let dead = [("message", "Dead"), ("task_id", "1"), ("last_error", "not today"), ("attempts", "3")];
    assert_eq!(log.named("Dead"), [event(&dead)]);
    assert_eq!(log.named("Succeeded"), []);
}

#[tokio::test]
async fn a_handler_runs_in_a_span_that_carries_the_trace_of_the_producer() {
    let trace = TraceContext { traceparent: TRACEPARENT.to_owned(), tracestate: None };
    let log = log_of(moody_task("good").trace(trace)).await;
    let expected = event(&[
        ("name", "task"),
        ("task_id", "1"),
        ("namespace", "default"),
        ("task_type", "moody"),
        ("attempt", "1"),
        ("traceparent", TRACEPARENT),
    ]);
    assert_eq!(log.span_of("Started"), expected);
    assert_eq!(log.span_of("inside"), expected, "the handler's own events are in it too");

    let log = log_of(moody_task("good")).await;
    assert_eq!(log.span_of("Started").0.get("traceparent"), None);
}
