//! Workers on the in-memory store with a manual clock.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use weaver_core::clock::ManualClock;
use weaver_core::id::TaskKey;
use weaver_core::ports::Store;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_runtime::{Registry, RunSummary, Shutdown, WorkSource, Worker, WorkerBuilder};

use crate::harness::{Harness, InMemory};

/// How often a test yields to other tasks: there are no threads and no sleeps.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Yields after which an expected condition counts as never happening.
    pub polls_max: usize,
    /// Yields after which a call and its consequences are done.
    pub polls_to_settle: usize,
}

impl Patience {
    /// Yields until all runnable tasks are idle.
    pub async fn settle(self) {
        for _ in 0..self.polls_to_settle {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a condition holds; panics after `polls_max` yields.
    pub async fn until(self, what: &str, mut is_true: impl FnMut() -> bool) {
        for _ in 0..self.polls_max {
            if is_true() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("this should happen: {what}");
    }
}

/// How a worker reaches a store.
type Connect = fn(Arc<dyn Store>, &ManualClock) -> Arc<dyn WorkSource>;

/// A [`Harness`] on the in-memory store, with workers.
pub struct WorkerHarness {
    harness: Harness,
    /// The clock of the store and of the workers.
    pub clock: ManualClock,
    connect: Connect,
    patience: Patience,
}

impl Deref for WorkerHarness {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

/// A worker that was started by a test.
pub struct Running {
    /// Requests a graceful shutdown.
    pub shutdown: Shutdown,
    /// Resolves when the worker has stopped.
    pub worker: JoinHandle<RunSummary>,
}

impl WorkerHarness {
    /// Opens a fresh store; workers connect to it with `connect`.
    pub fn new(connect: Connect, patience: Patience) -> Self {
        let clock = ManualClock::default();
        let harness = Harness::on(Arc::new(InMemory::new(clock.clone())));
        Self { harness, clock, connect, patience }
    }

    /// Builder of a worker named `w1` with these handlers.
    pub fn builder(&self, registry: Registry) -> WorkerBuilder {
        self.builder_on(Arc::clone(&self.store), registry)
    }

    /// The same on another store, for instance this one behind faults.
    pub fn builder_on(&self, store: Arc<dyn Store>, registry: Registry) -> WorkerBuilder {
        let tokens = self.harness.clone();
        Worker::builder((self.connect)(store, &self.clock), Arc::new(self.clock.clone()))
            .name("w1")
            .registry(registry)
            .tokens(Arc::new(move || tokens.token()))
    }

    /// Builds a worker and spawns it.
    pub fn start(&self, builder: WorkerBuilder) -> Running {
        let shutdown = Shutdown::new();
        let worker = builder.build().expect("the worker is well described");
        Running { worker: self.spawn(worker.run(shutdown.clone())), shutdown }
    }

    /// Starts a worker named `w1` with these handlers and default settings.
    pub fn work(&self, registry: Registry) -> Running {
        self.start(self.builder(registry))
    }

    /// Waits until a task is in a state.
    pub async fn until(&self, key: &TaskKey, state: TaskState) -> TaskRecord {
        for _ in 0..self.patience.polls_max {
            let record = self.record(key).await;
            if record.state == state {
                return record;
            }
            tokio::task::yield_now().await;
        }
        panic!("{key} should become {state}: {:?}", self.record(key).await);
    }

    /// Advances the clock in steps of a second, running all tasks in between.
    pub async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.patience.settle().await;
            self.clock.advance(Duration::from_secs(1));
        }
        self.patience.settle().await;
    }
}

/// Notes of the handlers, shared by clones.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Appends one note to the list.
    pub fn add(&self, note: impl Into<String>) {
        self.0.lock().push(note.into());
    }

    /// Everything noted, in order.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// Whether this was noted.
    pub fn has(&self, note: &str) -> bool {
        self.0.lock().iter().any(|noted| noted == note)
    }
}
