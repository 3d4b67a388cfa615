use serde_json::json;

use crate::server::{Server, lease_request, merge};

#[tokio::test]
async fn a_wait_for_a_task_ends_with_the_task() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let (waited, _) = tokio::join!(
        server.get("/api/v1/tasks/1/wait?timeout_ms=20000"),
        server.post_empty("/api/v1/tasks/1/cancel"),
    );
    let waited = waited.expect(200);
    assert_eq!((&waited["ended"], &waited["task"]["state"]), (&json!(true), &json!("cancelled")));
    assert_eq!(server.get("/api/v1/tasks/1/wait").await.expect(200)["ended"], true);
}

#[tokio::test]
async fn a_wait_that_times_out_returns_the_current_task() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    for timeout_ms in [0, 5] {
        let waited = server.get(&format!("/api/v1/tasks/1/wait?timeout_ms={timeout_ms}")).await.expect(200);
        assert_eq!((&waited["ended"], &waited["task"]["state"]), (&json!(false), &json!("queued")));
    }
}

#[tokio::test]
async fn a_lease_that_waits_is_granted_as_soon_as_there_is_a_task() {
    let server = Server::start().await;
    let mut body = lease_request(1);
    merge(&mut body, json!({ "wait_ms": 20_000 }));
    let (leased, id) = tokio::join!(server.post("/api/v1/work/lease", &body), server.enqueue(json!({})));
    assert_eq!(leased.expect(200)["tasks"][0]["task"]["id"], id);
}

#[tokio::test]
async fn a_wait_for_work_reports_whether_a_task_may_be_due() {
    let server = Server::start().await;
    let nothing = json!({ "queues": ["default"], "wait_ms": 0 });
    assert_eq!(server.post("/api/v1/work/wait", &nothing).await.expect(200), json!({ "ready": false }));
    let wait = json!({ "queues": ["default"], "wait_ms": 20_000 });
    let (waited, _) = tokio::join!(server.post("/api/v1/work/wait", &wait), server.enqueue(json!({})));
    assert_eq!(waited.expect(200), json!({ "ready": true }));
}

#[tokio::test]
async fn waits_end_when_the_server_stops() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let address = server.address;
    let other = crate::server::request("GET", "/api/v1/tasks/1/wait", address, "", "");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, other.as_bytes()).await.unwrap();
    server.stop().await;
    let mut answer = String::new();
    // Answered in time, or refused before it began; it never hangs.
    let _ = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await;
    assert!(answer.is_empty() || answer.contains("\"ended\":false"), "{answer}");
}
