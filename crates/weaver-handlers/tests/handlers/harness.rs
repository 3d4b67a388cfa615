//! A store, a clock and a worker, with helpers for the tests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinHandle;
use weaver_core::clock::ManualClock;
use weaver_core::ports::{ReadFrom, StreamKey};
use weaver_core::prelude::*;
use weaver_handlers::{ExecHandler, ExecPolicy, HttpHandler, HttpPolicy};
use weaver_process::Isolation;
use weaver_runtime::{LocalSource, Registry, RunSummary, Shutdown, Worker, WorkerBuilder, subscribe};

#[path = "../../../weaver-process/tests/harness/mod.rs"]
mod processes;

pub(crate) use processes::{Dir, in_time, is_alive, until};

pub(crate) struct Harness {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn Store>,
}

pub(crate) struct Running {
    pub(crate) shutdown: Shutdown,
    pub(crate) worker: JoinHandle<RunSummary>,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::default();
        let store: Arc<dyn Store> = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        Self { clock, store }
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    pub(crate) fn exec(&self, policy: ExecPolicy) -> Registry {
        Registry::new().handler(ExecHandler::new(policy, &Isolation::default(), self.clock()).unwrap())
    }

    pub(crate) fn http(&self, policy: HttpPolicy) -> Registry {
        Registry::new().handler(HttpHandler::new(policy, self.clock()).unwrap())
    }

    pub(crate) fn builder_on(&self, store: Arc<dyn Store>, registry: Registry) -> WorkerBuilder {
        Worker::builder(Arc::new(LocalSource::new(store)), self.clock()).registry(registry)
    }

    #[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
    pub(crate) fn start(&self, builder: WorkerBuilder) -> Running {
        let shutdown = Shutdown::new();
        let worker = builder.build().unwrap();
        Running { worker: tokio::spawn(worker.run(shutdown.clone())), shutdown }
    }

    pub(crate) fn work(&self, registry: Registry) -> Running {
        self.start(self.builder_on(Arc::clone(&self.store), registry))
    }

    pub(crate) async fn enqueue(&self, task: NewTask) -> TaskKey {
        self.store.enqueue(task).await.unwrap().key
    }

    pub(crate) async fn record(&self, key: &TaskKey) -> TaskRecord {
        self.store.get_task(key).await.unwrap()
    }

    /// Waits until a task is in a state.
    pub(crate) async fn until(&self, key: &TaskKey, state: TaskState) -> TaskRecord {
        let mut events = subscribe(Arc::clone(&self.store));
        let reached = async {
            loop {
                // The first event arrives at once: no later transition is missed.
                events.next().await.unwrap().unwrap();
                let record = self.record(key).await;
                if record.state == state {
                    return record;
                }
                assert!(!record.state.is_terminal(), "{key} should become {state}: {record:?}");
            }
        };
        in_time(&format!("{key} becomes {state}"), reached).await
    }

    /// Enqueues one task, runs it and waits until it is in a state.
    pub(crate) async fn run(&self, registry: Registry, task: NewTask, state: TaskState) -> TaskRecord {
        let running = self.work(registry);
        let key = self.enqueue(task).await;
        let record = self.until(&key, state).await;
        running.worker.abort();
        record
    }

    /// The lines of an attempt's log.
    pub(crate) async fn log(&self, key: &TaskKey, attempt: u32) -> Vec<String> {
        let stream = StreamKey::attempt_log(key, attempt);
        let page = self.store.read_entries(&stream, ReadFrom::Last(1000), 1000).await.unwrap();
        page.entries.iter().map(|entry| String::from_utf8(entry.body.to_vec()).unwrap()).collect()
    }
}

/// Advances the clock in steps of 100 ms until a condition is true.
pub(crate) async fn pass_until(clock: &ManualClock, what: &str, mut is_true: impl FnMut() -> bool) {
    let looking = async {
        while !is_true() {
            clock.advance(Duration::from_millis(100));
            settle().await;
        }
    };
    in_time(what, looking).await;
}

/// Lets everything that can run, run.
pub(crate) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// The JSON a task returned.
pub(crate) fn result(record: &TaskRecord) -> serde_json::Value {
    serde_json::from_slice(record.result.as_ref().unwrap()).unwrap()
}

pub(crate) fn error(record: &TaskRecord) -> String {
    record.last_error.as_ref().unwrap().to_string()
}
