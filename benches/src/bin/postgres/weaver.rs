//! Weaver on the benchmark's server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::runtime::Runtime;
use weaver_benches::per_second;
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::prelude::*;
use weaver_core::task::ContentType;
use weaver_postgres::{PostgresOptions, PostgresStore};
use weaver_runtime::{Ctx, LocalSource, Registry, Shutdown, SystemClock, TaskError, Worker};

use crate::drain::Tally;
use crate::server::Server;

/// A store on its own database of the server.
pub fn open(runtime: &Runtime, server: &Server) -> Arc<PostgresStore> {
    let options = PostgresOptions::parse(&server.url("weaver")).expect("a URL");
    let open = PostgresStore::open(options, Arc::new(SystemClock::new()));
    Arc::new(runtime.block_on(open).expect("the store opens"))
}

/// Payload of every task: 100 bytes of JSON.
pub fn payload() -> String {
    format!("\"{}\"", "x".repeat(98))
}

/// A task with that payload.
pub fn task() -> NewTask {
    NewTask::new("bench").payload(payload(), ContentType::JSON)
}

/// A lease request for this many tasks.
pub fn request(max: u32) -> LeaseRequest {
    static TOKENS: AtomicU64 = AtomicU64::new(1);
    let token = LeaseToken(TOKENS.fetch_add(1, Ordering::Relaxed).into());
    let worker = WorkerId::new("bench").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
    LeaseRequest { max, slots: max, ..request }
}

/// Success transitions for leased tasks.
pub fn ends(leased: &[Leased]) -> Vec<Transition> {
    let end = |each: &Leased| {
        let command = Command::Finish { lease: each.lease.clone(), outcome: Outcome::DONE };
        decide(&each.record, command, each.record.updated_at).expect("it holds the lease")
    };
    leased.iter().map(end).collect()
}

/// Lifecycles per second, by this many clients, with this many tasks per call and calls per client.
pub fn lifecycles(
    runtime: &Runtime,
    store: &Arc<PostgresStore>,
    clients: usize,
    batch: usize,
    calls: usize,
) -> f64 {
    let begun = Instant::now();
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let store = Arc::clone(store);
            runtime.spawn(async move {
                for _ in 0..calls {
                    store.enqueue_batch(vec![task(); batch]).await.expect("the store answers");
                    let mut left = batch;
                    while left > 0 {
                        let leased = store.lease(request(left as u32)).await.expect("the store answers");
                        left -= leased.len();
                        store.commit(ends(&leased), None).await.expect("the store answers");
                    }
                }
            })
        })
        .collect();
    let count = clients.len();
    clients.into_iter().for_each(|client| runtime.block_on(client).expect("it ends well"));
    per_second((count * batch * calls) as u64, begun.elapsed())
}

/// Enqueues this many tasks.
pub fn fill(runtime: &Runtime, store: &PostgresStore, count: usize) {
    for _ in 0..count / 1000 {
        runtime.block_on(store.enqueue_batch(vec![task(); 1000])).expect("the store answers");
    }
}

/// A worker with this concurrency that counts each start.
pub fn worker(store: &Arc<PostgresStore>, concurrency: u32, tally: &Arc<Tally>) -> Worker {
    let tally = Arc::clone(tally);
    let registry = Registry::new().handle("bench", move |_: String, _: Ctx| {
        let tally = Arc::clone(&tally);
        async move {
            tally.add();
            Ok::<_, TaskError>(())
        }
    });
    let source = Arc::new(LocalSource::new(store.clone()));
    let worker = Worker::builder(source, Arc::new(SystemClock::new())).registry(registry.expect("a name"));
    worker.concurrency(concurrency).build().expect("a worker")
}

/// Drains the queue with a worker, until the last outcome is stored; tasks per second.
pub fn drain(runtime: &Runtime, store: &Arc<PostgresStore>, count: usize, concurrency: u32) -> f64 {
    let tally = Tally::expecting(count);
    let worker = worker(store, concurrency, &tally);
    runtime.block_on(async {
        let begun = Instant::now();
        let shutdown = Shutdown::new();
        let running = tokio::spawn(worker.run(shutdown.clone()));
        tally.all.notified().await;
        shutdown.request();
        let summary = running.await.expect("it ends well");
        assert_eq!(summary.succeeded, count as u64, "every task has ended well");
        per_second(count as u64, begun.elapsed())
    })
}
