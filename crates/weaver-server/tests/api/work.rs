use serde_json::{Value, json};

use crate::server::{Server, lease_request, merge};

async fn finish(server: &Server, lease: &Value, more: Value) -> Value {
    let mut end = json!({ "lease": lease });
    merge(&mut end, more);
    server.post("/api/v1/work/finish", &json!({ "ends": [end] })).await.expect(200)["results"][0].clone()
}

async fn renew(server: &Server, lease: &Value) -> Value {
    let renewals =
        json!({ "renewals": [{ "lease": lease, "progress": { "fraction": 0.5, "message": "half" } }] });
    server.post("/api/v1/work/renew", &renewals).await.expect(200)["results"][0].clone()
}

#[tokio::test]
async fn a_worker_leases_renews_and_finishes_and_the_server_decides() {
    let server = Server::start().await;
    server.enqueue(json!({ "payload": { "n": 1 } })).await;
    let leased = server.lease(1).await;
    assert_eq!(
        (&leased["task"]["payload"], &leased["task"]["state"]),
        (&json!({ "n": 1 }), &json!("running"))
    );
    assert_eq!(renew(&server, &leased["lease"]).await, "extended");
    assert_eq!(
        server.get("/api/v1/tasks/1").await.expect(200)["progress"],
        json!({ "fraction": 0.5, "message": "half" })
    );
    let done =
        finish(&server, &leased["lease"], json!({ "outcome": "succeeded", "result": { "ok": true } })).await;
    assert_eq!(done, json!({ "status": "recorded", "state": "succeeded" }));
    assert_eq!(server.get("/api/v1/tasks/1").await.expect(200)["result"], json!({ "ok": true }));
}

#[tokio::test]
async fn a_repeated_report_is_recorded_again_and_a_different_one_is_lost() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let lease = server.lease(1).await["lease"].clone();
    for _ in 0..2 {
        let done = finish(&server, &lease, json!({ "outcome": "succeeded" })).await;
        assert_eq!(done, json!({ "status": "recorded", "state": "succeeded" }));
    }
    assert_eq!(
        finish(&server, &lease, json!({ "outcome": "failed", "error": "x" })).await,
        json!({ "status": "lost" })
    );
    assert_eq!(renew(&server, &lease).await, "lost");
}

#[tokio::test]
async fn a_repeated_report_of_a_failure_is_recorded_again_also_after_the_next_attempt_began() {
    let server = Server::start().await;
    server.enqueue(json!({ "retry": { "kind": "fixed", "delay_ms": 0 } })).await;
    let first = server.lease(1).await["lease"].clone();
    let failed = json!({ "outcome": "failed", "error": "x" });
    finish(&server, &first, failed.clone()).await;
    let second = server.lease(2).await["lease"].clone();
    let again = finish(&server, &first, failed).await;
    assert_eq!((&again["status"], &again["state"]), (&json!("recorded"), &json!("retry_scheduled")));
    assert_eq!(finish(&server, &second, json!({ "outcome": "succeeded" })).await["status"], "recorded");
    assert_eq!(server.get("/api/v1/tasks/1").await.expect(200)["failures"], 1);
}

#[tokio::test]
async fn each_outcome_leads_to_the_transition_of_the_state_machine() {
    let server = Server::start().await;
    for (outcome, state, due) in [
        (json!({ "outcome": "failed", "error": "x", "fatal": true }), "dead", None),
        (
            json!({ "outcome": "failed", "error": "x", "retry_after_ms": 60_000 }),
            "retry_scheduled",
            Some(60_000),
        ),
        (json!({ "outcome": "timed_out" }), "dead", None),
        (json!({ "outcome": "snoozed", "retry_after_ms": 90_000 }), "retry_scheduled", Some(90_000)),
        (json!({ "outcome": "cancelled", "error": "no need" }), "cancelled", None),
        (json!({ "outcome": "succeeded", "result_hex": "ff" }), "succeeded", None),
    ] {
        let policy = if state == "dead" { json!({ "retry": { "kind": "none" } }) } else { json!({}) };
        server.enqueue(policy).await;
        let token =
            1 + u128::from(server.store.limits().max_batch as u64) + due.unwrap_or(0) + state.len() as u128;
        let token = token * 31 + outcome.to_string().len() as u128;
        let lease = server.lease(token).await["lease"].clone();
        let done = finish(&server, &lease, outcome.clone()).await;
        assert_eq!((&done["status"], &done["state"]), (&json!("recorded"), &json!(state)), "{outcome}");
        assert_eq!(done["due_after_ms"].as_u64().map(u128::from), due, "{outcome}");
    }
}

