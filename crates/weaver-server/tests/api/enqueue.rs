use serde_json::json;

use crate::server::Server;

#[tokio::test]
async fn a_task_is_enqueued_and_its_id_is_a_string() {
    let server = Server::start().await;
    let answer = server.post("/api/v1/tasks", &json!({ "task_type": "greet" })).await.expect(201);
    assert_eq!(answer, json!({ "id": "1", "namespace": "default", "existing": false }));
    let task = server.get("/api/v1/tasks/1").await.expect(200);
    assert_eq!((&task["task_type"], &task["state"]), (&json!("greet"), &json!("queued")));
    assert_eq!((&task["queue"], &task["payload"]), (&json!("default"), &json!(null)));
}

#[tokio::test]
async fn every_field_of_a_task_arrives() {
    let server = Server::start().await;
    let task = json!({
        "task_type": "mail", "namespace": "n", "queue": "q", "payload": { "to": [1, 2.50] },
        "priority": 1, "delay_ms": 60_000, "max_attempts": 2, "max_losses": 0, "timeout_ms": 5000,
        "retry": { "kind": "fixed", "delay_ms": 10 }, "expires_at": "2090-01-01T00:00:00Z", "serial_key": "s",
        "idempotency_key": "i", "task_group_id": "g", "session_id": "c", "labels": { "a": "b" },
        "trace": { "traceparent": "00-1-2-01" },
    });
    server.post("/api/v1/tasks", &task).await.expect(201);
    let read = server.get("/api/v1/tasks/1?namespace=n").await.expect(200);
    for (field, value) in task.as_object().unwrap() {
        match field.as_str() {
            "delay_ms" => assert_eq!(read["state"], "scheduled"),
            "expires_at" => assert_eq!(read[field], "2090-01-01T00:00:00.000000Z"),
            _ => assert_eq!(&read[field], value, "{field}"),
        }
    }
}

#[tokio::test]
async fn a_payload_keeps_its_digits_and_other_content_types_are_strings() {
    let server = Server::start().await;
    let body = r#"{"task_type":"t","payload":{"b":123456789012345678901234567890,"a":1.10}}"#;
    server.with_body("POST", "/api/v1/tasks", body).await.expect(201);
    let read = server.get("/api/v1/tasks/1").await;
    assert!(read.body.contains(r#""payload":{"b":123456789012345678901234567890,"a":1.10}"#), "{read:?}");
    server.enqueue(json!({ "content_type": "text/plain", "payload": "hello" })).await;
    assert_eq!(server.get("/api/v1/tasks/2").await.expect(200)["payload"], "hello");
    server.enqueue(json!({ "content_type": "image/png", "payload_hex": "ff00" })).await;
    assert_eq!(server.get("/api/v1/tasks/3").await.expect(200)["payload_hex"], "ff00");
}

#[tokio::test]
async fn a_batch_has_a_result_per_member_and_a_repeated_key_returns_the_first_task() {
    let server = Server::start().await;
    let one = json!({ "task_type": "t", "idempotency_key": "k" });
    let answer = server.post("/api/v1/tasks", &json!({ "tasks": [one, one, { "task_type": "u" }] })).await;
    let tasks = answer.expect(201)["tasks"].clone();
    assert_eq!(tasks[0], json!({ "id": "1", "namespace": "default", "existing": false }));
    assert_eq!(tasks[1], json!({ "id": "1", "namespace": "default", "existing": true }));
    assert_eq!(tasks[2]["existing"], false);
    assert_eq!(
        server.post("/api/v1/tasks", &json!({ "tasks": [] })).await.expect(201),
        json!({ "tasks": [] })
    );
}

#[tokio::test]
async fn one_invalid_member_and_nothing_of_the_batch_is_stored() {
    let server = Server::start().await;
    let batch = json!({ "tasks": [{ "task_type": "t" }, { "task_type": "t", "priority": 10 }] });
    let problem = server.post("/api/v1/tasks", &batch).await.problem(400, "invalid_field");
    assert_eq!((&problem["field"], &problem["index"]), (&json!("priority"), &json!(1)));
    assert_eq!(server.get("/api/v1/tasks").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn internal_task_types_are_refused_alone_and_in_batches() {
    let server = Server::start().await;
    let internal = json!({ "task_type": "weaver.purge" });
    server.post("/api/v1/tasks", &internal).await.problem(403, "task_type_internal");
    let batch = json!({ "tasks": [{ "task_type": "t" }, internal] });
    assert_eq!(server.post("/api/v1/tasks", &batch).await.problem(403, "task_type_internal")["index"], 1);
    assert_eq!(server.get("/api/v1/tasks").await.expect(200)["items"], json!([]));
}
