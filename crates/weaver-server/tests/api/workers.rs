use serde_json::json;

use crate::server::Server;

fn heartbeat() -> serde_json::Value {
    json!({ "heartbeats": [{ "worker_id": "r1", "started_at": "2026-01-01T00:00:00Z", "queues": ["default"], "capacity": 4 }] })
}

#[tokio::test]
async fn a_worker_that_sends_heartbeats_is_listed_given_a_directive_and_deregistered() {
    let server = Server::start().await;
    assert_eq!(
        server.post("/api/v1/work/heartbeat", &heartbeat()).await.expect(200),
        json!({ "directives": ["run"] })
    );
    let worker = server.get("/api/v1/workers").await.expect(200)["items"][0].clone();
    assert_eq!((&worker["heartbeat"]["worker_id"], &worker["alive"]), (&json!("r1"), &json!(true)));
    server.post("/api/v1/workers/r1/directive", &json!({ "directive": "drain" })).await.expect(204);
    assert_eq!(
        server.post("/api/v1/work/heartbeat", &heartbeat()).await.expect(200),
        json!({ "directives": ["drain"] })
    );
    server.post("/api/v1/work/deregister", &json!({ "workers": [{ "worker_id": "r1" }] })).await.expect(204);
    let worker = server.get("/api/v1/workers").await.expect(200)["items"][0].clone();
    assert_eq!((&worker["status"], &worker["alive"]), (&json!("stopped"), &json!(false)));
}

#[tokio::test]
async fn a_directive_that_does_not_exist_is_refused() {
    let server = Server::start().await;
    let problem = server.post("/api/v1/workers/r1/directive", &json!({ "directive": "explode" })).await;
    assert_eq!(problem.problem(400, "invalid_body")["field"], "directive");
}
