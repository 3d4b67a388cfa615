use std::sync::Arc;

use serde_json::{Value, json};
use weaver_core::clock::Clock;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::ApiLimits;
use weaver_server::security::{NamespaceScope, NewToken, Role};

use crate::server::{Server, bearer, merge, request};

fn nightly(expected_version: u64, more: Value) -> Value {
    let mut spec = json!({
        "trigger": { "kind": "time", "schedule": "daily at 02:30", "tz": "Europe/Berlin" },
        "task": { "task_type": "mail", "payload": { "to": "ada" }, "max_attempts": 2 },
    });
    merge(&mut spec, more);
    json!({ "expected_version": expected_version, "spec": spec })
}

fn version(schedule: &Value) -> u64 {
    schedule["version"].as_u64().expect("it has a version")
}

#[tokio::test]
async fn a_schedule_is_added_read_listed_and_removed() {
    let server = Server::start().await;
    let path = "/api/v1/schedules/nightly";
    let added = server.put(path, &nightly(0, json!({}))).await.expect(201);
    assert_eq!(added["name"], "nightly");
    assert!(added["next_run_at"].is_string(), "{added}");
    assert_eq!(added["spec"]["concurrency_policy"], "allow");
    assert_eq!(added["spec"]["misfire"], json!({ "kind": "run_once" }));
    let read = server.get(path).await.expect(200);
    assert_eq!((&read["spec"], version(&read)), (&added["spec"], version(&added)));
    let page = server.get("/api/v1/schedules?prefix=night").await.expect(200);
    assert_eq!(page["items"], json!([read]));
    assert_eq!(server.get("/api/v1/schedules?prefix=x").await.expect(200)["items"], json!([]));
    server.put(path, &nightly(0, json!({}))).await.problem(409, "schedule_exists");
    let delete = request("DELETE", path, server.address, "", "");
    assert_eq!(server.send(&delete).await.status, 204);
    server.get(path).await.problem(404, "schedule_not_found");
}

#[tokio::test]
async fn two_people_who_edit_a_schedule_at_once_do_not_overwrite_each_other() {
    let server = Server::start().await;
    let path = "/api/v1/schedules/nightly";
    let read = version(&server.put(path, &nightly(0, json!({}))).await.expect(201));
    let edited =
        server.put(path, &nightly(read, json!({ "concurrency_policy": "forbid" }))).await.expect(200);
    assert_eq!(edited["spec"]["concurrency_policy"], "forbid");
    server.put(path, &nightly(read, json!({ "enabled": false }))).await.problem(409, "version_conflict");
    assert_eq!(server.get(path).await.expect(200)["spec"], edited["spec"]);
    let stale = format!("{path}/disable?expected_version={read}");
    server.post_empty(&stale).await.problem(409, "version_conflict");
}

