//! Workers on a store in memory, and a clock that the test moves.

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

/// How often a test yields to everything else that can run: there are no threads and no sleeps.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// So many looks, and what is waited for does not happen.
    pub looks_max: usize,
    /// So many looks let a call and what follows from it come to rest.
    pub looks_to_settle: usize,
}

impl Patience {
    /// Lets everything that can run, run.
    pub async fn settle(self) {
        for _ in 0..self.looks_to_settle {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until something is true.
    pub async fn until(self, what: &str, mut is_true: impl FnMut() -> bool) {
        for _ in 0..self.looks_max {
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

/// A [`Harness`] on the store in memory, with workers.
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

/// A worker at work.
pub struct Running {
    /// Stops it.
    pub shutdown: Shutdown,
    /// Its end.
    pub worker: JoinHandle<RunSummary>,
}

impl WorkerHarness {
    /// Opens a fresh store, which workers reach by `connect`.
    pub fn new(connect: Connect, patience: Patience) -> Self {
        let clock = ManualClock::default();
        let harness = Harness::on(Arc::new(InMemory::new(clock.clone())));
        Self { harness, clock, connect, patience }
    }

    /// Describes a worker named `w1` with these handlers.
    pub fn builder(&self, registry: Registry) -> WorkerBuilder {
        self.builder_on(Arc::clone(&self.store), registry)
    }

    /// The same, on another store: this one behind faults, say.
    pub fn builder_on(&self, store: Arc<dyn Store>, registry: Registry) -> WorkerBuilder {
        let tokens = self.harness.clone();
        Worker::builder((self.connect)(store, &self.clock), Arc::new(self.clock.clone()))
            .name("w1")
            .registry(registry)
            .tokens(Arc::new(move || tokens.token()))
    }

    /// Starts a worker.
    pub fn start(&self, builder: WorkerBuilder) -> Running {
        let shutdown = Shutdown::new();
        let worker = builder.build().expect("the worker is well described");
        Running { worker: self.spawn(worker.run(shutdown.clone())), shutdown }
    }

    /// Starts a worker named `w1` with these handlers, and nothing else said.
    pub fn work(&self, registry: Registry) -> Running {
        self.start(self.builder(registry))
    }

    /// Waits until a task is in a state.
    pub async fn until(&self, key: &TaskKey, state: TaskState) -> TaskRecord {
        for _ in 0..self.patience.looks_max {
            let record = self.record(key).await;
            if record.state == state {
                return record;
            }
            tokio::task::yield_now().await;
        }
        panic!("{key} should become {state}: {:?}", self.record(key).await);
    }

    /// Moves time in steps of a second, letting everything run in between.
    pub async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.patience.settle().await;
            self.clock.advance(Duration::from_secs(1));
        }
        self.patience.settle().await;
    }
}

/// What handlers noted.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Notes something.
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
