use serde_json::json;
use weaver_core::name::Namespace;
use weaver_core::ports::{ReadFrom, StreamKey};

use crate::server::Server;

#[tokio::test]
async fn lines_that_a_worker_appends_are_read_from_any_position() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let lease = server.lease(1).await["lease"].clone();
    let entries = json!(["one", "two", { "hex": "ff" }]);
    let append = json!({ "appends": [{ "stream": "task/1/1", "entries": entries, "lease": lease }] });
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
async fn a_client_that_follows_a_log_gets_the_next_line_when_it_is_written() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let lease = server.lease(1).await["lease"].clone();
    let append = json!({ "appends": [{ "stream": "task/1/1", "entries": ["late"], "lease": lease }] });
    let (page, _) = tokio::join!(
        server.get("/api/v1/tasks/1/logs?after=0&wait_ms=20000"),
        server.post("/api/v1/work/append", &append)
    );
    assert_eq!(page.expect(200)["lines"][0]["body"], "late");
}

#[tokio::test]
async fn a_client_that_follows_a_log_is_notified_when_the_attempt_ends() {
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
async fn no_worker_can_trim_the_statistics_of_others() {
    let server = Server::start().await;
    let stats = |more: serde_json::Value| {
        let mut append = json!({ "stream": "stats", "entries": ["{}"] });
        crate::server::merge(&mut append, more);
        json!({ "appends": [append] })
    };
    let by_seq = stats(json!({ "trim_before_seq": 2 }));
    assert_eq!(
        server.post("/api/v1/work/append", &by_seq).await.problem(403, "stream_shared")["field"],
        "trim_before_seq"
    );
    for _ in 0..2 {
        let by_time = stats(json!({ "trim_before": "9999-01-01T00:00:00Z" }));
        server.post("/api/v1/work/append", &by_time).await.expect(204);
    }
    let stream = StreamKey::new(Namespace::default(), "stats");
    let page = server.store.read_entries(&stream, ReadFrom::Last(10), 10).await.unwrap();
    assert_eq!(page.entries.len(), 2, "what is younger than 25 h stays");
}