#[tokio::test]
async fn an_invalid_schedule_is_refused_with_the_position_and_a_suggestion() {
    let server = Server::start().await;
    let put = async |trigger: Value| {
        let body = nightly(0, json!({ "trigger": trigger }));
        server.put("/api/v1/schedules/s", &body).await
    };
    let cron = |schedule: &str, tz: &str| json!({ "kind": "time", "schedule": schedule, "tz": tz });
    let bad = put(cron("0 25 * * *", "UTC")).await.problem(400, "invalid_schedule");
    assert_eq!(bad["detail"], "schedule hour: 25 is not between 0 and 23, at `25`");
    let bad = put(cron("0 2 * * *", "Berlin")).await.problem(400, "invalid_schedule");
    assert_eq!((&bad["field"], &bad["hint"]), (&json!("tz"), &json!("did you mean `Europe/Berlin`?")));
    let without = json!({ "kind": "time", "schedule": "0 2 * * *" });
    put(without).await.problem(400, "invalid_schedule");
    put(json!({ "kind": "time", "schedule": "every 5m", "zone": "UTC" })).await.problem(400, "invalid_body");
    let body = nightly(0, json!({ "task": { "task_type": "mail", "queue": "a\nb" } }));
    let bad = server.put("/api/v1/schedules/s", &body).await.problem(400, "invalid_field");
    assert_eq!(bad["field"], "task.queue");
    assert_eq!(server.get("/api/v1/schedules").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn upcoming_runs_have_the_local_time_and_what_dst_does_to_them() {
    let server = Server::start().await;
    server.put("/api/v1/schedules/nightly", &nightly(0, json!({}))).await.expect(201);
    let path = "/api/v1/schedules/nightly/upcoming?from=2026-03-28T12:00:00Z&count=2";
    let upcoming = server.get(path).await.expect(200);
    let expected = json!({ "runs": [
        { "at": "2026-03-29T01:00:00.000000Z", "local": "2026-03-29 03:00:00 +02:00",
            "notes": ["02:30 does not exist on 2026-03-29: moved to the end of the gap"] },
        { "at": "2026-03-30T00:30:00.000000Z", "local": "2026-03-30 02:30:00 +02:00", "notes": [] },
    ] });
    assert_eq!(upcoming, expected);
    let preview = json!({ "schedule": "daily at 02:30", "tz": "Europe/Berlin", "from": "2026-03-28T12:00:00Z", "count": 2 });
    assert_eq!(server.post("/api/v1/schedule-preview", &preview).await.expect(200), expected);
    server.get("/api/v1/schedules/nightly/upcoming?count=0").await.problem(400, "invalid_field");
}

#[tokio::test]
async fn a_disabled_schedule_has_no_next_run_and_can_still_be_run_now() {
    let server = Server::start().await;
    let path = "/api/v1/schedules/nightly";
    server.put(path, &nightly(0, json!({ "concurrency_policy": "forbid" }))).await.expect(201);
    let disabled = server.post_empty(&format!("{path}/disable")).await.expect(200);
    assert_eq!((&disabled["spec"]["enabled"], disabled.get("next_run_at")), (&json!(false), None));
    let task = server.post_empty(&format!("{path}/run-now")).await.expect(201);
    let id = task["id"].as_str().expect("an id");
    let task = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!((&task["task_type"], &task["max_attempts"]), (&json!("mail"), &json!(2)));
    assert_eq!(task["labels"]["job_definition"], "nightly");
    let refusal = server.post_empty(&format!("{path}/run-now")).await.problem(409, "still_running");
    assert!(refusal["detail"].as_str().is_some_and(|text| text.contains(id)), "{refusal}");
    let enabled = server.post_empty(&format!("{path}/enable")).await.expect(200);
    assert!(enabled["next_run_at"].is_string(), "{enabled}");
    assert_eq!(enabled["last_tasks"], json!([id]));
}

#[tokio::test]
async fn a_schedule_stores_chosen_options_only_and_its_runs_use_the_current_defaults() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let (server, tokens) = Server::guarding(store, clock, ApiLimits::default()).await;
    let ops = NewToken {
        name: "ops".to_owned(),
        role: Role::Operator,
        namespaces: NamespaceScope::All,
        may_exec: true, // a prompt starts a program
        expires_at: None,
        created_by: "the test".to_owned(),
    };
    let token = tokens.create(ops).await.expect("a token").0;
    let ask = async |method: &str, path: &str, body: &Value| {
        let headers = format!("{}Content-Type: application/json\r\n", bearer(&token));
        server.send(&request(method, path, server.address, &headers, &body.to_string())).await
    };
    let path = "/api/v1/schedules/nightly";
    let of_type = |version: u64, task: Value| {
        let trigger = json!({ "kind": "time", "schedule": "daily at 02:30", "tz": "Europe/Berlin" });
        json!({ "expected_version": version, "spec": { "trigger": trigger, "task": task } })
    };
    let run = async || {
        let made = ask("POST", &format!("{path}/run-now"), &json!({})).await.expect(201);
        let id = made["id"].as_str().expect("an id");
        let task = ask("GET", &format!("/api/v1/tasks/{id}"), &json!(null)).await.expect(200);
        (task["max_attempts"].as_u64(), task["max_losses"].as_u64())
    };
    let prompt = json!({ "task_type": "prompt", "payload": "tidy up" });
    let added = ask("PUT", path, &of_type(0, prompt.clone())).await.expect(201);
    assert_eq!(added["spec"]["task"], prompt, "nothing that was not chosen is stored");
    assert_eq!(run().await, (Some(1), Some(0)));
    // As a user edits it: the schedule that was read, with another type.
    let mut task = added["spec"]["task"].clone();
    merge(&mut task, json!({ "task_type": "http", "payload": { "url": "https://example.org" } }));
    let changed = ask("PUT", path, &of_type(version(&added), task)).await.expect(200);
    assert_eq!(run().await, (Some(5), Some(3)));
    let chosen = json!({ "task_type": "http", "payload": null, "max_attempts": 1, "max_losses": 0 });
    ask("PUT", path, &of_type(version(&changed), chosen)).await.expect(200);
    assert_eq!(run().await, (Some(1), Some(0)), "what was chosen stays chosen");
}

#[tokio::test]
async fn a_token_without_may_exec_cannot_create_a_schedule_that_starts_programs() {
    let (server, token) = Server::guarded("ops", Role::Operator).await;
    let ask = async |method: &str, path: &str, body: &Value| {
        let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        server.send(&request(method, path, server.address, &headers, &body.to_string())).await
    };
    let exec = nightly(0, json!({ "task": { "task_type": "exec", "payload": { "command": "x" } } }));
    ask("PUT", "/api/v1/schedules/s", &exec).await.problem(403, "exec_not_granted");
    let internal = nightly(0, json!({ "task": { "task_type": "weaver.check" } }));
    assert_eq!(ask("PUT", "/api/v1/schedules/s", &internal).await.status, 403);
    let read = version(&ask("PUT", "/api/v1/schedules/s", &nightly(0, json!({}))).await.expect(201));
    let edit = json!({ "expected_version": read, "spec": exec["spec"] });
    ask("PUT", "/api/v1/schedules/s", &edit).await.problem(403, "exec_not_granted");
    let audit = ask("GET", "/api/v1/audit", &json!(null)).await.expect(200);
    let entry = &audit["entries"][0];
    assert_eq!((&entry["action"], &entry["target"]), (&json!("schedule.add"), &json!("schedule/s")));
    assert_eq!(entry["detail"], format!("version {read}: daily at 02:30 in Europe/Berlin, task mail"));
}

#[tokio::test]
async fn a_viewer_changes_no_schedule_no_event_and_no_setting() {
    let (server, token) = Server::guarded("eye", Role::Viewer).await;
    let ask = async |method: &str, path: &str, body: &Value| {
        let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        server.send(&request(method, path, server.address, &headers, &body.to_string())).await
    };
    for path in ["/api/v1/schedules", "/api/v1/event-log", "/api/v1/settings", "/api/v1/notices"] {
        ask("GET", path, &json!(null)).await.expect(200);
    }
    assert_eq!(ask("PUT", "/api/v1/schedules/s", &nightly(0, json!({}))).await.status, 403);
    assert_eq!(ask("DELETE", "/api/v1/schedules/s", &json!(null)).await.status, 403);
    for action in ["enable", "disable", "run-now"] {
        assert_eq!(ask("POST", &format!("/api/v1/schedules/s/{action}"), &json!(null)).await.status, 403);
    }
    assert_eq!(ask("POST", "/api/v1/events", &json!({ "event_type": "e" })).await.status, 403);
    let setting = "/api/v1/settings/scheduler.paused";
    assert_eq!(ask("PUT", setting, &json!({ "value": true })).await.status, 403);
    assert_eq!(ask("DELETE", setting, &json!(null)).await.status, 403);
}

#[tokio::test]
async fn an_event_is_stored_once_per_dedupe_key_and_namespace() {
    let server = Server::start().await;
    let event = json!({ "event_type": "order.paid", "payload": { "order": 17 }, "dedupe_key": "order-17" });
    let first = server.post("/api/v1/events", &event).await.expect(201);
    assert_eq!(first, json!({ "id": "order-17", "existing": false }));
    let second = server.post("/api/v1/events", &event).await.expect(201);
    assert_eq!(second["existing"], true);
    let elsewhere = json!({ "event_type": "order.paid", "dedupe_key": "order-17", "namespace": "other" });
    assert_eq!(server.post("/api/v1/events", &elsewhere).await.expect(201)["existing"], false);
    let stored = server.get("/api/v1/events/order-17").await.expect(200);
    assert_eq!((&stored["event_type"], &stored["payload"]), (&json!("order.paid"), &json!({ "order": 17 })));
    let log = server.get("/api/v1/event-log").await.expect(200);
    assert_eq!(log["items"], json!([stored]));
    server.get("/api/v1/events/nothing").await.problem(404, "event_not_found");
    server.post("/api/v1/events", &json!({ "event_type": "" })).await.problem(400, "invalid_field");
}

#[tokio::test]
async fn a_setting_is_checked_changed_reset_and_audited() {
    let server = Server::start().await;
    let path = "/api/v1/settings/scheduler.poll_interval_ms";
    let set = server.put(path, &json!({ "value": 250 })).await.expect(200);
    assert_eq!((&set["value"], &set["default"]), (&json!(250), &json!(1000)));
    let bad = server.put(path, &json!({ "value": 1 })).await.problem(400, "invalid_field");
    assert_eq!(bad["hint"], "give a whole number between 50 and 60000");
    server
        .put(path, &json!({ "value": 300, "expected_version": 777 }))
        .await
        .problem(409, "version_conflict");
    let unknown = server.put("/api/v1/settings/scheduler.pausd", &json!({ "value": true })).await;
    assert_eq!(unknown.problem(404, "setting_not_found")["hint"], "did you mean `scheduler.paused`?");
    let reset = server.send(&request("DELETE", path, server.address, "", "")).await.expect(200);
    assert_eq!((&reset["value"], &reset["version"]), (&json!(1000), &json!(0)));
    let audit = server.get("/api/v1/audit?namespace=weaver.internal").await.expect(200);
    let details: Vec<&Value> =
        audit["entries"].as_array().into_iter().flatten().map(|entry| &entry["detail"]).collect();
    assert!(details.contains(&&json!("from 1000 to 250")), "{audit}");
    assert!(details.contains(&&json!("from 250 to 1000")), "{audit}");
}
