//! The in-memory store compared with a bare mutex + slab loop: `cargo xtask bench core`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use weaver_benches::{Samples, interleaved, per_second, resident_bytes, verdict};
use weaver_core::id::Epoch;
use weaver_core::lifecycle::{Command, admit, decide};
use weaver_core::limits::Limits;
use weaver_core::ports::{Scope, Tasks};
use weaver_core::prelude::*;
use weaver_core::queue::memory::MemoryOptions;
use weaver_core::task::{ContentType, validate_batch};
use weaver_runtime::SystemClock;

const CLIENTS: usize = 64;
const THREADS: usize = 2;

/// Lifecycles when Weaver runs alone.
const ALONE: u64 = 200_000;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).build().expect("a runtime");
    // `weaver` runs Weaver alone, for a profiler.
    if std::env::args().nth(1).is_some_and(|part| part == "weaver") {
        let rate = weaver_lifecycles(&runtime, &store(0), 32, ALONE);
        println!("weaver alone, {ALONE} tasks, batch 32: {:.2} M/s", rate / 1e6);
        return;
    }
    let mut ok = true;
    // First, before freed memory could be reused.
    println!("memory");
    ok &= memory(&runtime);
    println!(
        "enqueue + lease + commit, {CLIENTS} clients on {THREADS} threads, medians of interleaved rounds"
    );
    ok &= against_bare(&runtime);
    println!("cost per task by the number of live records (batch 32)");
    ok &= by_live_records(&runtime);
    println!("counts");
    ok &= counts(&runtime);
    std::process::exit(i32::from(!ok));
}

fn against_bare(runtime: &Runtime) -> bool {
    let mut ok = true;
    for (batch, lifecycles) in [(32, 1_000_000), (1, 300_000)] {
        let [weaver, keeping, bare, tiny] = interleaved([
            &mut || weaver_lifecycles(runtime, &store(0), batch, lifecycles),
            &mut || weaver_lifecycles(runtime, &store(100_000), batch, lifecycles),
            &mut || bare_lifecycles(runtime, batch, lifecycles),
            &mut || tiny_lifecycles(runtime, batch, lifecycles),
        ]);
        print_rate(&format!("weaver, batch {batch}"), &weaver);
        print_rate(&format!("weaver, keeping 100,000 finished, batch {batch}"), &keeping);
        print_rate(&format!("bare mutex + slab of the same records, batch {batch}"), &bare);
        print_rate(&format!("bare mutex + slab of 48-byte records, batch {batch}"), &tiny);
        let ratio = weaver.median() / bare.median();
        if batch == 32 {
            ok &= verdict("weaver / bare, the same records, batch 32", ratio, 0.3, true);
        } else {
            println!("       weaver / bare, the same records, batch 1: {ratio:.2} × (reported)");
        }
        let ratio = weaver.median() / tiny.median();
        println!("       weaver / bare, 48-byte records, batch {batch}: {ratio:.2} × (reported)");
    }
    ok
}

fn by_live_records(runtime: &Runtime) -> bool {
    let few = preloaded(runtime, 1_000);
    let many = preloaded(runtime, 1_000_000);
    let [few, many] = interleaved([&mut || weaver_lifecycles(runtime, &few, 32, 500_000), &mut || {
        weaver_lifecycles(runtime, &many, 32, 500_000)
    }]);
    print_rate("1 k live records", &few);
    print_rate("1 M live records", &many);
    verdict("cost at 1 M / cost at 1 k", few.median() / many.median(), 1.5, false)
}

fn memory(runtime: &Runtime) -> bool {
    let store = store(1_000);
    weaver_lifecycles(runtime, &store, 32, 1_000_000);
    let after_one = resident_bytes();
    weaver_lifecycles(runtime, &store, 32, 3_000_000);
    let grown = resident_bytes() as f64 / after_one as f64;
    let ok = verdict("resident after 4 M finished tasks / after 1 M, 1,000 kept", grown, 1.05, false);
    let before = resident_bytes();
    let queued = preloaded(runtime, 1_000_000);
    let per_task = (resident_bytes() - before) / 1_000_000;
    println!("       {per_task} bytes per queued task with a 100-byte payload (1 M of them)");
    drop(queued);
    ok
}

