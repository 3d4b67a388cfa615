//! Quotas of queues, and the cost of many of them.

use serde_json::json;
use weaver_server::api::ApiLimits;

use crate::server::Server;

fn batch(queues: std::ops::Range<u32>) -> serde_json::Value {
    let task = |number: u32| json!({ "task_type": "t", "queue": format!("q{number:05}") });
    json!({ "tasks": queues.map(task).collect::<Vec<_>>() })
}

#[tokio::test]
async fn a_producer_cannot_create_more_queues_than_the_quota_of_a_namespace() {
    let server = Server::start().await;
    server.post("/api/v1/tasks", &batch(0..999)).await.expect(201);
    server.enqueue(json!({ "queue": "the last" })).await;
    for tasks in [batch(999..1000), batch(0..1001), batch(2000..12_000)] {
        server.post("/api/v1/tasks", &tasks).await.problem(403, "queue_quota_exceeded");
    }
    let put = json!({ "max_running": 1 });
    server.put("/api/v1/queues/another", &put).await.problem(403, "queue_quota_exceeded");
    server.post_empty("/api/v1/queues/another/pause").await.problem(403, "queue_quota_exceeded");
    let trigger = json!({ "kind": "time", "schedule": "0 2 * * *", "tz": "UTC" });
    let task = json!({ "task_type": "t", "queue": "another" });
    let schedule = json!({ "expected_version": 0, "spec": { "trigger": trigger, "task": task } });
    let answer = server.put("/api/v1/schedules/s", &schedule).await;
    answer.problem(403, "queue_quota_exceeded");
    // Existing queues and other namespaces are not affected.
    server.post("/api/v1/tasks", &batch(0..999)).await.expect(201);
    server.enqueue(json!({ "queue": "another", "namespace": "n" })).await;
}

#[tokio::test]
async fn queues_of_another_server_of_the_store_count_too() {
    let server = Server::with_limits(ApiLimits { queues_per_namespace: 2, ..ApiLimits::default() }).await;
    for queue in ["a", "b"] {
        let task = weaver_core::task::NewTask::new("t").queue(queue);
        weaver_core::queue::QueueExt::enqueue(&*server.store, task).await.expect("in memory");
    }
    let task = json!({ "task_type": "t", "queue": "c" });
    server.post("/api/v1/tasks", &task).await.problem(403, "queue_quota_exceeded");
    server.enqueue(json!({ "queue": "a" })).await;
}

#[tokio::test]
async fn queues_are_listed_in_pages_each_once() {
    let server = Server::start().await;
    server.post("/api/v1/tasks", &batch(0..25)).await.expect(201);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/queues?limit=10{cursor}")).await.expect(200);
        let names = page["items"].as_array().expect("items").iter();
        seen.extend(names.map(|queue| queue["name"].as_str().expect("a name").to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let all: Vec<_> = (0..25).map(|number| format!("q{number:05}")).collect();
    assert_eq!(seen, all);
    assert_eq!(server.get("/api/v1/queues").await.expect(200)["items"].as_array().map(Vec::len), Some(25));
}

/// Queues that were not created by this server are limited too.
#[tokio::test]
async fn metrics_and_pages_stay_small_with_20000_queues() {
    let server = Server::start().await;
    let tasks = (0..20_000).map(|number| weaver_core::task::NewTask::new("t").queue(format!("q{number:05}")));
    let tasks: Vec<_> = tasks.collect();
    for tasks in tasks.chunks(1000) {
        server.store.enqueue_batch(tasks.to_vec()).await.expect("in memory");
    }
    let metrics = server.get("/metrics").await.body;
    assert!(metrics.len() < 1024 * 1024, "{} bytes", metrics.len());
    let other = "weaver_tasks{namespace=\"default\",queue=\"other\",state=\"queued\"} 19500";
    assert!(metrics.lines().any(|line| line == other), "the rest is counted together");
    let queues = server.get("/api/v1/queues").await;
    assert!(queues.body.len() < 1024 * 1024, "{} bytes", queues.body.len());
    assert_eq!(queues.expect(200)["items"].as_array().map(Vec::len), Some(1000));
}
