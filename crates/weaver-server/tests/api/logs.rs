use serde_json::json;

use crate::server::Server;

#[tokio::test]
async fn lines_that_a_worker_appends_are_read_from_any_place() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    server.lease(1).await;
    let entries = json!(["one", "two", { "hex": "ff" }]);
    let append = json!({ "appends": [{ "stream": "task/1/1", "entries": entries }] });
    server.post("/api/v1/work/append", &append).await.expect(204);
    let page = server.get("/api/v1/tasks/1/logs").await.expect(200);
    let bodies: Vec<_> = page["lines"].as_array().unwrap().iter().map(|line| line["body"].clone()).collect();
    assert_eq!(json!(bodies), entries);
    assert_eq!((&page["next"], &page["ended"], &page["attempt"]), (&json!(3), &json!(false), &json!(1)));
    let page = server.get("/api/v1/tasks/1/logs?after=1&limit=1").await.expect(200);
    assert_eq!((&page["lines"][0]["body"], &page["more"]), (&json!("two"), &json!(true)));
    let page = server.get("/api/v1/tasks/1/logs?last=1").await.expect(200);
    assert_eq!(page["lines"][0]["body"], json!({ "hex": "ff" }));
    let page = server.get("/api/v1/tasks/1/logs?last=3&after=2").await.expect(200);
    assert_eq!(page["lines"].as_array().unwrap().len(), 1);
    server.get("/api/v1/tasks/1/logs?last=0").await.problem(400, "invalid_field");
}

#[tokio::test]
async fn whoever_follows_a_log_gets_the_next_line_when_it_is_written() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    server.lease(1).await;
    let append = json!({ "appends": [{ "stream": "task/1/1", "entries": ["late"] }] });
    let (page, _) = tokio::join!(
        server.get("/api/v1/tasks/1/logs?after=0&wait_ms=20000"),
        server.post("/api/v1/work/append", &append)
    );
    assert_eq!(page.expect(200)["lines"][0]["body"], "late");
}

#[tokio::test]
async fn whoever_follows_a_log_is_told_when_the_attempt_ends() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let lease = server.lease(1).await["lease"].clone();
    let end = json!({ "ends": [{ "lease": lease, "outcome": "succeeded" }] });
    let (page, _) = tokio::join!(
        server.get("/api/v1/tasks/1/logs?wait_ms=20000"),
        server.post("/api/v1/work/finish", &end)
    );
    let page = page.expect(200);
    assert_eq!((&page["lines"], &page["ended"]), (&json!([]), &json!(true)));
}

#[tokio::test]
async fn a_log_is_written_only_for_an_attempt_that_was_made() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    server.lease(1).await;
    for stream in ["task/1/2", "task/1/0", "task/7/1"] {
        let append = json!({ "appends": [{ "stream": stream, "entries": ["x"] }] });
        server.post("/api/v1/work/append", &append).await.problem(404, "task_not_found");
    }
    let append = json!({ "appends": [{ "stream": "stats", "entries": ["{}"], "trim_before_seq": 1 }] });
    server.post("/api/v1/work/append", &append).await.expect(204);
}
