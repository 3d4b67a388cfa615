//! Connection limits, and what is still served at the limit.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::ApiLimits;
use weaver_server::security::{NamespaceScope, Role, TokenText};

use crate::log::Log;
use crate::server::{Server, TestResponse, bearer, lease_request, merge, request, token};

/// More than the default soft limit on open files of many systems.
const MANY: usize = 1100;

async fn guarded(limits: ApiLimits) -> (Server, TokenText) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let (server, tokens) = Server::guarding(store, clock, limits).await;
    let admin = token(&tokens, "admin", Role::Admin, NamespaceScope::All).await;
    (server, admin)
}

async fn open(server: &Server, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
    stream.write_all(text.as_bytes()).await.expect("the server accepts");
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    // Empty for a connection that was closed without a response.
    let _ = stream.read_to_string(&mut text).await;
    text
}

async fn metric(server: &Server, admin: &TokenText, line: &str) -> bool {
    let TestResponse { body, .. } = server.get_as(admin, "/metrics").await;
    body.lines().any(|found| found == line)
}

/// The timeout of a health check.
async fn answers_at_once(server: &Server) {
    let health = tokio::time::timeout(Duration::from_secs(2), server.get("/healthz"));
    health.await.expect("health is answered at once").expect(200);
}

#[tokio::test]
async fn health_is_answered_beside_1100_idle_long_polls() {
    let (server, admin) = guarded(ApiLimits::default()).await;
    let mut body = lease_request(1);
    merge(&mut body, json!({ "wait_ms": 30_000 }));
    let headers = format!("{}Content-Type: application/json\r\n", bearer(&admin));
    let mut polls = Vec::new();
    for number in 0..MANY {
        body["token"] = json!(format!("{number:032x}"));
        let text = request("POST", "/api/v1/work/lease", server.address, &headers, &body.to_string());
        polls.push(open(&server, &text).await);
    }
    // The connection of this request is counted too.
    let all = format!("weaver_connections{{caller=\"token\"}} {}", MANY + 1);
    while !metric(&server, &admin, &all).await {}
    answers_at_once(&server).await;
    server.get_as(&admin, "/api/v1/tasks").await.expect(200);
    // They are still served: each of the first tasks reaches one of them.
    server.post_as(&admin, "/api/v1/tasks", &json!({ "task_type": "t" })).await.expect(201);
    while server.get_as(&admin, "/api/v1/tasks/1").await.expect(200)["state"] != "running" {}
}

#[tokio::test]
async fn health_is_answered_beside_1100_readers_of_events() {
    let (server, admin) = guarded(ApiLimits::default()).await;
    let mut readers = Vec::new();
    for _ in 0..MANY {
        readers.push(server.events("/api/v1/events", &bearer(&admin)).await);
    }
    assert!(metric(&server, &admin, &format!("weaver_connections{{caller=\"token\"}} {}", MANY + 1)).await);
    answers_at_once(&server).await;
    server.post_as(&admin, "/api/v1/tasks", &json!({ "task_type": "t" })).await.expect(201);
    for reader in [0, MANY - 1] {
        assert_eq!(readers[reader].data().await.name, "change");
    }
}

#[tokio::test]
async fn health_is_answered_beside_1100_anonymous_sockets_of_one_byte() {
    let (server, _) = guarded(ApiLimits::default()).await;
    let mut sockets = Vec::new();
    for _ in 0..MANY {
        sockets.push(open(&server, "G").await);
    }
    answers_at_once(&server).await;
    let ready = tokio::time::timeout(Duration::from_secs(2), server.get("/readyz"));
    ready.await.expect("readiness is answered at once").expect(200);
}

