use serde_json::json;
use weaver_server::api::{AppState, router};

use crate::server::Server;

#[tokio::test]
async fn health_says_ok_and_readiness_probes_the_store() {
    let server = Server::start().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.get(path).await.expect(200)["status"], "ok");
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_is_alive_but_not_ready() {
    let server = Server::start().await;
    let state = AppState::new(server.store.clone(), server.state.clock.clone());
    let stopping = Server::serving(server.store.clone(), server.state.clone(), router(state.clone())).await;
    state.closing.cancel();
    stopping.get("/readyz").await.problem(503, "stopping");
    stopping.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn metrics_count_tasks_and_measure_the_store() {
    let server = Server::start().await;
    server.enqueue(json!({ "queue": "a\"b" })).await;
    let answer = server.get("/metrics").await;
    assert!(
        answer.status == 200 && answer.headers.contains("content-type: text/plain; version=0.0.4"),
        "{answer:?}"
    );
    for line in [
        r#"weaver_tasks{namespace="default",queue="a\"b",state="queued"} 1"#,
        r#"weaver_store_seconds_count{call="enqueue"} 1"#,
        "# TYPE weaver_task_wait_seconds histogram",
        "weaver_queue_oldest_wait_seconds{",
    ] {
        assert!(answer.body.contains(line), "{line}\n{}", answer.body);
    }
}

#[tokio::test]
async fn observed_tasks_show_as_throughput_and_times() {
    let server = Server::start().await;
    // The observer has started once it has seen a first change.
    let seen = |text: &'static str| {
        let server = &server;
        async move { while !server.get("/metrics").await.body.contains(text) {} }
    };
    let begun = async {
        loop {
            server.enqueue(json!({ "queue": "warm" })).await;
            let body = server.get("/metrics").await.body;
            if !body.contains("weaver_task_transitions_total{state=\"queued\"} 0\n") {
                return;
            }
        }
    };
    begun.await;
    server.enqueue(json!({})).await;
    let lease = server.lease(1).await["lease"].clone();
    let ends = json!({ "ends": [{ "lease": lease, "outcome": "succeeded" }] });
    server.post("/api/v1/work/finish", &ends).await.expect(200);
    seen("weaver_task_transitions_total{state=\"succeeded\"} 1\n").await;
    for name in ["wait", "run"] {
        let line = format!("weaver_task_{name}_seconds_count{{namespace=\"default\",queue=\"default\"}} 1\n");
        let body = server.get("/metrics").await.body;
        assert!(body.contains(&line), "{line}\n{body}");
    }
}
