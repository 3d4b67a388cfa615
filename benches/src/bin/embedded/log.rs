//! A log of 1 GB in the store: lifecycles before it, with it, and while it is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::runtime::Runtime;
use weaver_benches::{ROUNDS, Samples, verdict};
use weaver_core::name::Namespace;
use weaver_core::ports::{Journal, StreamKey};
use weaver_embedded::EmbeddedOptions;

use crate::weaver::{self, Subject};

const LOG_BYTES: usize = 1 << 30;
const APPEND_BYTES: usize = 256 * 1024;
const CLIENTS: usize = 64;
const EACH: usize = 200;

pub fn run(runtime: &Runtime) -> bool {
    println!("a log of 1 GiB beside {CLIENTS} clients, medians of {ROUNDS} rounds");
    let subject = Subject::new("log", EmbeddedOptions::default());
    let measure = || {
        let mut rates = Samples::default();
        for round in 0..=ROUNDS {
            let rate = weaver::lifecycles(runtime, &subject.store, CLIENTS, EACH).per_second;
            if round > 0 {
                rates.push(rate);
            }
        }
        rates
    };
    let before = measure();
    let stream = StreamKey::new(Namespace::default(), "task/1/1");
    let entry = Bytes::from(vec![b'l'; 32 * 1024]);
    let bodies = vec![entry; APPEND_BYTES / (32 * 1024)];
    for _ in 0..LOG_BYTES / APPEND_BYTES {
        runtime.block_on(subject.store.append_entries(&stream, &bodies)).expect("appended");
    }
    let after = measure();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, stop, small) =
            (Arc::clone(&subject.store), Arc::clone(&stop), vec![Bytes::from(vec![b'l'; 4096]); 4]);
        runtime.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                store.append_entries(&stream, &small).await.expect("appended");
            }
        })
    };
    let during = measure();
    stop.store(true, Ordering::Relaxed);
    runtime.block_on(writer).expect("it ends well");
    for (name, rates) in [
        ("before", &before),
        ("with it there", &after),
        ("while one client appends 16 KiB at a time", &during),
    ] {
        println!("       {name}: {:.0} lifecycles/s ± {:.0} %", rates.median(), rates.spread() * 100.0);
    }
    verdict("with the log there / before", after.median() / before.median(), 0.9, true)
}
