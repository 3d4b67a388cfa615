//! Many waiting handlers: their memory, and the cost of renewing their leases.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use weaver_benches::source::Counting;
use weaver_benches::{resident_bytes, verdict};
use weaver_runtime::{Ctx, LocalSource, Shutdown, TaskError};

use crate::{BATCH, Tally, enqueue, store, worker};

pub const SLOW: u64 = 10_000;
pub const SLOW_TTL: Duration = Duration::from_secs(3);

pub fn slow_handlers(runtime: &Runtime) -> bool {
    let tally = Arc::new(Tally::default());
    let release = Arc::new(Semaphore::new(0));
    let store = store();
    let source = Counting::new(LocalSource::new(store.clone()));
    let handler = {
        let (tally, release) = (tally.clone(), release.clone());
        move |(): (), _: Ctx| {
            let (tally, release) = (tally.clone(), release.clone());
            async move {
                tally.add(SLOW);
                drop(release.acquire().await);
                Ok::<(), TaskError>(())
            }
        }
    };
    let worker =
        worker(source.clone(), handler, SLOW as usize).lease_ttl(SLOW_TTL).build().expect("a worker");
    let shutdown = Shutdown::new();
    runtime.block_on(async {
        let empty = resident_bytes();
        enqueue(&*store, SLOW, BATCH).await;
        let queued = resident_bytes();
        let worker = tokio::spawn(worker.run(shutdown.clone()));
        tally.all.notified().await;
        let running = resident_bytes();
        println!(
            "       {} bytes per running task, {} of them while it was queued",
            (running - empty) / SLOW,
            (queued - empty) / SLOW
        );
        let (calls, members) = renewals_of_one_interval(&source).await;
        println!("       {calls} calls renewed {members} leases in one interval of {:?}", SLOW_TTL / 3);
        println!("       {} bytes per running task after that", (resident_bytes() - empty) / SLOW);
        release.close();
        shutdown.request();
        assert_eq!(worker.await.expect("the worker stops").succeeded, SLOW, "no lease was lost");
        assert!(members >= SLOW, "every lease was renewed");
        verdict("calls / full batches of 1,000", calls as f64 / members.div_ceil(1_000) as f64, 1.0, false)
    })
}

/// Calls and leases between the midpoints of two renewal intervals.
async fn renewals_of_one_interval(source: &Counting) -> (u64, u64) {
    let before = source.renewals();
    while source.renewals() == before {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(SLOW_TTL / 6).await;
    let (calls, members) = source.renewals();
    tokio::time::sleep(SLOW_TTL / 3).await;
    let after = source.renewals();
    (after.0 - calls, after.1 - members)
}