#[tokio::test]
async fn an_anonymous_connection_beyond_its_addresss_limit_waits_unread_for_a_place() {
    let (server, _) = guarded(ApiLimits::default()).await;
    let mut sockets = Vec::new();
    for _ in 0..ApiLimits::default().anonymous_per_address {
        sockets.push(open(&server, "G").await);
    }
    let text = request("GET", "/api/openapi.json", server.address, "", "");
    let mut waiting = open(&server, &text).await;
    // Health over a later connection shows that this one was accepted before.
    answers_at_once(&server).await;
    let mut byte = [0];
    let nothing = tokio::time::timeout(Duration::from_millis(50), waiting.read(&mut byte)).await;
    assert!(nothing.is_err(), "it was answered");
    sockets.pop();
    assert!(answer(waiting).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_anonymous_connection_that_is_idle_or_finds_no_place_is_closed_in_time() {
    let clock = ManualClock::default();
    let store = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
    let limits = ApiLimits { anonymous_per_address: 1, ..ApiLimits::default() };
    let (server, _) = Server::guarding(store, Arc::new(clock.clone()), limits).await;
    let (silent, waiting) = (open(&server, "G").await, open(&server, "P").await);
    let time_goes_on = async {
        loop {
            tokio::task::yield_now().await;
            clock.advance(limits.anonymous_timeout);
        }
    };
    tokio::select! {
        answers = async { (answer(silent).await, answer(waiting).await) } => assert_eq!(answers, Default::default()),
        () = time_goes_on => unreachable!("it never ends"),
    }
    server.get("/api/openapi.json").await.expect(200);
}

#[tokio::test]
async fn a_token_beyond_its_connection_limit_is_refused_and_others_are_not_affected() {
    let limits = ApiLimits { connections_per_token: 1, ..ApiLimits::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let (server, tokens) = Server::guarding(store, clock, limits).await;
    let a = token(&tokens, "a", Role::Viewer, NamespaceScope::All).await;
    let b = token(&tokens, "b", Role::Viewer, NamespaceScope::All).await;
    let stream = server.events("/api/v1/events", &bearer(&a)).await;
    server.get_as(&a, "/api/v1/tasks").await.problem(429, "too_many_connections");
    server.get_as(&b, "/api/v1/tasks").await.expect(200);
    drop(stream);
    while server.get_as(&a, "/api/v1/tasks").await.status == 429 {}
    server.get_as(&a, "/api/v1/tasks").await.expect(200);
}

/// The server on loopback, with or without loopback as a trusted proxy.
async fn proxied(networks: &[&str]) -> Server {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let networks = networks.iter().map(|network| network.parse().expect("a network")).collect();
    Server::guarding_behind(
        store,
        clock,
        ApiLimits { anonymous_per_address: 1, ..ApiLimits::default() },
        networks,
    )
    .await
    .0
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_forwarded_address_is_counted() {
    let server = proxied(&["127.0.0.0/8"]).await;
    let head = |address: &str| {
        let length = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10\r\n";
        format!(
            "POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nX-Forwarded-For: {address}\r\n{length}\r\n"
        )
    };
    // Its body never arrives; the proxy's other callers are not affected.
    let _slow = open(&server, &head("192.0.2.1")).await;
    let get = async |address: &str| {
        let headers = format!("X-Forwarded-For: 10.0.0.1, {address}\r\n");
        server.send(&request("GET", "/api/openapi.json", server.address, &headers, "")).await
    };
    while get("192.0.2.1").await.status != 429 {}
    get("192.0.2.1").await.problem(429, "too_many_anonymous_requests");
    get("192.0.2.2").await.expect(200);
}

#[tokio::test]
async fn an_untrusted_peer_cannot_choose_its_address() {
    for networks in [&["192.0.2.0/24"][..], &[]] {
        let server = proxied(networks).await;
        let _held = open(&server, "G").await;
        let text = request("GET", "/api/openapi.json", server.address, "X-Forwarded-For: 192.0.2.9\r\n", "");
        let mut waiting = open(&server, &text).await;
        answers_at_once(&server).await;
        let mut byte = [0];
        let nothing = tokio::time::timeout(Duration::from_millis(50), waiting.read(&mut byte)).await;
        assert!(nothing.is_err(), "it was answered");
    }
}

#[tokio::test]
async fn a_forwarded_address_from_an_untrusted_peer_is_not_logged_either() {
    let log = Log::default();
    let _listening = tracing::subscriber::set_default(log.clone());
    for (networks, address) in [(&["192.0.2.0/24"][..], "127.0.0.1"), (&["127.0.0.0/8"], "192.0.2.9")] {
        let server = proxied(networks).await;
        let headers = "X-Forwarded-For: 192.0.2.9\r\nAuthorization: Bearer wrong\r\n";
        let answer = server.send(&request("GET", "/api/v1/tasks", server.address, headers, "")).await;
        assert_eq!(answer.status, 401, "{answer:?}");
        let text = std::mem::take(&mut *log.0.lock());
        assert!(text.contains(&format!("address={address}\n")), "{networks:?}: {text}");
    }
}
