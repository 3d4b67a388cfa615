//! Workers beside a bare loop and a peer: `cargo xtask bench runtime`.

mod slow;
mod wake;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use apalis::prelude::{
    MemorySink, MemoryStorage, ParallelizeExt, Task, TaskBuilder, WorkerBuilder, WorkerBuilderExt,
};
use futures::{SinkExt, StreamExt};
use slow::{SLOW, SLOW_TTL, slow_handlers};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, Semaphore, mpsc};
use wake::{WAKEUPS, wake_ups};
use weaver_benches::{Samples, interleaved, per_second, verdict};
use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_core::queue::memory::MemoryOptions;
use weaver_runtime::{Ctx, LocalSource, Registry, Shutdown, SystemClock, TaskError, WorkSource, Worker};

const THREADS: usize = 2;
const TASKS: u64 = 200_000;
/// Handlers at once, of every subject.
const CONCURRENCY: usize = 64;
/// Tasks in one call of a producer that gathers them.
const BATCH: u64 = 100;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_time()
        .build()
        .expect("a runtime");
    let mut ok = true;
    // First, while nothing has been freed that could be used again unseen.
    println!("{SLOW} slow handlers waiting, leases of {SLOW_TTL:?}");
    ok &= slow_handlers(&runtime);
    println!("no-op handlers end to end, {CONCURRENCY} at once on {THREADS} threads, {TASKS} tasks a round");
    ok &= no_ops(&runtime);
    println!("idle wake-up, {WAKEUPS} a round");
    ok &= wake_ups(&runtime);
    std::process::exit(i32::from(!ok));
}

fn no_ops(runtime: &Runtime) -> bool {
    let mut ok = true;
    for batch in [BATCH, 1] {
        let [weaver, bare, spawned, inline] = interleaved([
            &mut || weaver_no_ops(runtime, batch),
            &mut || bare_no_ops(runtime),
            &mut || apalis_no_ops(runtime, batch, true),
            &mut || apalis_no_ops(runtime, batch, false),
        ]);
        print_rate(&format!("weaver, enqueued by {batch}"), &weaver);
        print_rate("bare channel → semaphore → spawn", &bare);
        print_rate(&format!("apalis, each handler a tokio task, enqueued by {batch}"), &spawned);
        print_rate(&format!("apalis, all handlers in its worker's task, enqueued by {batch}"), &inline);
        let limits = [
            ("bare", &bare, Some(0.45)),
            ("apalis, tokio tasks", &spawned, Some(1.0)),
            ("apalis, one task", &inline, None),
        ];
        for (other, samples, limit) in limits {
            let what = format!("weaver / {other}, enqueued by {batch}");
            let ratio = weaver.median() / samples.median();
            match limit.filter(|_| batch > 1) {
                Some(limit) => ok &= verdict(&what, ratio, limit, true),
                None => println!("       {what}: {ratio:.2} × (reported)"),
            }
        }
    }
    ok
}

fn print_rate(what: &str, samples: &Samples) {
    println!("       {what}: {:.0} k/s ± {:.0} %", samples.median() / 1e3, samples.spread() * 100.0);
}

/// Counts handlers, and rings when all of them have run.
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
    }
}

/// Tasks per second, until the store has taken the end of the last one and the worker has stopped.
fn weaver_no_ops(runtime: &Runtime, batch: u64) -> f64 {
    let (store, tally) = (store(), Arc::new(Tally::default()));
    let counted = tally.clone();
    let handler = move |(): (), _: Ctx| {
        counted.add(TASKS);
        std::future::ready(Ok::<(), TaskError>(()))
    };
    let source = Arc::new(LocalSource::new(store.clone()));
    let worker = worker(source, handler, CONCURRENCY).build().expect("a worker");
    let shutdown = Shutdown::new();
    runtime.block_on(async {
        let started = Instant::now();
        let worker = tokio::spawn(worker.run(shutdown.clone()));
        let producer = tokio::spawn(async move { enqueue(&*store, TASKS, batch).await });
        tally.all.notified().await;
        shutdown.ask();
        let summary = worker.await.expect("the worker stops");
        let elapsed = started.elapsed();
        producer.await.expect("the producer ends");
        assert_eq!(summary.succeeded, TASKS, "every task has ended well");
        per_second(TASKS, elapsed)
    })
}

/// The limit: nothing is kept, nothing can fail, nobody can ask.
fn bare_no_ops(runtime: &Runtime) -> f64 {
    let tally = Arc::new(Tally::default());
    runtime.block_on(async {
        let started = Instant::now();
        let (sender, mut receiver) = mpsc::unbounded_channel::<u64>();
        let counted = tally.clone();
        tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(CONCURRENCY));
            while let Some(task) = receiver.recv().await {
                let slot = slots.clone().acquire_owned().await.expect("never closed");
                let counted = counted.clone();
                tokio::spawn(async move {
                    std::hint::black_box(task);
                    counted.add(TASKS);
                    drop(slot);
                });
            }
        });
        tokio::spawn(async move {
            for task in 0..TASKS {
                sender.send(task).expect("open");
                tokio::task::coop::consume_budget().await;
            }
        });
        tally.all.notified().await;
        per_second(TASKS, started.elapsed())
    })
}

/// The peer's own in-memory storage and worker. The producer has a sink of its own: one shared with the worker panics when
/// both use it at once.
fn apalis_no_ops(runtime: &Runtime, batch: u64, spawned: bool) -> f64 {
    let tally = Arc::new(Tally::default());
    let (sender, receiver) = futures::channel::mpsc::unbounded::<Task<u64>>();
    let sink = || {
        let sender = sender.clone().sink_map_err(Into::into);
        MemorySink::new(Arc::new(futures::lock::Mutex::new(Box::new(sender))))
    };
    let (storage, mut sink) = (MemoryStorage::new_with(sink(), receiver.boxed()), sink());
    let counted = tally.clone();
    let handler = move |_: u64| {
        counted.add(TASKS);
        std::future::ready(())
    };
    let builder = WorkerBuilder::new("worker").backend(storage);
    runtime.block_on(async {
        let started = Instant::now();
        let worker = if spawned {
            tokio::spawn(builder.concurrency(CONCURRENCY).parallelize(tokio::spawn).build(handler).run())
        } else {
            tokio::spawn(builder.concurrency(CONCURRENCY).build(handler).run())
        };
        tokio::spawn(async move {
            for first in (0..TASKS).step_by(batch as usize) {
                for task in first..first + batch {
                    sink.feed(TaskBuilder::new(task).build()).await.expect("open");
                }
                sink.flush().await.expect("open");
                tokio::task::coop::consume_budget().await;
            }
        });
        tally.all.notified().await;
        let elapsed = started.elapsed();
        worker.abort();
        per_second(TASKS, elapsed)
    })
}