fn counts(runtime: &Runtime) -> bool {
    let stores = [preloaded(runtime, 1_000), preloaded(runtime, 1_000_000)];
    let time = |store: &Arc<InMemoryQueue>| {
        let started = Instant::now();
        runtime.block_on(async {
            for _ in 0..10_000 {
                store.counts(Scope::Namespace(Namespace::default())).await.expect("counts");
            }
        });
        started.elapsed().as_secs_f64() / 10_000.0 * 1e9
    };
    let [few, many] = interleaved([&mut || time(&stores[0]), &mut || time(&stores[1])]);
    println!("       {:.0} ns at 1 k records, {:.0} ns at 1 M", few.median(), many.median());
    verdict("counts at 1 M / at 1 k", many.median() / few.median(), 1.5, false)
}

fn print_rate(what: &str, samples: &Samples) {
    println!("       {what}: {:.2} M/s ± {:.0} %", samples.median() / 1e6, samples.spread() * 100.0);
}

fn store(retention_count: usize) -> Arc<InMemoryQueue> {
    let options = MemoryOptions { retention_count, ..MemoryOptions::default() };
    Arc::new(InMemoryQueue::with_options(Arc::new(SystemClock::new()), options))
}

/// A store with this many waiting tasks ahead of the measured ones.
fn preloaded(runtime: &Runtime, count: usize) -> Arc<InMemoryQueue> {
    let store = store(1_000);
    runtime.block_on(async {
        for _ in 0..count / 1000 {
            let tasks = (0..1000).map(|_| new_task().payload(vec![b' '; 100], ContentType::JSON)).collect();
            store.enqueue_batch(tasks).await.expect("enqueued");
        }
    });
    store
}

fn new_task() -> NewTask {
    NewTask::new("noop")
}

/// Lifecycles per second through the `Queue` port.
fn weaver_lifecycles(runtime: &Runtime, store: &Arc<InMemoryQueue>, batch: u64, lifecycles: u64) -> f64 {
    static TOKENS: AtomicU64 = AtomicU64::new(1);
    let per_client = lifecycles / CLIENTS as u64 / batch;
    let elapsed = on_all_clients(runtime, |client| {
        let store: Arc<dyn Queue> = store.clone();
        async move {
            let worker = WorkerId::new(format!("w{client}")).expect("a name");
            for _ in 0..per_client {
                store.enqueue_batch((0..batch).map(|_| new_task()).collect()).await.expect("enqueued");
                let token = LeaseToken(TOKENS.fetch_add(1, Ordering::Relaxed).into());
                let request = LeaseRequest {
                    max: batch as u32,
                    slots: batch as u32,
                    ..LeaseRequest::new(Namespace::default(), QueueName::default(), worker.clone(), token)
                };
                let leased = store.lease(request).await.expect("leased");
                let ends = leased.into_iter().map(|Leased { lease, record }| {
                    let command = Command::Finish { lease, outcome: Outcome::DONE };
                    decide(&record, command, record.updated_at).expect("it runs")
                });
                store.commit(ends.collect(), None).await.expect("committed");
            }
        }
    });
    per_second(per_client * CLIENTS as u64 * batch, elapsed)
}

/// A queue of one record type, with order as its only rule: the minimum of any in-process store.
struct Bare<T> {
    records: slab::Slab<T>,
    ready: std::collections::VecDeque<usize>,
}

impl<T> Bare<T> {
    fn shared() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { records: slab::Slab::new(), ready: std::collections::VecDeque::new() }))
    }

    fn enqueue(&mut self, record: T) {
        self.ready.push_back(self.records.insert(record));
    }

    fn lease<L>(&mut self, batch: u64, mut take: impl FnMut(usize, &mut T) -> L) -> Vec<L> {
        let ids = (0..batch).map_while(|_| self.ready.pop_front());
        ids.map(|id| take(id, &mut self.records[id])).collect()
    }
}

