//! Draining a queue of 100,000 tasks with handlers that do nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use weaver_benches::{interleaved, paired_verdict};

use crate::graphile_peer::Graphile;
use crate::server::Server;
use crate::{lifecycles, weaver};

const TASKS: usize = 100_000;
/// As in graphile_worker's own benchmark.
const CONCURRENCY: u32 = 500;

/// Handlers started so far, and the time of the last start.
#[derive(Debug, Default)]
pub struct Tally {
    begun: AtomicUsize,
    expected: usize,
    pub last: Mutex<Option<Instant>>,
    /// Notified each time the expected number has started.
    pub all: Notify,
}

impl Tally {
    pub fn expecting(expected: usize) -> Arc<Self> {
        Arc::new(Self { expected, ..Self::default() })
    }

    pub fn add(&self) {
        if (self.begun.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.expected) {
            *self.last.lock() = Some(Instant::now());
            self.all.notify_one();
        }
    }
}

pub fn run(runtime: &Runtime, server: &Server) -> bool {
    let store = weaver::open(runtime, server);
    let graphile = Graphile::open(runtime, server);
    let [ours, theirs] = interleaved([
        &mut || {
            weaver::fill(runtime, &store, TASKS);
            weaver::drain(runtime, &store, TASKS, CONCURRENCY)
        },
        &mut || {
            graphile.fill(runtime, TASKS);
            graphile.drain(runtime, server, TASKS)
        },
    ]);
    let kept = server.ask(runtime, "weaver", "SELECT count(*) FROM weaver.ended");
    println!("       weaver has kept {kept} finished runs; graphile_worker deletes its rows");
    lifecycles::print("weaver's worker, 500 at once", &ours);
    lifecycles::print("graphile_worker, 500 at once, local queue of 5,000", &theirs);
    paired_verdict("weaver / graphile_worker", &ours, &theirs, 1.1)
}
