use weaver_server::security::Role;

use crate::server::{Server, request};

#[tokio::test]
async fn only_health_and_the_openapi_document_need_no_token_and_the_journal_names_the_actor() {
    let (server, token) = Server::guarded("ops", Role::Operator).await;
    for path in ["/healthz", "/readyz", "/api/openapi.json"] {
        server.get(path).await.expect(200);
    }
    for path in ["/api/v1/tasks", "/api/v1/events", "/metrics", "/api/v1/nothing"] {
        assert_eq!(server.get(path).await.status, 401, "{path}");
    }
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let enqueue = format!("{bearer}Content-Type: application/json\r\n");
    let body = r#"{"task_type":"t"}"#;
    server.send(&request("POST", "/api/v1/tasks", server.address, &enqueue, body)).await.expect(201);
    server.send(&request("POST", "/api/v1/tasks/1/cancel", server.address, &bearer, "")).await.expect(200);
    let audit = server.send(&request("GET", "/api/v1/audit", server.address, &bearer, "")).await.expect(200);
    let actor = audit["entries"][1]["actor"].as_str().unwrap();
    assert!(actor.starts_with("ops@"), "{actor}");
}
