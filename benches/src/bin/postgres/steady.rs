//! A long run: as fast after a million finished tasks as at the start, and without bloat.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use weaver_benches::{ROUNDS, Samples};
use weaver_core::ports::{Admin, PurgeRule};
use weaver_core::queue::Queue;
use weaver_postgres::PostgresStore;

use crate::server::Server;
use crate::{lifecycles, weaver};

const MILLION: usize = 1_000_000;
const CLIENTS: usize = 4;
const BATCH: usize = 500;
/// Calls of each client in a round: 20,000 lifecycles.
const CALLS: usize = 10;
/// Tasks that wait throughout, and finished runs that are kept.
const DEPTH: usize = 50_000;
const SIZES_LIMIT: f64 = 3.0;

pub fn run(runtime: &Runtime, server: &Server) -> bool {
    let store = weaver::open(runtime, server);
    let upkeep = runtime.spawn(upkeep(Arc::clone(&store)));
    let begun = rounds(runtime, &store);
    let mut count = ROUNDS * CLIENTS * BATCH * CALLS;
    while count < MILLION {
        weaver::lifecycles(runtime, &store, CLIENTS, BATCH, CALLS);
        count += CLIENTS * BATCH * CALLS;
    }
    let after = rounds(runtime, &store);
    lifecycles::print("at the start", &begun);
    lifecycles::print("after 1 M finished runs", &after);
    let within = after.median() >= begun.median() * (1.0 - begun.spread());
    let word = if within { "ok  " } else { "MISS" };
    println!(
        "  {word} after / at the start: {:.2} × (limit: within the spread)",
        after.median() / begun.median()
    );
    upkeep.abort();
    drop(store);
    within & sizes(runtime, server)
}

/// Maintenance of a worker, once a second.
async fn upkeep(store: Arc<PostgresStore>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.overdue(500).await.expect("the store answers");
    }
}

fn rounds(runtime: &Runtime, store: &Arc<PostgresStore>) -> Samples {
    let round = |_| weaver::lifecycles(runtime, store, CLIENTS, BATCH, CALLS);
    // The first is a warm-up.
    let _ = round(0);
    Samples::of((0..ROUNDS).map(round).collect())
}

/// A million lifecycles at a constant depth with retention as a worker's maintenance does it; then the size
/// compared with the same contents freshly written.
fn sizes(runtime: &Runtime, server: &Server) -> bool {
    server.say(runtime, "postgres", "CREATE DATABASE sizes");
    let options = weaver_postgres::PostgresOptions::parse(&server.url("sizes")).expect("a URL");
    let clock = Arc::new(weaver_runtime::SystemClock::new());
    let store = Arc::new(runtime.block_on(PostgresStore::open(options, clock)).expect("the store opens"));
    weaver::fill(runtime, &store, DEPTH);
    let (mut count, mut finished) = (0, 0);
    while count < MILLION {
        weaver::lifecycles(runtime, &store, CLIENTS, BATCH, CALLS);
        count += CLIENTS * BATCH * CALLS;
        finished += CLIENTS * BATCH * CALLS;
        runtime.block_on(store.overdue(500)).expect("the store answers");
        while finished > DEPTH {
            let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
            let purged = runtime.block_on(store.purge_tasks(rule, 500)).expect("the store answers").count;
            assert!(purged > 0, "there is something to purge");
            finished -= purged as usize;
        }
    }
    let size = || {
        let text = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON \
                    n.oid = c.relnamespace WHERE n.nspname = 'weaver' AND c.relkind = 'r'";
        server.ask(runtime, "sizes", text) as f64 / 1048576.0
    };
    let used = size();
    server.say(runtime, "sizes", "VACUUM FULL");
    let live = size();
    let holds = used <= live * SIZES_LIMIT;
    let word = if holds { "ok  " } else { "MISS" };
    println!(
        "  {word} after 1 M lifecycles at {DEPTH} waiting and {DEPTH} kept: {used:.0} MiB, written anew {live:.0} MiB: {:.2} × (limit ≤ {SIZES_LIMIT})",
        used / live
    );
    holds
}
