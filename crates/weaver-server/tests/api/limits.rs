use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weaver_core::clock::{Clock, Sleep};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::time::{Monotonic, Timestamp};
use weaver_runtime::SystemClock;
use weaver_server::api::ApiLimits;

use crate::server::Server;

async fn answer_to(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).await.expect("as the test expects");
    stream.write_all(bytes).await.expect("as the test expects");
    let mut answer = String::new();
    // A connection that is closed while we still write may be reset: then there is nothing to read.
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = Server::with_limits(ApiLimits { body_max_bytes: 1000, ..ApiLimits::default() }).await;
    let task = json!({ "task_type": "t", "payload": "x".repeat(1000) });
    server.post("/api/v1/tasks", &task).await.problem(413, "body_too_large");
}

#[tokio::test]
async fn batches_beyond_the_limit_are_refused() {
    let server = Server::with_limits(ApiLimits { batch_max: 1, ..ApiLimits::default() }).await;
    let batch = json!({ "tasks": [{ "task_type": "t" }, { "task_type": "t" }] });
    assert_eq!(server.post("/api/v1/tasks", &batch).await.problem(400, "invalid_field")["field"], "tasks");
    let heartbeat =
        json!({ "worker_id": "r", "started_at": "2026-01-01T00:00:00Z", "queues": [], "capacity": 1 });
    let heartbeats = json!({ "heartbeats": [heartbeat, heartbeat] });
    server.post("/api/v1/work/heartbeat", &heartbeats).await.problem(400, "invalid_field");
}

#[tokio::test]
async fn a_client_that_never_sends_its_body_is_answered_and_disconnected() {
    let limits = ApiLimits { request_timeout: Duration::from_millis(50), ..ApiLimits::default() };
    let server = Server::with_limits(limits).await;
    let head = "POST /api/v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let answer = answer_to(&server, head.as_bytes()).await;
    assert!(answer.contains("408") && answer.contains("request_timeout"), "{answer}");
}

#[tokio::test]
async fn a_client_that_never_ends_its_headers_is_disconnected() {
    let limits = ApiLimits { header_timeout: Duration::from_millis(50), ..ApiLimits::default() };
    let server = Server::with_limits(limits).await;
    let answer = answer_to(&server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    assert!(!answer.contains("200 OK"), "{answer}");
    assert!(!answer_to(&server, b"").await.contains("200 OK"));
}

#[tokio::test]
async fn headers_beyond_the_limits_are_refused() {
    let limits = ApiLimits { header_max_bytes: 8192, headers_max: 10, ..ApiLimits::default() };
    let server = Server::with_limits(limits).await;
    let large = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(20));
    for request in [large, many] {
        let answer = answer_to(&server, request.as_bytes()).await;
        assert!(answer.is_empty() || answer.contains("431"), "{answer}");
    }
    server.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let limits = ApiLimits { write_timeout: Duration::from_millis(50), ..ApiLimits::default() };
    let server = Server::with_limits(limits).await;
    for _ in 0..8 {
        server.enqueue(json!({ "payload": "x".repeat(1_000_000) })).await;
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let ask = "GET /api/v1/tasks HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
    stream.write_all(ask.as_bytes()).await.unwrap();
    // Nothing is read until the server has disconnected: its end is then closed for writing.
    let broken = async {
        loop {
            if stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    broken.await;
    server.get("/healthz").await.expect(200);
}

/// A clock that panics.
#[derive(Debug)]
struct Breaking(SystemClock, AtomicBool);

impl Clock for Breaking {
    fn now(&self) -> Timestamp {
        assert!(!self.1.load(Ordering::Relaxed), "the clock is broken");
        self.0.now()
    }

    fn monotonic(&self) -> Monotonic {
        self.0.monotonic()
    }

    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        self.0.sleep_until(deadline)
    }
}

#[tokio::test]
async fn a_panic_in_a_handler_fails_one_request_and_not_the_server() {
    let store = Arc::new(InMemoryQueue::new(Arc::new(SystemClock::new())));
    let clock = Arc::new(Breaking(SystemClock::new(), AtomicBool::new(false)));
    let server = Server::over(store, clock.clone(), ApiLimits::default()).await;
    clock.1.store(true, Ordering::Relaxed);
    server.get("/api/v1/workers").await.problem(500, "internal_error");
    clock.1.store(false, Ordering::Relaxed);
    server.get("/api/v1/workers").await.expect(200);
}
