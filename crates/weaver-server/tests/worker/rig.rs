//! A store, a clock, a server, and workers that know only the server; with the words of the runtime's own rig.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weaver_client::{Client, RemoteSource};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::LeaseToken;
use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_runtime::{LocalSource, Registry, RunSummary, Shutdown, WorkSource, Worker, WorkerBuilder};
use weaver_server::api::AppState;

/// How often a test looks before it gives up. Looking lets everything else run, sockets included: there are no threads
/// and no sleeps.
const LOOKS_MAX: usize = 2_000_000;
/// So many looks let a request and what follows from it come to rest.
const LOOKS_TO_SETTLE: usize = 6_000;

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
        Worker::builder(Arc::new(RemoteSource::new(self.serve(store))), clock)
            .name("w1")
            .registry(registry)
            .tokens(Arc::new(|| LeaseToken(TOKENS.fetch_add(1, Ordering::Relaxed).into())))
    }

    /// A server over a store, which does its own maintenance; and a client of it.
    #[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
    fn serve(&self, store: Arc<dyn Store>) -> Client {
        // A worker that is only built needs nobody to talk to.
        if tokio::runtime::Handle::try_current().is_err() {
            return Client::new("http://127.0.0.1:9").expect("an address");
        }
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        tokio::spawn(maintain(LocalSource::new(Arc::clone(&store)), self.clock.clone()));
        let state = AppState::new(store, Arc::new(self.clock.clone()));
        let router = weaver_server::api::router(state.clone());
        tokio::spawn(weaver_server::serve::serve(listener, router, state, CancellationToken::new()));
        Client::new(&format!("http://{address}")).expect("an address")
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

/// What `weaver serve` does beside its API: looks once a second for what others left behind.
async fn maintain(source: LocalSource, clock: ManualClock) {
    loop {
        clock.sleep_until(clock.monotonic().saturating_add(Duration::from_secs(1))).await;
        // A store that fails now is looked at again in a second.
        let _ = source.maintain().await;
    }
}

/// Lets everything that can run, run.
pub(crate) async fn settle() {
    for _ in 0..LOOKS_TO_SETTLE {
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
