use serde_json::{Value, json};

use crate::server::{Server, lease_request, merge, request};

#[tokio::test]
async fn an_unknown_field_is_refused_and_named() {
    let server = Server::start().await;
    let problem = server.post("/api/v1/tasks", &json!({ "task_type": "t", "qeue": "x" })).await;
    assert!(problem.problem(400, "invalid_body")["detail"].as_str().unwrap().contains("qeue"));
    let problem = server.get("/api/v1/tasks?stat=queued").await.problem(400, "invalid_query");
    assert!(problem["detail"].as_str().unwrap().contains("stat"), "{problem}");
}

#[tokio::test]
async fn a_wrong_type_is_refused_with_the_path_to_it() {
    let server = Server::start().await;
    let batch = json!({ "tasks": [{ "task_type": "t" }, { "task_type": "t", "priority": "high" }] });
    let problem = server.post("/api/v1/tasks", &batch).await.problem(400, "invalid_body");
    assert_eq!(problem["field"], "tasks[1].priority");
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let server = Server::start().await;
    server.with_body("POST", "/api/v1/tasks", "{\"task_type\":").await.problem(400, "invalid_json");
    server.with_body("POST", "/api/v1/tasks", "").await.problem(400, "invalid_json");
    server.with_body("POST", "/api/v1/tasks", "[]").await.problem(400, "invalid_body");
}

#[tokio::test]
async fn a_body_without_its_content_type_is_refused() {
    let server = Server::start().await;
    for headers in ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"]
    {
        let body = r#"{"task_type":"t"}"#;
        let answer = server.send(&request("POST", "/api/v1/tasks", server.address, headers, body)).await;
        answer.problem(415, "content_type_not_json");
    }
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems_too() {
    let server = Server::start().await;
    server.get("/api/v1/nothing").await.problem(404, "no_such_route");
    server.get("/").await.problem(404, "no_such_route");
    let answer = server.post_empty("/api/v1/counts").await;
    answer.problem(405, "method_not_allowed");
    assert!(answer.headers.contains("allow: get"), "{answer:?}");
    server.post_empty("/healthz").await.problem(405, "method_not_allowed");
    server.get("/api/v1/tasks/%ff").await.problem(400, "invalid_path");
}

#[tokio::test]
async fn every_list_refuses_invalid_pages_and_names() {
    let server = Server::start().await;
    for path in ["tasks", "groups", "workers", "namespaces", "audit"] {
        for limit in ["0", "1001", "x", "-1"] {
            let answer = server.get(&format!("/api/v1/{path}?limit={limit}")).await;
            assert_eq!(answer.status, 400, "{path} {limit}: {answer:?}");
        }
    }
    for path in
        ["tasks", "groups", "workers", "queues", "counts", "audit", "events", "tasks/1", "tasks/1/wait"]
    {
        let answer = server.get(&format!("/api/v1/{path}?namespace=%0a")).await;
        assert_eq!(answer.problem(400, "invalid_field")["field"], "namespace", "{path}");
    }
}

#[tokio::test]
async fn invalid_filters_are_refused() {
    let server = Server::start().await;
    for (query, field) in
        [("state=sleeping", "state"), ("label=novalue", "label"), ("label==x", "label"), ("queue=", "queue")]
    {
        let problem = server.get(&format!("/api/v1/tasks?{query}")).await.problem(400, "invalid_field");
        assert_eq!(problem["field"], field, "{query}");
    }
    server.get("/api/v1/tasks?created_from=yesterday").await.problem(400, "invalid_query");
    server.get("/api/v1/tasks?cursor=nonsense").await.problem(404, "unknown_cursor");
}

#[tokio::test]
async fn durations_and_timestamps_out_of_range_are_refused_by_their_json_names() {
    let server = Server::start().await;
    for (field, value) in [
        ("delay_ms", json!(u64::MAX)),
        ("timeout_ms", json!(0)),
        ("max_attempts", json!(0)),
        ("payload_hex", json!("f")),
        ("queue", json!("")),
    ] {
        let mut task = json!({ "task_type": "t" });
        merge(&mut task, json!({ field: value }));
        let problem = server.post("/api/v1/tasks", &task).await.problem(400, "invalid_field");
        assert_eq!(problem["field"], field);
    }
    let both = json!({ "task_type": "t", "delay_ms": 1, "run_at": "2030-01-01T00:00:00Z" });
    server.post("/api/v1/tasks", &both).await.problem(400, "invalid_field");
}

#[tokio::test]
async fn invalid_work_requests_are_refused_before_anything_is_changed() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    for more in [
        json!({ "token": "12" }),
        json!({ "token": "+123456789012345678901234567890" }),
        json!({ "max": 0 }),
        json!({ "max": 1001 }),
        json!({ "ttl_ms": 1 }),
        json!({ "queues": [] }),
        json!({ "worker": "" }),
    ] {
        let mut body = lease_request(1);
        merge(&mut body, more.clone());
        let answer = server.post("/api/v1/work/lease", &body).await;
        answer.problem(400, "invalid_field");
    }
    let bad_lease = json!({ "namespace": "default", "id": "", "version": 1, "attempt": 1, "worker": "w",
        "token": format!("{:032x}", 1), "ttl_ms": 1000 });
    for (path, body) in [
        ("renew", json!({ "renewals": [{ "lease": bad_lease }] })),
        ("finish", json!({ "ends": [{ "lease": bad_lease, "outcome": "succeeded" }] })),
        ("confirm-stopped", json!({ "leases": [bad_lease] })),
        ("deregister", json!({ "workers": [{ "worker_id": "" }] })),
        ("append", json!({ "appends": [{ "stream": "audit", "entries": ["me? never"] }] })),
        ("append", json!({ "appends": [{ "stream": "task/1/x", "entries": [] }] })),
        ("wait", json!({ "queues": [], "wait_ms": 0 })),
    ] {
        let answer = server.post(&format!("/api/v1/work/{path}"), &body).await;
        answer.problem(400, "invalid_field");
    }
    server
        .post("/api/v1/work/heartbeat", &json!({ "heartbeats": [{ "worker_id": "r" }] }))
        .await
        .problem(400, "invalid_body");
    assert_eq!(server.get("/api/v1/tasks/1").await.expect(200)["state"], "queued");
}

