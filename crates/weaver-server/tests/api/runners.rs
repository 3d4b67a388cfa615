use serde_json::json;

use crate::server::Server;

fn beat() -> serde_json::Value {
    json!({ "beats": [{ "runner_id": "r1", "started_at": "2026-01-01T00:00:00Z", "queues": ["default"], "capacity": 4 }] })
}

#[tokio::test]
async fn a_runner_that_beats_is_listed_told_and_let_go() {
    let server = Server::start().await;
    assert_eq!(server.post("/api/v1/work/beat", &beat()).await.expect(200), json!({ "directives": ["run"] }));
    let runner = server.get("/api/v1/runners").await.expect(200)["items"][0].clone();
    assert_eq!((&runner["beat"]["runner_id"], &runner["alive"]), (&json!("r1"), &json!(true)));
    server.post("/api/v1/runners/r1/direct", &json!({ "directive": "drain" })).await.expect(204);
    assert_eq!(
        server.post("/api/v1/work/beat", &beat()).await.expect(200),
        json!({ "directives": ["drain"] })
    );
    server.post("/api/v1/work/leave", &json!({ "runners": [{ "runner_id": "r1" }] })).await.expect(204);
    let runner = server.get("/api/v1/runners").await.expect(200)["items"][0].clone();
    assert_eq!((&runner["status"], &runner["alive"]), (&json!("stopped"), &json!(false)));
}

#[tokio::test]
async fn a_runner_is_told_nothing_that_is_no_directive() {
    let server = Server::start().await;
    let problem = server.post("/api/v1/runners/r1/direct", &json!({ "directive": "explode" })).await;
    assert_eq!(problem.problem(400, "invalid_body")["field"], "directive");
}