/// A remote worker whose handler commits its end in a transaction of its own reports only that; the server
/// reads the task back.
#[tokio::test]
async fn an_end_that_a_handler_committed_itself_is_read_back() {
    let server = Server::start().await;
    let committed = json!({ "outcome": "committed" });
    server.enqueue(json!({ "retry": { "kind": "fixed", "delay_ms": 0 } })).await;
    let first = server.lease(1).await["lease"].clone();
    // It was not committed: the attempt failed, however often that is reported.
    for _ in 0..2 {
        let failed = finish(&server, &first, committed.clone()).await;
        assert_eq!((&failed["status"], &failed["state"]), (&json!("recorded"), &json!("retry_scheduled")));
    }
    let second = server.lease(2).await["lease"].clone();
    // Here it was committed, as far as the server can tell.
    finish(&server, &second, json!({ "outcome": "succeeded" })).await;
    let done = finish(&server, &second, committed.clone()).await;
    assert_eq!(done, json!({ "status": "recorded", "state": "succeeded" }));
    let task = server.get("/api/v1/tasks/1").await.expect(200);
    assert_eq!((&task["failures"], &task["executions"]), (&json!(1), &json!(2)));
    // Under a lost lease the report is lost.
    server.enqueue(json!({})).await;
    let lost = server.lease(3).await["lease"].clone();
    server.post("/api/v1/tasks/2/cancel", &json!({})).await;
    assert_eq!(finish(&server, &lost, committed).await, json!({ "status": "lost" }));
}

#[tokio::test]
async fn a_result_that_is_too_large_is_answered_with_the_limit() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let lease = server.lease(1).await["lease"].clone();
    let done = finish(&server, &lease, json!({ "outcome": "succeeded", "result": "x".repeat(70_000) })).await;
    assert_eq!((&done["status"], &done["max_bytes"]), (&json!("result_too_large"), &json!(65_536)));
    assert_eq!(finish(&server, &lease, json!({ "outcome": "succeeded" })).await["status"], "recorded");
}

#[tokio::test]
async fn a_lease_is_valid_for_its_worker_and_token_only() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    let lease = server.lease(1).await["lease"].clone();
    for forged in
        [json!({ "token": format!("{:032x}", 2) }), json!({ "worker": "thief" }), json!({ "version": 99 })]
    {
        let mut stolen = lease.clone();
        merge(&mut stolen, forged.clone());
        assert_eq!(
            finish(&server, &stolen, json!({ "outcome": "succeeded" })).await["status"],
            "lost",
            "{forged}"
        );
    }
    assert_eq!(server.get("/api/v1/tasks/1").await.expect(200)["state"], "running");
    let mut thief = lease_request(1);
    merge(&mut thief, json!({ "worker": "thief" }));
    server.post("/api/v1/work/lease", &thief).await.problem(409, "token_taken");
}

#[tokio::test]
async fn repeating_a_lease_call_returns_what_it_granted() {
    let server = Server::start().await;
    server.enqueue(json!({})).await;
    server.enqueue(json!({})).await;
    let first = server.lease(1).await;
    assert_eq!(server.lease(1).await["lease"], first["lease"]);
    assert_ne!(server.lease(2).await["lease"]["id"], first["lease"]["id"]);
}

#[tokio::test]
async fn a_renewal_reports_the_cancellation_and_the_hold_lasts_until_the_handler_stopped() {
    let server = Server::start().await;
    server.enqueue(json!({ "serial_key": "k" })).await;
    server.enqueue(json!({ "serial_key": "k" })).await;
    let lease = server.lease(1).await["lease"].clone();
    server.post_empty("/api/v1/tasks/1/cancel").await.expect(200);
    assert_eq!(renew(&server, &lease).await, "cancelled");
    assert_eq!(finish(&server, &lease, json!({ "outcome": "succeeded" })).await["status"], "lost");
    assert_eq!(server.lease(2).await, Value::Null);
    server.post("/api/v1/work/confirm-stopped", &json!({ "leases": [lease] })).await.expect(204);
    assert_eq!(server.lease(3).await["task"]["id"], "2");
}

#[tokio::test]
async fn a_batch_of_ends_answers_in_order() {
    let server = Server::start().await;
    for _ in 0..3 {
        server.enqueue(json!({})).await;
    }
    let mut body = lease_request(1);
    merge(&mut body, json!({ "max": 3 }));
    let leased = server.post("/api/v1/work/lease", &body).await.expect(200);
    let lease = |index: usize| leased["tasks"][index]["lease"].clone();
    let mut lost = lease(1);
    merge(&mut lost, json!({ "version": 77 }));
    let ends = json!({ "ends": [
        { "lease": lease(0), "outcome": "succeeded" },
        { "lease": lost, "outcome": "succeeded" },
        { "lease": lease(2), "outcome": "failed", "error": "x", "fatal": true },
    ] });
    let results = server.post("/api/v1/work/finish", &ends).await.expect(200)["results"].clone();
    assert_eq!(
        (&results[0]["state"], &results[1]["status"], &results[2]["state"]),
        (&json!("succeeded"), &json!("lost"), &json!("dead"))
    );
}
