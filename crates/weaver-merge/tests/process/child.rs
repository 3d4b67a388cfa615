//! A merge queue process, like `weaver merge run --until-idle`, that kills itself at a chosen effect.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::clock::Clock;
use weaver_core::ports::Store;
use weaver_embedded::{EmbeddedStore, StoreError};
use weaver_merge::check::{CHECK_QUEUE, CheckHandler};
use weaver_merge::domain::{MergeError, QueueId, RemoveOptions};
use weaver_merge::engine::{EngineError, EngineOptions, MergeEngine};
use weaver_merge::forge::git::{GitForge, GitForges};
use weaver_merge::forge::{Forge, MergeRequest};
use weaver_merge::keys::Keyring;
use weaver_merge::plan::Policy;
use weaver_postgres::{PostgresOptions, PostgresStore};
use weaver_process::confine::ConfinerOptions;
use weaver_process::{Confiner, Isolation};
use weaver_runtime::{LocalSource, Registry, Shutdown, SystemClock, Worker};
use weaver_testkit::faults::{CallSite, Fault, FaultyStore, Plan, SkewedClock};

use crate::harness;
use crate::hooked::{Hook, HookedForges};

/// Argument that makes this binary a merge queue process; its orders follow.
pub(crate) const RUN: &str = "merge-queue";
/// Argument that makes it merge; a repository, a base and a head follow.
pub(crate) const MERGE: &str = "merge-commits";

/// Store calls that count as effects.
const WRITES: [&str; 9] = [
    "enqueue_batch",
    "lease",
    "commit",
    "renew",
    "confirm_stopped",
    "put_document",
    "write_documents",
    "append_entries",
    "trim_entries",
];
/// Poll interval.
const POLL_EVERY: Duration = Duration::from_millis(20);
/// How long another process may have the store open.
const STORE_WAIT: Duration = Duration::from_secs(5);

/// Configuration of a child process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// A directory, or the URL of a database.
    pub(crate) store: String,
    /// Where checks run.
    pub(crate) checks: PathBuf,
    /// Path of the signing key.
    pub(crate) key: PathBuf,
    /// How far its clock is ahead, in seconds: leases of dead processes have expired by then.
    pub(crate) ahead_s: u32,
    /// The effect at which it kills itself, from 0, and whether before or after it.
    pub(crate) dies: Option<(u64, When)>,
    /// Whether waits and change streams fail, so that it gets no wake-ups.
    pub(crate) without_wakeups: bool,
    /// The queue that it removes, with its entries, once a check of it was started.
    pub(crate) removes: Option<QueueId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum When {
    Before,
    After,
}

/// Counts effects, and kills this process at one of them.
#[derive(Debug)]
struct Life {
    dies: Option<(u64, When)>,
    without_wakeups: bool,
    begun: AtomicU64,
    done: AtomicU64,
}

impl Life {
    fn count(&self, when: When, counter: &AtomicU64) {
        let number = counter.fetch_add(1, Ordering::SeqCst);
        if self.dies == Some((number, when)) {
            let killed =
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            unreachable!("{killed:?}");
        }
    }
}

impl Hook for Life {
    fn before(&self, _effect: &'static str) {
        self.count(When::Before, &self.begun);
    }
    fn after(&self, _effect: &'static str) {
        self.count(When::After, &self.done);
    }
}

/// The same for store calls.
struct Watched(Arc<Life>);

impl Plan for Watched {
    fn fault(&self, site: &CallSite) -> Fault {
        if self.0.without_wakeups && matches!(site.method, "wait" | "changes") {
            return Fault::FailBefore;
        }
        if WRITES.contains(&site.method) {
            self.0.count(When::Before, &self.0.begun);
        }
        Fault::None
    }

    fn done(&self, site: &CallSite) {
        if WRITES.contains(&site.method) {
            self.0.count(When::After, &self.0.done);
        }
    }
}

pub(crate) fn clock(ahead_s: u32) -> Arc<dyn Clock> {
    Arc::new(SkewedClock::new(Arc::new(SystemClock::new()), i64::from(ahead_s) * 1_000_000))
}

pub(crate) async fn open(store: &str, clock: &Arc<dyn Clock>) -> Arc<dyn Store> {
    if store.starts_with("postgres:") {
        let options = PostgresOptions::parse(store).unwrap();
        return Arc::new(PostgresStore::open(options, Arc::clone(clock)).await.unwrap());
    }
    let deadline = clock.monotonic().saturating_add(STORE_WAIT);
    loop {
        match EmbeddedStore::open(store, Arc::clone(clock)) {
            // Another thread may be between fork and exec: the child still holds the open files.
            Err(StoreError::InUse { .. }) if clock.monotonic() < deadline => {
                clock.sleep_until(clock.monotonic().saturating_add(POLL_EVERY)).await;
            }
            opened => return Arc::new(opened.unwrap()),
        }
    }
}

