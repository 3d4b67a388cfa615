use serde_json::json;

use crate::server::Server;

#[tokio::test]
async fn a_queue_shows_its_settings_and_counts() {
    let server = Server::start().await;
    server.enqueue(json!({ "queue": "q" })).await;
    server.enqueue(json!({ "queue": "q", "delay_ms": 1000 })).await;
    let queue = server.get("/api/v1/queues").await.expect(200)["items"][0].clone();
    assert_eq!(
        (&queue["name"], &queue["paused"], &queue["version"]),
        (&json!("q"), &json!(false), &json!(0))
    );
    assert_eq!(
        (&queue["counts"]["states"]["queued"], &queue["counts"]["states"]["scheduled"]),
        (&json!(1), &json!(1))
    );
    assert!(queue["counts"]["oldest_wait_ms"].is_u64(), "{queue}");
    let counts = server.get("/api/v1/counts?queue=q").await.expect(200);
    assert_eq!((&counts["states"]["queued"], &counts["exact"]), (&json!(1), &json!(true)));
    assert_eq!(server.get("/api/v1/counts").await.expect(200)["states"]["scheduled"], 1);
}

#[tokio::test]
async fn nothing_is_leased_from_a_paused_queue_until_it_is_resumed() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let paused = server.post_empty("/api/v1/queues/default/pause").await.expect(200);
    assert_eq!((&paused["paused"], &paused["version"]), (&json!(true), &json!(1)));
    assert_eq!(server.lease(1).await, json!(null));
    server.post_empty("/api/v1/queues/default/resume").await.expect(200);
    assert_eq!(server.lease(2).await["task"]["id"], "1");
}

#[tokio::test]
async fn settings_are_written_only_over_the_version_that_was_read() {
    let server = Server::start().await;
    let put = |version: u64| json!({ "max_running": 2, "dispatch": "assign", "expected_version": version });
    assert_eq!(server.put("/api/v1/queues/q", &put(0)).await.expect(200)["version"], 1);
    server.put("/api/v1/queues/q", &put(0)).await.problem(409, "version_conflict");
    assert_eq!(server.put("/api/v1/queues/q", &put(1)).await.expect(200)["version"], 2);
    // Pausing keeps the other settings.
    let paused = server.post_empty("/api/v1/queues/q/pause").await.expect(200);
    assert_eq!(
        paused,
        json!({ "name": "q", "paused": true, "max_running": 2, "dispatch": "assign", "version": 3 })
    );
    server.put("/api/v1/queues/q", &json!({ "max_running": 0 })).await.problem(400, "invalid_field");
    server.put("/api/v1/queues/q", &json!({ "max": 1 })).await.problem(400, "invalid_body");
    server.put("/api/v1/queues/q", &json!({ "dispatch": "push" })).await.problem(400, "invalid_body");
    server.post_empty("/api/v1/queues/%0a/pause").await.problem(400, "invalid_field");
}
