//! Single durable enqueues compared with a handler that does nothing: over bare connections, and by the typed
//! client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::Runtime;
use weaver_api as wire;
use weaver_benches::scratch::Scratch;
use weaver_benches::{ROUNDS, Samples, per_second, verdict};
use weaver_core::prelude::*;
use weaver_embedded::EmbeddedStore;
use weaver_runtime::SystemClock;

use crate::load::{Load, Round};
use crate::server::{QUEUE, Server};
use crate::{CONNECTIONS, payload};

const EACH: usize = 400;
const REQUESTS: u64 = (EACH * CONNECTIONS) as u64;

pub fn enqueue(runtime: &Runtime) -> bool {
    println!("single enqueue, {CONNECTIONS} connections, {REQUESTS} requests a round");
    let scratch = Scratch::new("api-enqueue");
    let (weaver, empty) = (Server::weaver(&scratch.path().join("store")), Server::empty());
    let mut loads = [Load::new(runtime, &weaver, &body()), Load::new(runtime, &empty, &body())];
    let [of_weaver, of_empty] = &mut loads;
    let bare = beside("bare connections", &mut || of_weaver.round(runtime, EACH), &mut || {
        of_empty.round(runtime, EACH)
    });
    let client =
        beside("the typed client", &mut || by_client(runtime, &weaver), &mut || by_client(runtime, &empty));
    let in_process = in_process(runtime, &scratch);
    let (rate, spread) = (in_process.median() / 1e3, in_process.spread() * 100.0);
    println!("       the store in process, {CONNECTIONS} callers: {rate:.1} k/s ± {spread:.0} %");
    verdict("weaver / empty handler, bare connections", bare, 0.3, true)
        & verdict("weaver / empty handler, the typed client", client, 0.3, true)
}

/// Runs only the server, for a profiler.
pub fn alone(runtime: &Runtime) {
    let scratch = Scratch::new("api-alone");
    let weaver = Server::weaver(&scratch.path().join("store"));
    let mut load = Load::new(runtime, &weaver, &body());
    for _ in 0..4 * ROUNDS {
        println!("{:.1} k/s", per_second(REQUESTS, load.round(runtime, EACH).took) / 1e3);
    }
}

/// Measures both, round by round; returns the ratio of their rates.
fn beside(what: &str, weaver: &mut dyn FnMut() -> Round, empty: &mut dyn FnMut() -> Round) -> f64 {
    let mut measurements: [[Samples; 3]; 2] = Default::default();
    for round in 0..=ROUNDS {
        for (asked, [rate, p50, p99]) in [weaver(), empty()].into_iter().zip(&mut measurements) {
            if round > 0 {
                rate.push(per_second(REQUESTS, asked.took));
                let latencies = Samples::of(asked.latencies_us);
                p50.push(latencies.quantile(0.5));
                p99.push(latencies.quantile(0.99));
            }
        }
    }
    for (whose, [rate, p50, p99]) in ["weaver, durable", "empty axum handler"].iter().zip(&measurements) {
        println!(
            "       {whose}, {what}: {:.1} k/s ± {:.0} %, p50 {:.0} µs, p99 {:.0} µs",
            rate.median() / 1e3,
            rate.spread() * 100.0,
            p50.median(),
            p99.median()
        );
    }
    measurements[0][0].median() / measurements[1][0].median()
}

/// By the typed client, as users' programs do.
fn by_client(runtime: &Runtime, server: &Server) -> Round {
    let client = server.client();
    let started = Instant::now();
    let callers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let client = client.clone();
            runtime.spawn(async move {
                let mut latencies = Vec::with_capacity(EACH);
                for _ in 0..EACH {
                    let sent = Instant::now();
                    let task = wire::NewTask {
                        task_type: "task".to_owned(),
                        queue: Some(QUEUE.to_owned()),
                        payload: Some(wire::Json::of(&payload()).expect("JSON")),
                        ..wire::NewTask::default()
                    };
                    client.enqueue(task).await.expect("enqueued");
                    latencies.push(sent.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies_us = Vec::new();
    for caller in callers {
        let latencies: Vec<Duration> = runtime.block_on(caller).expect("no panic");
        latencies_us.extend(latencies.iter().map(|latency| latency.as_secs_f64() * 1e6));
    }
    Round { took: started.elapsed(), latencies_us }
}

fn body() -> String {
    json!({"task_type": "task", "queue": QUEUE, "payload": payload()}).to_string()
}

/// The same tasks on the store in process, by as many callers: the upper bound for HTTP.
fn in_process(runtime: &Runtime, scratch: &Scratch) -> Samples {
    let store =
        EmbeddedStore::open(scratch.path().join("here"), Arc::new(SystemClock::new())).expect("a store");
    let store = Arc::new(store);
    let mut samples = Samples::default();
    for round in 0..=ROUNDS {
        let started = Instant::now();
        let callers: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let (store, payload) = (Arc::clone(&store), payload());
                runtime.spawn(async move {
                    for _ in 0..EACH {
                        let task = NewTask::new("task").queue(QUEUE).json(&payload).expect("JSON");
                        store.enqueue(task).await.expect("stored");
                    }
                })
            })
            .collect();
        for caller in callers {
            runtime.block_on(caller).expect("no panic");
        }
        if round > 0 {
            samples.push(per_second(REQUESTS, started.elapsed()));
        }
    }
    samples
}
