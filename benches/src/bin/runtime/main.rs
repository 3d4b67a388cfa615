//! Workers compared with a bare loop and a peer: `cargo xtask bench runtime`.

mod no_ops;
mod slow;
mod wake;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use no_ops::TASKS;
use slow::{SLOW, SLOW_TTL, slow_handlers};
use tokio::sync::Notify;
use wake::{WAKEUPS, wake_ups};
use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_core::queue::memory::MemoryOptions;
use weaver_runtime::{Ctx, Registry, SystemClock, TaskError, WorkSource, Worker};

const THREADS: usize = 2;
/// Concurrent handlers of every subject.
const CONCURRENCY: usize = 64;
/// Tasks per call of a batching producer.
const BATCH: u64 = 100;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_time()
        .build()
        .expect("a runtime");
    // All parts, or the named ones; `weaver` (with `waits` or `once`) runs Weaver alone, for a profiler.
    let parts: Vec<String> = std::env::args().skip(1).collect();
    let asked = |part: &str| parts.is_empty() || parts.iter().any(|name| name == part);
    if !parts.is_empty() && asked("weaver") {
        no_ops::alone(&runtime, asked("waits"), asked("once"));
    }
    let mut ok = true;
    // First, before freed memory could be reused.
    if asked("slow") {
        println!("{SLOW} slow handlers waiting, leases of {SLOW_TTL:?}");
        ok &= slow_handlers(&runtime);
    }
    if asked("no-ops") {
        println!(
            "no-op handlers end to end, {CONCURRENCY} at once on {THREADS} threads, {TASKS} tasks a round"
        );
        ok &= no_ops::no_ops(&runtime);
    }
    if asked("wake-up") {
        println!("idle wake-up, {WAKEUPS} a round");
        ok &= wake_ups(&runtime);
    }
    std::process::exit(i32::from(!ok));
}

/// Counts handlers, and notifies when all of them have run.
#[derive(Default)]
struct Tally {
    count: AtomicU64,
    all: Notify,
}

impl Tally {
    fn add(&self, expected: u64) {
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == expected {
            self.all.notify_one();
        }
    }
}

fn store() -> Arc<InMemoryQueue> {
    let options = MemoryOptions { retention_count: 1_000, ..MemoryOptions::default() };
    Arc::new(InMemoryQueue::with_options(Arc::new(SystemClock::new()), options))
}

fn new_task() -> NewTask {
    NewTask::new("task")
}

/// A worker as users build it, with one typed handler.
fn worker<F, Fut>(
    source: Arc<dyn WorkSource>,
    handler: F,
    concurrency: usize,
) -> weaver_runtime::WorkerBuilder
where
    F: Fn((), Ctx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), TaskError>> + Send + 'static,
{
    let registry = Registry::new().handle("task", handler).expect("a name");
    let worker = Worker::builder(source, Arc::new(SystemClock::new())).registry(registry);
    worker.concurrency(concurrency as u32)
}

async fn enqueue(store: &dyn Store, count: u64, batch: u64) {
    for _ in 0..count / batch {
        if batch == 1 {
            store.enqueue(new_task()).await.expect("enqueued");
        } else {
            store.enqueue_batch((0..batch).map(|_| new_task()).collect()).await.expect("enqueued");
        }
        // As the other subjects' producers. A store in memory never has its caller wait: without this the
        // producer would keep its thread, and the worker it has woken there, until everything is enqueued.
        tokio::task::coop::consume_budget().await;
    }
}
