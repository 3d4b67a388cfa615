//! What a drained task costs the server: CPU time and WAL, which depend less on the machine's load than
//! tasks per second. Two producers enqueue, four clients lease, and the ends of a lease are reported in five
//! parts in random order.

use std::sync::Arc;

use tokio::runtime::Runtime;
use weaver_benches::{ROUNDS, Samples, verdict};
use weaver_core::prelude::*;
use weaver_core::queue::Committed;
use weaver_postgres::PostgresStore;

use crate::server::Server;
use crate::weaver;

const TASKS: usize = 60_000;
const PRODUCERS: usize = 2;
const CLIENTS: usize = 4;
const LEASED: u32 = 500;
const PARTS: usize = 5;
const CPU_LIMIT_US: f64 = 25.0;
const WAL_LIMIT_BYTES: f64 = 550.0;

pub fn run(runtime: &Runtime, server: &Server) -> bool {
    // Full-page images come with checkpoints, not with work.
    server.say(runtime, "postgres", "ALTER SYSTEM SET full_page_writes = off");
    server.say(runtime, "postgres", "SELECT pg_reload_conf()");
    let store = weaver::open(runtime, server);
    let (mut cpu_us, mut wal_bytes) = (Samples::default(), Samples::default());
    for round in 0..=ROUNDS {
        enqueue(runtime, &store);
        let (cpu, wal) = (server.cpu_seconds(runtime), server.wal_bytes(runtime));
        drain(runtime, &store);
        // The first round fills caches.
        if round > 0 {
            cpu_us.push((server.cpu_seconds(runtime) - cpu) * 1e6 / TASKS as f64);
            wal_bytes.push((server.wal_bytes(runtime) - wal) as f64 / TASKS as f64);
        }
        eprint!("\r  round {round}/{ROUNDS}");
    }
    eprint!("\r                \r");
    let print = |what: &str, samples: &Samples| {
        println!(
            "       {what} per drained task: {:.1} ± {:.0} %",
            samples.median(),
            samples.spread() * 100.0
        );
    };
    print("server CPU, µs,", &cpu_us);
    print("WAL, bytes,", &wal_bytes);
    let cpu = verdict("server CPU / limit", cpu_us.median() / CPU_LIMIT_US, 1.0, false);
    cpu & verdict("WAL / limit", wal_bytes.median() / WAL_LIMIT_BYTES, 1.0, false)
}

fn enqueue(runtime: &Runtime, store: &Arc<PostgresStore>) {
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| {
            let store = Arc::clone(store);
            runtime.spawn(async move {
                for _ in 0..TASKS / PRODUCERS / 500 {
                    store.enqueue_batch(vec![weaver::task(); 500]).await.expect("the store answers");
                }
            })
        })
        .collect();
    producers.into_iter().for_each(|producer| runtime.block_on(producer).expect("it ends well"));
}

fn drain(runtime: &Runtime, store: &Arc<PostgresStore>) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let store = Arc::clone(store);
            runtime.spawn(async move {
                loop {
                    let leased = store.lease(weaver::request(LEASED)).await.expect("the store answers");
                    if leased.is_empty() {
                        return;
                    }
                    let mut ends = weaver::ends(&leased);
                    // A hash of the id: an order without regard to that of the ids.
                    ends.sort_by_key(|end| end.key.id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    for part in ends.chunks(ends.len().div_ceil(PARTS)) {
                        let answers = store.commit(part.to_vec(), None).await.expect("the store answers");
                        let is_applied = |answer: &Committed| matches!(answer, Committed::Applied { .. });
                        assert!(answers.iter().all(is_applied), "every end is the first of its task");
                    }
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| runtime.block_on(client).expect("it ends well"));
}
