//! A store, a clock and workers, with short words for what the tests do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::LeaseToken;
use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_runtime::{LocalSource, Registry, RunSummary, Shutdown, Worker, WorkerBuilder};

/// How often a test looks before it gives up. Looking lets everything else run: there are no threads and no sleeps.
const LOOKS_MAX: usize = 20_000;

pub(crate) struct Rig {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn Store>,
}

pub(crate) struct Running {
    pub(crate) shutdown: Shutdown,
    pub(crate) worker: JoinHandle<RunSummary>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::default();
        let store: Arc<dyn Store> = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        Self { clock, store }
    }

    pub(crate) fn builder(&self, registry: Registry) -> WorkerBuilder {
        self.builder_on(Arc::clone(&self.store), registry)
    }

    pub(crate) fn builder_on(&self, store: Arc<dyn Store>, registry: Registry) -> WorkerBuilder {
        static TOKENS: AtomicU64 = AtomicU64::new(1);
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        Worker::builder(Arc::new(LocalSource::new(store)), clock)
            .name("w1")
            .registry(registry)
            .tokens(Arc::new(|| LeaseToken(TOKENS.fetch_add(1, Ordering::Relaxed).into())))
    }

    #[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
    pub(crate) fn start(&self, builder: WorkerBuilder) -> Running {
        let shutdown = Shutdown::new();
        let worker = builder.build().expect("the worker is well described");
        Running { worker: tokio::spawn(worker.run(shutdown.clone())), shutdown }
    }

    /// A worker named `w1` with these handlers, and nothing else said.
    pub(crate) fn work(&self, registry: Registry) -> Running {
        self.start(self.builder(registry))
    }

    pub(crate) async fn enqueue(&self, task: NewTask) -> TaskKey {
        self.store.enqueue(task).await.expect("the task is stored").key
    }

    pub(crate) async fn record(&self, key: &TaskKey) -> TaskRecord {
        self.store.get_task(key).await.expect("the task is there")
    }

    /// Waits until a task is in a state.
    pub(crate) async fn until(&self, key: &TaskKey, state: TaskState) -> TaskRecord {
        for _ in 0..LOOKS_MAX {
            let record = self.record(key).await;
            if record.state == state {
                return record;
            }
            tokio::task::yield_now().await;
        }
        panic!("{key} should become {state}: {:?}", self.record(key).await);
    }

    /// Moves time in steps of a second, letting everything run in between.
    pub(crate) async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            settle().await;
            self.clock.advance(Duration::from_secs(1));
        }
        settle().await;
    }
}

/// Lets everything that can run, run.
pub(crate) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Waits until something is true.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_true() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("this should happen: {what}");
}

/// What handlers noted.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, note: impl Into<String>) {
        self.0.lock().push(note.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub(crate) fn has(&self, note: &str) -> bool {
        self.0.lock().iter().any(|noted| noted == note)
    }
}
