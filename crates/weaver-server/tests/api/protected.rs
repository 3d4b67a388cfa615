use std::sync::Arc;

use tokio::net::TcpListener;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::{AppState, Routes, routes};
use weaver_server::security::{Guard, GuardOptions, NamespaceScope, NewToken, Role, Tokens, protect};

use crate::server::{Server, request};

#[tokio::test]
async fn behind_the_guard_only_health_and_the_document_are_open_and_the_journal_names_the_token() {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let tokens = Arc::new(Tokens::new(store.clone(), clock.clone()));
    let new = NewToken {
        name: "ops".to_owned(),
        role: Role::Operator,
        namespaces: NamespaceScope::All,
        may_exec: false,
        expires_at: None,
        created_by: "the test".to_owned(),
    };
    let (token, _) = tokens.create(new).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let guard = Guard::new(GuardOptions {
        tokens: Some(tokens),
        clock: clock.clone(),
        listen: listener.local_addr().unwrap(),
        hosts: Vec::new(),
        tls: false,
        behind_proxy: false,
    });
    let state = AppState::new(store.clone(), clock);
    let Routes { private, public } = routes(state.clone());
    let protected = protect(private, public, Arc::new(guard.unwrap()));
    let server = Server::listening(listener, store, state, protected);

    for path in ["/healthz", "/readyz", "/api/openapi.json"] {
        server.get(path).await.expect(200);
    }
    for path in ["/api/v1/tasks", "/api/v1/events", "/metrics", "/api/v1/nothing"] {
        assert_eq!(server.get(path).await.status, 401, "{path}");
    }
    let bearer = format!("Authorization: Bearer {}\r\n", token.expose());
    let enqueue = format!("{bearer}Content-Type: application/json\r\n");
    let body = r#"{"task_type":"t"}"#;
    server.send(&request("POST", "/api/v1/tasks", server.address, &enqueue, body)).await.expect(201);
    server.send(&request("POST", "/api/v1/tasks/1/cancel", server.address, &bearer, "")).await.expect(200);
    let audit = server.send(&request("GET", "/api/v1/audit", server.address, &bearer, "")).await.expect(200);
    let who = audit["entries"][1]["who"].as_str().unwrap();
    assert!(who.starts_with("ops@"), "{who}");
}
