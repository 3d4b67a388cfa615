//! Batches over HTTP compared with the same batches on the store in this process.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use tokio::runtime::Runtime;
use weaver_benches::scratch::Scratch;
use weaver_benches::{ROUNDS, Samples, per_second, verdict};
use weaver_core::prelude::*;
use weaver_embedded::EmbeddedStore;
use weaver_runtime::SystemClock;

use crate::load::Load;
use crate::server::{QUEUE, Server};
use crate::{CONNECTIONS, payload};

const BATCH: usize = 1_000;
const EACH: usize = 2;

pub fn batches(runtime: &Runtime) -> bool {
    let tasks = EACH * CONNECTIONS * BATCH;
    println!("batches of {BATCH}, {CONNECTIONS} connections or callers, {tasks} tasks a round");
    let scratch = Scratch::new("api-batches");
    let server = Server::weaver(&scratch.path().join("served"));
    let task = json!({"task_type": "task", "queue": QUEUE, "payload": payload()});
    let body = json!({"tasks": vec![task; BATCH]}).to_string();
    let mut load = Load::new(runtime, &server, &body);
    let store =
        EmbeddedStore::open(scratch.path().join("here"), Arc::new(SystemClock::new())).expect("a store");
    let store = Arc::new(store);
    let [mut over_http, mut in_process] = [Samples::default(), Samples::default()];
    for round in 0..=ROUNDS {
        let measurements = [
            per_second(tasks as u64, load.round(runtime, EACH).took),
            per_second(tasks as u64, runtime.block_on(enqueue(&store))),
        ];
        if round > 0 {
            over_http.push(measurements[0]);
            in_process.push(measurements[1]);
        }
    }
    for (what, samples) in [("over HTTP", &over_http), ("in process", &in_process)] {
        println!("       {what}: {:.0} k/s ± {:.0} %", samples.median() / 1e3, samples.spread() * 100.0);
    }
    verdict("over HTTP / in process", over_http.median() / in_process.median(), 0.5, true)
}

async fn enqueue(store: &Arc<EmbeddedStore>) -> std::time::Duration {
    let started = Instant::now();
    let payload = payload();
    let callers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (store, payload) = (Arc::clone(store), payload.clone());
            tokio::spawn(async move {
                for _ in 0..EACH {
                    let task = || NewTask::new("task").queue(QUEUE).json(&payload).expect("JSON");
                    let stored =
                        store.enqueue_batch((0..BATCH).map(|_| task()).collect()).await.expect("stored");
                    assert!(stored.iter().all(Result::is_ok));
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no panic");
    }
    started.elapsed()
}