pub(crate) fn options(key: &Path) -> EngineOptions {
    let policy = Policy { reconcile_every_s: 1, backoff_first_s: 1, ..Policy::default() };
    EngineOptions { keyring: Keyring::at(key, None), ..harness::options(policy) }
}

/// Runs until idle, then prints the number of effects.
pub(crate) fn run(orders: &OsStr) -> ExitCode {
    let orders: Orders = serde_json::from_str(orders.to_str().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let effects = runtime.block_on(process(orders));
    println!("{effects}");
    ExitCode::SUCCESS
}

async fn process(orders: Orders) -> u64 {
    let clock = clock(orders.ahead_s);
    let plain = open(&orders.store, &clock).await;
    let life = Arc::new(Life {
        dies: orders.dies,
        without_wakeups: orders.without_wakeups,
        begun: AtomicU64::new(0),
        done: AtomicU64::new(0),
    });
    let store: Arc<dyn Store> =
        Arc::new(FaultyStore::new(Arc::clone(&plain), Arc::clone(&clock), Watched(Arc::clone(&life))));
    let forges = Arc::new(HookedForges {
        forges: Arc::new(GitForges::new(Arc::clone(&clock))),
        hook: Arc::clone(&life) as Arc<dyn Hook>,
    });
    // These tests' checks write down what they tested, outside of every sandbox.
    let isolation = Isolation {
        confiner: Some(Arc::new(Confiner::new(std::env::current_exe().unwrap(), ConfinerOptions::default()))),
        ..Isolation::none()
    };
    let check_options = harness::check_options(orders.checks, isolation);
    let handler =
        CheckHandler::new(Arc::clone(&store), Arc::clone(&forges) as _, Arc::clone(&clock), check_options);
    let worker = Worker::builder(Arc::new(LocalSource::new(Arc::clone(&store))), Arc::clone(&clock))
        .registry(Registry::new().handler(handler))
        .queues([CHECK_QUEUE])
        .concurrency(2)
        .lease_ttl(Duration::from_secs(3))
        .poll_every(Duration::from_millis(100))
        .build()
        .unwrap();
    let engine = MergeEngine::new(store, forges, Arc::clone(&clock), options(&orders.key));
    let observer = MergeEngine::new(
        plain,
        Arc::new(GitForges::new(Arc::clone(&clock))),
        clock.clone(),
        options(&orders.key),
    );
    let shutdown = Shutdown::new();
    let removing = async {
        if let Some(queue) = &orders.removes {
            remove_while_checking(&engine, &observer, queue, &*clock).await;
        }
    };
    let work = async {
        let idle = async {
            Box::pin(removing).await;
            until_idle(&observer, &*clock).await;
        };
        Box::pin(engine.run(idle)).await;
        shutdown.request();
    };
    tokio::join!(Box::pin(worker.run(shutdown.clone())), Box::pin(work));
    life.begun.load(Ordering::SeqCst)
}

/// Resolves when all queues are empty and every notice is published.
async fn until_idle(engine: &MergeEngine, clock: &dyn Clock) {
    loop {
        let queues = engine.queues().await.unwrap();
        let is_done = |queue: &weaver_merge::domain::MergeQueue| {
            let is_empty = queue.entries.is_empty() && queue.removal.is_none();
            is_empty && queue.outbox.is_empty() && queue.stopping.is_empty()
        };
        if queues.iter().all(is_done) {
            return;
        }
        clock.sleep_until(clock.monotonic().saturating_add(POLL_EVERY)).await;
    }
}

/// An entry that is landing by then lands first.
async fn remove_while_checking(
    engine: &MergeEngine,
    observer: &MergeEngine,
    id: &QueueId,
    clock: &dyn Clock,
) {
    let options = RemoveOptions { cancel_entries: true, by: None };
    loop {
        let queue = observer.get(id).await.unwrap().queue;
        let checks = queue.entries.iter().flat_map(|entry| &entry.checks);
        let has_check = checks.flat_map(|check| &check.runs).any(|run| run.task.is_some());
        if has_check || queue.entries.is_empty() {
            match engine.remove_queue(id, &options).await {
                Err(EngineError::Merge(MergeError::Landing(_))) => {}
                removed => return drop(removed.unwrap()),
            }
        }
        clock.sleep_until(clock.monotonic().saturating_add(POLL_EVERY)).await;
    }
}

/// Merges, and prints the result.
pub(crate) fn merge(words: &[OsString]) -> ExitCode {
    let [repository, base, head] = words else { panic!("{words:?}") };
    let oid = |word: &OsString| word.to_str().unwrap().parse().unwrap();
    let request = MergeRequest { base: oid(base), head: oid(head), message: "Merge".into() };
    let forge = GitForge::new(PathBuf::from(repository), clock(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!("{:?}", runtime.block_on(forge.merge(&request)));
    ExitCode::SUCCESS
}
