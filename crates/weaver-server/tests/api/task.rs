use serde_json::json;

use crate::server::Server;

#[tokio::test]
async fn an_unknown_task_is_not_found_by_any_route() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    for id in ["7", "no-number", "1%2f2"] {
        for route in ["", "/explain", "/history", "/logs", "/wait?timeout_ms=0"] {
            server.get(&format!("/api/v1/tasks/{id}{route}")).await.problem(404, "task_not_found");
        }
        for route in ["cancel", "retry", "run-now"] {
            server.post_empty(&format!("/api/v1/tasks/{id}/{route}")).await.problem(404, "task_not_found");
        }
    }
    server.get("/api/v1/tasks/1?namespace=other").await.problem(404, "task_not_found");
}

#[tokio::test]
async fn a_task_is_cancelled_once_and_a_retry_enqueues_a_new_one() {
    let server = Server::start().await;
    server.enqueue(json!({ "payload": 7 })).await;
    server.post_empty("/api/v1/tasks/1/retry").await.problem(409, "task_not_ended");
    let task = server.post_empty("/api/v1/tasks/1/cancel").await.expect(200);
    assert_eq!((&task["state"], &task["cause"]), (&json!("cancelled"), &json!("cancelled_by_user")));
    server.post_empty("/api/v1/tasks/1/cancel").await.problem(409, "task_ended");
    let again = server.post_empty("/api/v1/tasks/1/retry").await.expect(201);
    assert_eq!(again["id"], "2");
    let again = server.get("/api/v1/tasks/2").await.expect(200);
    assert_eq!((&again["retry_of"], &again["payload"]), (&json!("1"), &json!(7)));
}

#[tokio::test]
async fn a_scheduled_task_can_be_made_due_now() {
    let server = Server::start().await;
    server.enqueue(json!({ "delay_ms": 3_600_000 })).await;
    assert_eq!(server.lease(1).await, json!(null));
    server.post_empty("/api/v1/tasks/1/run-now").await.expect(200);
    assert_eq!(server.lease(2).await["task"]["id"], "1");
    server.post_empty("/api/v1/tasks/1/run-now").await.problem(409, "not_allowed");
}

#[tokio::test]
async fn an_explanation_has_every_reason_with_its_evidence() {
    let server = Server::start().await;
    server.enqueue(json!({ "delay_ms": 3_600_000 })).await;
    server.post_empty("/api/v1/queues/default/pause").await.expect(200);
    let explanation = server.get("/api/v1/tasks/1/explain").await.expect(200);
    let codes: Vec<_> =
        explanation["reasons"].as_array().unwrap().iter().map(|reason| &reason["code"]).collect();
    assert_eq!(codes, ["due_at", "paused", "no_worker"]);
    assert_eq!(explanation["reasons"][1]["queue"], "default");
    let paused = "queue default is paused: resume it with `weaver queues resume default`";
    assert_eq!(explanation["reasons"][1]["message"], paused);
}

#[tokio::test]
async fn the_history_has_the_outcome_of_each_attempt() {
    let server = Server::start().await;
    server.enqueue(json!({ "retry": { "kind": "fixed", "delay_ms": 0 } })).await;
    let lease = server.lease(1).await["lease"].clone();
    let end = json!({ "ends": [{ "lease": lease, "outcome": "failed", "error": "boom" }] });
    let answer = server.post("/api/v1/work/finish", &end).await.expect(200);
    assert_eq!(
        answer["results"][0],
        json!({ "status": "recorded", "state": "retry_scheduled", "due_after_ms": 0 })
    );
    let history = server.get("/api/v1/tasks/1/history").await.expect(200);
    assert_eq!(history["attempts"][0]["outcome"], "failed");
    assert_eq!((&history["attempts"][0]["error"], &history["attempt"]), (&json!("boom"), &json!(1)));
}

#[tokio::test]
async fn a_lease_shows_who_holds_it_but_never_its_token() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    server.lease(0xfeed_beef).await;
    let answer = server.get("/api/v1/tasks/1").await;
    assert_eq!(answer.expect(200)["lease"]["worker"], "w");
    assert!(!answer.body.contains("feedbeef"), "{answer:?}");
}
