//! Lifecycles by 1, 64 and 1,024 clients, compared with the bare loop.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use weaver_benches::{ROUNDS, Samples, per_second, verdict};
use weaver_embedded::EmbeddedOptions;

use crate::bare::{self, Bare};
use crate::weaver::{self, Subject};

/// Result of one round.
pub struct Round {
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

impl Round {
    pub fn gather(
        runtime: &Runtime,
        running: Vec<JoinHandle<Vec<Duration>>>,
        lifecycles: usize,
        begun: Instant,
    ) -> Self {
        let mut latencies = Vec::new();
        for client in running {
            latencies.extend(runtime.block_on(client).expect("a client ends well"));
        }
        let elapsed = begun.elapsed();
        let micros = latencies.iter().map(|latency| latency.as_secs_f64() * 1e6).collect();
        let latencies = Samples::of(micros);
        Self {
            per_second: per_second(lifecycles as u64, elapsed),
            p50_us: latencies.quantile(0.5),
            p99_us: latencies.quantile(0.99),
        }
    }
}

#[derive(Default)]
struct Side {
    rates: Samples,
    p50: Samples,
    p99: Samples,
    bytes: f64,
    syncs: f64,
}

impl Side {
    fn add(&mut self, round: &Round, counted: (u64, u64), lifecycles: usize) {
        self.rates.push(round.per_second);
        self.p50.push(round.p50_us);
        self.p99.push(round.p99_us);
        self.bytes = counted.0 as f64 / lifecycles as f64;
        self.syncs = counted.1 as f64 / lifecycles as f64;
    }

    fn print(&self, name: &str) {
        println!(
            "       {name}: {:.0} lifecycles/s ± {:.0} %, a call {:.0} µs p50, {:.0} µs p99; {:.0} bytes and {:.3} syncs per lifecycle",
            self.rates.median(),
            self.rates.spread() * 100.0,
            self.p50.median(),
            self.p99.median(),
            self.bytes,
            self.syncs,
        );
    }
}

pub fn run(runtime: &Runtime) -> bool {
    println!(
        "whole lifecycles (enqueue, lease, end: three synced calls), medians of {ROUNDS} interleaved rounds"
    );
    let mut ok = true;
    for (clients, each) in [(1, 1_500), (64, 400), (1024, 80)] {
        let (mut store, mut limit) = (Side::default(), Side::default());
        for round in 0..=ROUNDS {
            // Fresh files each round: both grow alike.
            let subject = Subject::new("lifecycles", EmbeddedOptions::default());
            let before = subject.counted.read();
            let mine = weaver::lifecycles(runtime, &subject.store, clients, each);
            let mine_counted = since(before, subject.counted.read());
            drop(subject);
            let bare = Bare::new();
            let before = bare.counted.read();
            let theirs = bare::lifecycles(runtime, &bare, clients, each);
            let theirs_counted = since(before, bare.counted.read());
            if round > 0 {
                store.add(&mine, mine_counted, clients * each);
                limit.add(&theirs, theirs_counted, clients * each);
            }
            eprint!("\r  round {round}/{ROUNDS}");
        }
        eprint!("\r                \r");
        store.print(&format!("weaver, {clients} clients"));
        limit.print(&format!("bare redb, {clients} clients"));
        let ratio = store.rates.median() / limit.rates.median();
        ok &= verdict(&format!("weaver / bare, {clients} clients"), ratio, 0.7, true);
        let ratio = store.p99.median() / limit.p99.median();
        ok &= verdict(&format!("p99 of weaver / of bare, {clients} clients"), ratio, 2.0, false);
    }
    ok
}

fn since(before: (u64, u64), after: (u64, u64)) -> (u64, u64) {
    (after.0 - before.0, after.1 - before.1)
}
