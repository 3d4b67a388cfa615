//! Throughput of handlers that do nothing.

use std::sync::Arc;
use std::time::Instant;

use apalis::prelude::{
    MemorySink, MemoryStorage, ParallelizeExt, Task, TaskBuilder, WorkerBuilder, WorkerBuilderExt,
};
use futures::{SinkExt, StreamExt};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use weaver_benches::{ROUNDS, Samples, interleaved, per_second, verdict};
use weaver_runtime::{Ctx, LocalSource, Shutdown, TaskError};

use crate::{BATCH, CONCURRENCY, Tally, enqueue, store, worker};

pub const TASKS: u64 = 200_000;

/// Parameters of a subject.
#[derive(Clone, Copy)]
struct Load {
    /// Tasks in one call of the producer.
    batch: u64,
    /// Whether handlers yield once. Otherwise they complete on their first poll.
    waits: bool,
}

pub fn no_ops(runtime: &Runtime) -> bool {
    let mut ok = true;
    let loads = [(BATCH, false), (1, false), (BATCH, true)];
    for load in loads.map(|(batch, waits)| Load { batch, waits }) {
        let Load { batch, waits } = load;
        let what =
            if waits { format!("enqueued by {batch}, waiting once") } else { format!("enqueued by {batch}") };
        let [weaver, bare, spawned, inline] = interleaved([
            &mut || weaver_no_ops(runtime, load),
            &mut || bare_no_ops(runtime, load),
            &mut || apalis_no_ops(runtime, load, true),
            &mut || apalis_no_ops(runtime, load, false),
        ]);
        print_rate(&format!("weaver, {what}"), &weaver);
        print_rate("bare channel → semaphore → spawn", &bare);
        print_rate(&format!("apalis, each handler a tokio task, {what}"), &spawned);
        print_rate(&format!("apalis, all handlers in its worker's task, {what}"), &inline);
        let limits = [
            ("bare", &bare, Some(0.45)),
            ("apalis, tokio tasks", &spawned, Some(1.0)),
            ("apalis, one task", &inline, None),
        ];
        for (other, samples, limit) in limits {
            let what = format!("weaver / {other}, {what}");
            let ratio = weaver.median() / samples.median();
            match limit.filter(|_| batch > 1 && !waits) {
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

/// Weaver alone, for a profiler; one round only, for instruction counting.
pub fn alone(runtime: &Runtime, waits: bool, once: bool) {
    let mut rates = Samples::default();
    let rounds = if once { 1 } else { 2 * ROUNDS + 1 };
    (0..rounds).for_each(|_| rates.push(weaver_no_ops(runtime, Load { batch: BATCH, waits })));
    print_rate("weaver alone", &rates);
}

/// The handler of every subject.
async fn work(tally: &Tally, load: Load) {
    if load.waits {
        tokio::task::yield_now().await;
    }
    tally.add(TASKS);
}

/// Tasks per second, until the last outcome is stored and the worker has stopped.
fn weaver_no_ops(runtime: &Runtime, load: Load) -> f64 {
    let (store, tally) = (store(), Arc::new(Tally::default()));
    let counted = tally.clone();
    let handler = move |(): (), _: Ctx| {
        let counted = counted.clone();
        async move {
            work(&counted, load).await;
            Ok::<(), TaskError>(())
        }
    };
    let source = Arc::new(LocalSource::new(store.clone()));
    let worker = worker(source, handler, CONCURRENCY).build().expect("a worker");
    let shutdown = Shutdown::new();
    runtime.block_on(async {
        let started = Instant::now();
        let worker = tokio::spawn(worker.run(shutdown.clone()));
        let producer = tokio::spawn(async move { enqueue(&*store, TASKS, load.batch).await });
        tally.all.notified().await;
        shutdown.request();
        let summary = worker.await.expect("the worker stops");
        let elapsed = started.elapsed();
        producer.await.expect("the producer ends");
        assert_eq!(summary.succeeded, TASKS, "every task has ended well");
        per_second(TASKS, elapsed)
    })
}

/// The upper bound: no records, no errors, no queries.
fn bare_no_ops(runtime: &Runtime, load: Load) -> f64 {
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
                    work(&counted, load).await;
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

/// The peer's own in-memory storage and worker. The producer has a sink of its own: one shared with the
/// worker panics when both use it at once.
fn apalis_no_ops(runtime: &Runtime, load: Load, spawned: bool) -> f64 {
    let tally = Arc::new(Tally::default());
    let (sender, receiver) = futures::channel::mpsc::unbounded::<Task<u64>>();
    let sink = || {
        let sender = sender.clone().sink_map_err(Into::into);
        MemorySink::new(Arc::new(futures::lock::Mutex::new(Box::new(sender))))
    };
    let (storage, mut sink) = (MemoryStorage::new_with(sink(), receiver.boxed()), sink());
    let counted = tally.clone();
    let handler = move |_: u64| {
        let counted = counted.clone();
        async move { work(&counted, load).await }
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
            for first in (0..TASKS).step_by(load.batch as usize) {
                for task in first..first + load.batch {
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
