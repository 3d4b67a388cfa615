use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weaver_core::clock::ManualClock;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_server::api::ApiLimits;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::server::Server;

/// Reads go on where writes do not: a full disk, or one that was remounted read-only.
#[tokio::test]
async fn a_server_whose_disk_refuses_writes_is_not_ready_until_it_takes_them_again() {
    let clock = ManualClock::default();
    let refuses = Arc::new(AtomicBool::new(false));
    let plan = {
        let refuses = Arc::clone(&refuses);
        move |site: &CallSite| {
            let is_write =
                matches!(site.method, "put_document" | "enqueue_batch" | "commit" | "append_entries");
            if is_write && refuses.load(Ordering::Relaxed) { Fault::FailBefore } else { Fault::None }
        }
    };
    let memory = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
    let store = Arc::new(FaultyStore::new(memory, Arc::new(clock.clone()), plan));
    let server = Server::over(store, Arc::new(clock.clone()), ApiLimits::default()).await;
    server.get("/readyz").await.expect(200);
    refuses.store(true, Ordering::Relaxed);
    // What was found a moment ago is still told: a stranger's questions are not one write each.
    server.get("/readyz").await.expect(200);
    clock.advance(Duration::from_secs(2));
    for _ in 0..3 {
        server.get("/readyz").await.problem(503, "store_unavailable");
    }
    server.get("/healthz").await.expect(200);
    refuses.store(false, Ordering::Relaxed);
    clock.advance(Duration::from_secs(2));
    server.get("/readyz").await.expect(200);
}
