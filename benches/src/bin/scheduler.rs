//! Latency from the planned instant of a scheduled run to its start, on an idle machine: `cargo xtask bench
//! scheduler`.

use std::sync::Arc;
use std::time::Duration;

use weaver_benches::Samples;
use weaver_benches::scratch::Scratch;
use weaver_core::clock::Clock;
use weaver_core::id::LeaseToken;
use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_core::queue::{Interest, QueueExt};
use weaver_embedded::EmbeddedStore;
use weaver_runtime::SystemClock;
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};
use weaver_scheduler::{Options, Scheduler};

/// Scheduled runs that are measured.
const FIRES: usize = 30;
/// Other schedules that do not fire meanwhile.
const IDLE: usize = 1_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    println!("from the planned instant to the start, {FIRES} runs a second apart, {IDLE} other schedules");
    let memory: Arc<dyn Store> = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    report("memory", runtime.block_on(fire_to_start(memory, &clock)));
    let scratch = Scratch::new("scheduler");
    let embedded = EmbeddedStore::open(scratch.path().join("store"), Arc::clone(&clock));
    let embedded: Arc<dyn Store> = Arc::new(embedded.expect("an empty directory opens"));
    report("embedded", runtime.block_on(fire_to_start(embedded, &clock)));
}

fn report(store: &str, samples: Samples) {
    let (p50, p99) = (samples.quantile(0.5) * 1e3, samples.quantile(0.99) * 1e3);
    println!("{store:>10}: p50 {p50:.2} ms, p99 {p99:.2} ms");
}

async fn fire_to_start(store: Arc<dyn Store>, clock: &Arc<dyn Clock>) -> Samples {
    let options = Options { node: "bench".to_owned() };
    let scheduler = Scheduler::new(Arc::clone(&store), Arc::clone(clock), options);
    let space = Namespace::default();
    let every = |span: &str| {
        DefinitionSpec::timed(ScheduleSpec::new(format!("every {span}")), TaskTemplate::new("t"))
    };
    for number in 0..IDLE {
        scheduler.add(&space, &format!("idle-{number}"), every("300d")).await.expect("it is valid");
    }
    scheduler.add(&space, "it", every("1s")).await.expect("it is valid");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let ticking = scheduler.clone();
    let running = tokio::spawn(async move { ticking.run(async { drop(stopped.await) }).await });
    let mut measurements = Vec::new();
    let (queue, worker) = (QueueName::default(), WorkerId::new("w").expect("a name"));
    while measurements.len() < FIRES {
        let interest = Interest::Work {
            namespace: space.clone(),
            queues: vec![queue.clone()],
            types: None,
            fragile: true,
        };
        store.wait(interest, Duration::from_secs(5)).await.expect("the store answers");
        let token = LeaseToken(measurements.len() as u128 + 1);
        let request = LeaseRequest::new(space.clone(), queue.clone(), worker.clone(), token);
        let Some(leased) = store.dequeue_ready(request).await.expect("the store answers") else { continue };
        let planned = leased.record.spec.origin().scheduled_for.expect("a scheduled run");
        measurements.push(clock.now().since(planned).as_secs_f64());
        store.mark_succeeded(&leased, None).await.expect("the lease is valid");
    }
    stop.send(()).expect("it runs");
    running.await.expect("it does not panic");
    Samples::of(measurements)
}
