//! Bulk enqueue: 1,000 tasks in a call, one caller.

use std::time::Instant;

use tokio::runtime::Runtime;
use weaver_benches::{interleaved, paired_verdict, per_second};
use weaver_core::queue::Queue;

use crate::apalis_peer::Apalis;
use crate::graphile_peer::Graphile;
use crate::server::Server;
use crate::{lifecycles, weaver};

const BATCH: usize = 1000;
const CALLS: usize = 20;

pub fn run(runtime: &Runtime, server: &Server) -> bool {
    let store = weaver::open(runtime, server);
    let (apalis, graphile) = (Apalis::open(runtime, server), Graphile::open(runtime, server));
    let timed = |call: &mut dyn FnMut()| {
        let begun = Instant::now();
        (0..CALLS).for_each(|_| call());
        per_second((BATCH * CALLS) as u64, begun.elapsed())
    };
    let [ours, of_apalis, of_graphile] = interleaved([
        &mut || {
            timed(&mut || {
                let stored = runtime.block_on(store.enqueue_batch(vec![weaver::task(); BATCH]));
                assert_eq!(stored.expect("the store answers").len(), BATCH);
            })
        },
        &mut || timed(&mut || runtime.block_on(apalis.push(BATCH))),
        &mut || timed(&mut || graphile.fill(runtime, BATCH)),
    ]);
    lifecycles::print("weaver, 1,000 in a call", &ours);
    lifecycles::print("apalis-postgres", &of_apalis);
    lifecycles::print("graphile_worker", &of_graphile);
    let against_apalis = paired_verdict("weaver / apalis-postgres", &ours, &of_apalis, 1.8);
    paired_verdict("weaver / graphile_worker", &ours, &of_graphile, 2.0) && against_apalis
}
