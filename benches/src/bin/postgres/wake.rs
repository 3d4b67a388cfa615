//! Idle latency: from the enqueue call to the first line of the handler, with all workers asleep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use weaver_benches::{ROUNDS, Samples, verdict};
use weaver_core::queue::Queue;
use weaver_runtime::Shutdown;

use crate::apalis_peer::Apalis;
use crate::drain::Tally;
use crate::graphile_peer::Graphile;
use crate::server::Server;
use crate::weaver;

const WAKE_UPS: usize = 200;
/// Long enough for a worker to have reported its last outcome and to be asleep.
const PAUSE: Duration = Duration::from_millis(10);

pub fn run(runtime: &Runtime, server: &Server) -> bool {
    // Two nodes: one enqueues, the other works, connected only by NOTIFY, as for the peers. And one node that
    // does both.
    let (producer, node) = (weaver::open(runtime, server), weaver::open(runtime, server));
    let (apalis, graphile) = (Apalis::open(runtime, server), Graphile::open(runtime, server));
    let tallies: [Arc<Tally>; 4] = std::array::from_fn(|_| Tally::expecting(1));
    let shutdown = Shutdown::new();
    runtime.spawn(weaver::worker(&node, 16, &tallies[0]).run(shutdown.clone()));
    runtime.spawn(apalis.idle(&tallies[2]));
    let worker = graphile.idle(runtime, &tallies[3]);
    let running = Arc::clone(&worker);
    let running = runtime.spawn(async move { running.run().await });
    let mut measurements: [[Samples; 2]; 4] =
        std::array::from_fn(|_| std::array::from_fn(|_| Samples::default()));
    for round in 0..=ROUNDS {
        let mut micros: [Vec<f64>; 4] = std::array::from_fn(|_| Vec::new());
        for _ in 0..WAKE_UPS {
            micros[0].push(one(runtime, &tallies[0], async {
                producer.enqueue_batch(vec![weaver::task()]).await.expect("the store answers");
            }));
            micros[1].push(one(runtime, &tallies[0], async {
                node.enqueue_batch(vec![weaver::task()]).await.expect("the store answers");
            }));
            micros[2].push(one(runtime, &tallies[2], apalis.push(1)));
            micros[3].push(one(runtime, &tallies[3], async {
                graphile.utils.add_raw_jobs(&Graphile::jobs(1)).await.expect("it answers");
            }));
        }
        if round > 0 {
            for (measurements, micros) in measurements.iter_mut().zip(micros) {
                let samples = Samples::of(micros);
                measurements[0].push(samples.quantile(0.5));
                measurements[1].push(samples.quantile(0.99));
            }
        }
    }
    shutdown.request();
    worker.request_shutdown();
    let _ = runtime.block_on(running);
    judge(&measurements)
}

fn judge(measurements: &[[Samples; 2]; 4]) -> bool {
    let names =
        ["weaver, from another node", "weaver, from the same node", "apalis-postgres", "graphile_worker"];
    for (name, [p50, p99]) in names.iter().zip(measurements) {
        let (half, most) = (p50.median() / 1e3, p99.median() / 1e3);
        let (of_half, of_most) = (p50.spread() * 100.0, p99.spread() * 100.0);
        println!("       {name}: p50 {half:.2} ms ± {of_half:.0} %, p99 {most:.2} ms ± {of_most:.0} %");
    }
    let mut ok = true;
    for (part, place) in [("p50", 0), ("p99", 1)] {
        let better = measurements[2][place].median().min(measurements[3][place].median());
        let ratio = measurements[0][place].median() / better;
        ok &= verdict(&format!("{part}: weaver, from another node / the better peer"), ratio, 0.7, false);
    }
    ok
}

/// Latency of one task, in microseconds.
fn one(runtime: &Runtime, tally: &Tally, enqueue: impl Future<Output = ()>) -> f64 {
    std::thread::sleep(PAUSE);
    let begun = Instant::now();
    runtime.block_on(async {
        enqueue.await;
        tally.all.notified().await;
    });
    let last = tally.last.lock().expect("it has started");
    last.duration_since(begun).as_secs_f64() * 1e6
}
