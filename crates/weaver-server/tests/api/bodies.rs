//! Request bodies that are never finished.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weaver_core::clock::Clock;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::ApiLimits;
use weaver_server::security::{NamespaceScope, Role, TokenText};

use crate::server::{Server, bearer, token};

const MIB: usize = 1024 * 1024;

/// The memory of this process, which is client and server: the client's part is one buffer.
fn resident_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has one");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("a number") / 1024
}

/// Starts a body and never ends it; returns the response if the server does not wait for the rest.
async fn unfinished(server: &Server, token: &TokenText, declared: usize, part: &[u8]) -> String {
    let head = format!(
        "POST /api/v1/tasks HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/json\r\nContent-Length: {declared}\r\n\r\n",
        server.address,
        bearer(token)
    );
    let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
    // A server that refuses stops reading: the rest cannot be sent.
    if stream.write_all(head.as_bytes()).await.is_ok() {
        let _ = stream.write_all(part).await;
    }
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).await.unwrap_or(0);
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

async fn server(limits: ApiLimits) -> (Arc<Server>, TokenText, TokenText) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let (server, tokens) = Server::guarding(store, clock, limits).await;
    let attacker = token(&tokens, "attacker", Role::Producer, NamespaceScope::All).await;
    let other = token(&tokens, "other", Role::Admin, NamespaceScope::All).await;
    (Arc::new(server), attacker, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_unfinished_bodies_of_one_token_take_its_share_and_no_more() {
    let (server, attacker, other) = server(ApiLimits::default()).await;
    let before = resident_mib();
    let part: Arc<[u8]> = vec![b' '; 14 * MIB].into();
    let mut bodies = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (server, attacker, part) = (Arc::clone(&server), attacker.clone(), Arc::clone(&part));
        bodies.spawn(async move { unfinished(&server, &attacker, 15 * MIB, &part).await });
    }
    let mut refused = 0;
    let mut most = 0;
    while refused < 96 {
        let answer = bodies.join_next().await.expect("there are more").expect("it does not panic");
        assert!(answer.contains("429") && answer.contains("body_share_exhausted"), "{answer}");
        refused += 1;
        most = most.max(resident_mib());
        // Other tokens are not affected, however large their bodies are.
        if refused % 32 == 0 {
            let large = json!({ "task_type": "t", "payload": "x".repeat(15 * MIB / 16) });
            server.post_as(&other, "/api/v1/tasks", &large).await.expect(201);
        }
    }
    let reserved = server.get_as(&other, "/metrics").await.body;
    let line =
        reserved.lines().find(|line| line.starts_with("weaver_body_bytes_reserved ")).expect("a metric");
    assert_eq!(line, format!("weaver_body_bytes_reserved {}", 4 * 15 * MIB));
    assert!(most - before < 300, "{before} MiB before, {most} MiB at most");
}

#[tokio::test]
async fn a_body_that_pauses_too_long_is_refused_and_its_share_released() {
    let limits = ApiLimits { body_timeout: Duration::from_millis(50), ..ApiLimits::default() };
    let (server, attacker, other) = server(limits).await;
    let answer = unfinished(&server, &attacker, 15 * MIB, b"{").await;
    assert!(answer.contains("408") && answer.contains("body_too_slow"), "{answer}");
    assert!(server.get_as(&other, "/metrics").await.body.contains("weaver_body_bytes_reserved 0"));
}

#[tokio::test]
async fn a_body_without_a_content_length_is_counted_as_it_arrives() {
    let (server, _, other) = server(ApiLimits { body_max_bytes: 1000, ..ApiLimits::default() }).await;
    let send = async |length: usize| {
        let body = format!("{{\"task_type\":\"t\",\"payload\":\"{}\"}}", "x".repeat(length));
        let head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n";
        let text = format!(
            "POST /api/v1/tasks HTTP/1.1\r\nHost: {}\r\n{}{head}\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            server.address,
            bearer(&other),
            body.len()
        );
        server.send(&text).await
    };
    send(100).await.expect(201);
    send(1000).await.problem(413, "body_too_large");
}
