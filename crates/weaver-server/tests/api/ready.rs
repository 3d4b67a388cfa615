use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::error::Error;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::MaintenanceWatch;
use weaver_server::api::{ApiLimits, AppState};
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::server::Server;

#[tokio::test]
async fn a_server_whose_maintenance_keeps_failing_is_degraded_and_shows_the_error() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let watch = Arc::new(MaintenanceWatch::default());
    let state = AppState::new(store, Arc::clone(&clock)).with_maintenance(Arc::clone(&watch));
    let app = weaver_server::api::router(state);
    let ready = async |status: &str| {
        let request = Request::get("/readyz").body(Body::empty()).expect("a request");
        let answer = app.clone().oneshot(request).await.expect("an answer");
        assert_eq!(answer.status(), 200, "it still works");
        let body = axum::body::to_bytes(answer.into_body(), 65_536).await.expect("a body");
        let health: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(health["status"], status, "{health}");
        health
    };
    ready("ok").await;
    let error = Error::Unavailable { reason: "one bad row".to_owned() };
    for _ in 0..3 {
        watch.note(clock.now(), Some(&error));
    }
    let health = ready("degraded").await;
    let failing = &health["maintenance_failing"];
    assert!(failing["error"].as_str().is_some_and(|text| text.contains("one bad row")), "{health}");
    assert_eq!(failing["rounds"], 3);
    watch.note(clock.now(), None);
    assert_eq!(ready("ok").await["maintenance_failing"], serde_json::Value::Null);
}

/// Reads succeed and writes fail: a full disk, or one that was remounted read-only.
#[tokio::test]
async fn a_server_whose_disk_refuses_writes_is_not_ready_until_writes_succeed_again() {
    let clock = ManualClock::default();
    let refuses = Arc::new(AtomicBool::new(false));
    let plan = {
        let refuses = Arc::clone(&refuses);
        move |site: &CallSite| {
            let is_write =
                matches!(site.method, "put_document" | "enqueue_audited" | "commit" | "append_entries");
            if is_write && refuses.load(Ordering::Relaxed) { Fault::FailBefore } else { Fault::None }
        }
    };
    let memory = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
    let store = Arc::new(FaultyStore::new(memory, Arc::new(clock.clone()), plan));
    let server = Server::over(store, Arc::new(clock.clone()), ApiLimits::default()).await;
    server.get("/readyz").await.expect(200);
    refuses.store(true, Ordering::Relaxed);
    // The cached result: requests without a token do not cause a write each.
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