#[tokio::test]
async fn an_outcome_refuses_fields_that_do_not_apply_to_it() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let lease = server.lease(1).await["lease"].clone();
    for wrong in [
        json!({ "outcome": "succeeded", "error": "x" }),
        json!({ "outcome": "failed", "result": 1 }),
        json!({ "outcome": "released", "retry_after_ms": 1 }),
        json!({ "outcome": "failed", "fatal": true, "retry_after_ms": 1 }),
        json!({ "outcome": "succeeded", "result": 1, "result_hex": "00" }),
    ] {
        let mut end: Value = json!({ "lease": lease });
        merge(&mut end, wrong);
        server.post("/api/v1/work/finish", &json!({ "ends": [end] })).await.problem(400, "invalid_field");
    }
}

#[tokio::test]
async fn json_that_parsers_crash_on_or_disagree_on_is_refused_with_its_path() {
    let server = Server::start().await;
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let post = async |body: String| server.with_body("POST", "/api/v1/tasks", &body).await;
    let problem =
        post(format!(r#"{{"task_type":"t","payload":{deep}}}"#)).await.problem(400, "json_too_deep");
    assert!(problem["field"].as_str().unwrap().starts_with("payload[0][0]"), "{problem}");
    let twice = r#"{"tasks":[{"task_type":"t"},{"task_type":"t","payload":{"a":{"b":1,"b":2}}}]}"#;
    let problem = post(twice.to_owned()).await.problem(400, "json_duplicate_key");
    assert_eq!(problem["field"], "tasks[1].payload.a.b");
    let lone = r#"{"task_type":"t","payload":{"name":"\ud800"}}"#;
    assert_eq!(post(lone.to_owned()).await.problem(400, "json_lone_surrogate")["field"], "payload.name");
    let fine = format!("{}{}", "[".repeat(100), "]".repeat(100));
    post(format!(r#"{{"task_type":"t","payload":{fine}}}"#)).await.expect(201);
}

#[tokio::test]
async fn json_stored_by_other_means_is_returned_in_hex_when_parsers_would_crash_on_it() {
    let server = Server::start().await;
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let digits: String = deep.bytes().map(|byte| format!("{byte:02x}")).collect();
    let id = server.enqueue(json!({ "payload_hex": digits, "content_type": "application/json" })).await;
    let task = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!((&task["payload"], &task["payload_hex"]), (&Value::Null, &json!(digits)));
}