/// The upper bound: the same task is enqueued, the same record is stored and leased, and the same outcome is
/// reported; no rules, no indexes, no events, no history, no retention.
fn bare_lifecycles(runtime: &Runtime, batch: u64, lifecycles: u64) -> f64 {
    let per_client = lifecycles / CLIENTS as u64 / batch;
    let bare = Bare::<TaskRecord>::shared();
    let clock = SystemClock::new();
    let elapsed = on_all_clients(runtime, |client| {
        let bare = bare.clone();
        async move {
            let worker = WorkerId::new(format!("w{client}")).expect("a name");
            for _ in 0..per_client {
                let tasks = validate_batch((0..batch).map(|_| new_task()).collect(), &Limits::default());
                let tasks = tasks.expect("valid");
                {
                    let now = clock.now();
                    let mut bare = bare.lock();
                    for task in tasks {
                        let record = admit(task, TaskId(1), now).expect("admitted");
                        bare.enqueue(record);
                    }
                }
                let now = clock.now();
                let leased = bare.lock().lease(batch, |id, record| {
                    record.state = TaskState::Running;
                    record.version = record.version.next();
                    record.updated_at = now;
                    let lease = Lease {
                        key: record.key.clone(),
                        version: record.version,
                        attempt: 1,
                        worker: worker.clone(),
                        token: LeaseToken(1),
                        epoch: Epoch(0),
                        ttl: Duration::from_secs(30),
                    };
                    (id, Leased { lease, record: record.clone() })
                });
                let mut removed = Vec::with_capacity(leased.len());
                {
                    let mut bare = bare.lock();
                    for (id, leased) in &leased {
                        let record = &bare.records[*id];
                        if record.version == leased.lease.version && record.state == TaskState::Running {
                            removed.push(bare.records.remove(*id));
                        }
                    }
                }
            }
        }
    });
    per_second(per_client * CLIENTS as u64 * batch, elapsed)
}

struct TinyRecord {
    state: u8,
    version: u64,
    payload: Bytes,
}

/// The lower bound of memory: records with a payload and nothing else.
fn tiny_lifecycles(runtime: &Runtime, batch: u64, lifecycles: u64) -> f64 {
    let per_client = lifecycles / CLIENTS as u64 / batch;
    let bare = Bare::<TinyRecord>::shared();
    let elapsed = on_all_clients(runtime, |_| {
        let bare = bare.clone();
        async move {
            for _ in 0..per_client {
                let payloads: Vec<Bytes> = (0..batch).map(|_| Bytes::from_static(b"null")).collect();
                {
                    let mut bare = bare.lock();
                    payloads
                        .into_iter()
                        .for_each(|payload| bare.enqueue(TinyRecord { state: 0, version: 1, payload }));
                }
                let leased = bare.lock().lease(batch, |id, record| {
                    record.state = 1;
                    record.version += 1;
                    (id, record.version, record.payload.clone())
                });
                let mut bare = bare.lock();
                for (id, version, payload) in leased {
                    if bare.records[id].version == version && bare.records[id].state == 1 {
                        std::hint::black_box((bare.records.remove(id).payload, payload));
                    }
                }
            }
        }
    });
    per_second(per_client * CLIENTS as u64 * batch, elapsed)
}

/// Runs one future per client; returns how long all of them took.
fn on_all_clients<F>(runtime: &Runtime, client: impl Fn(usize) -> F) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let futures: Vec<F> = (0..CLIENTS).map(client).collect();
    runtime.block_on(async {
        let started = Instant::now();
        let tasks: Vec<_> = futures.into_iter().map(tokio::spawn).collect();
        for task in tasks {
            task.await.expect("no client panics");
        }
        started.elapsed()
    })
}
