//! Unreadable records: the list, the problem, and removing them.

use std::sync::Arc;

use serde_json::{Value, json};
use weaver_core::clock::Clock;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::name::{Namespace, QueueName, SerialKey};
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::time::Timestamp;
use weaver_runtime::SystemClock;
use weaver_server::api::ApiLimits;
use weaver_server::security::{NamespaceScope, Role, TokenText, Tokens};
use weaver_testkit::faults::{FaultyStore, Script};

use crate::server::{Server, TestResponse, bearer, request, token};

fn store() -> (Arc<FaultyStore>, Arc<dyn Clock>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let memory = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    (Arc::new(FaultyStore::new(memory, Arc::clone(&clock), Script::new())), clock)
}

async fn server() -> (Server, Arc<FaultyStore>) {
    let (store, clock) = store();
    (Server::over(store.clone(), clock, ApiLimits::default()).await, store)
}

async fn guarded() -> (Server, Arc<FaultyStore>, Arc<Tokens>) {
    let (store, clock) = store();
    let (server, tokens) = Server::guarding(store.clone(), clock, ApiLimits::default()).await;
    (server, store, tokens)
}

fn finding(kind: RecordKind, namespace: &str, id: &str) -> Quarantined {
    let why = Unreadable::Undecodable { reason: "labels: expected a map".to_owned() };
    let namespace = Namespace::try_from(namespace).expect("a name");
    Quarantined::new(kind, namespace, id, why, Timestamp::from_micros(1_700_000_000_000_000))
}

fn key(namespace: &str, id: u64) -> TaskKey {
    TaskKey::new(Namespace::try_from(namespace).expect("a name"), TaskId(id))
}

async fn remove(server: &Server, path: &str, headers: &str) -> TestResponse {
    server.send(&request("DELETE", path, server.address, headers, "")).await
}

fn if_match(raw: &Value) -> String {
    format!("If-Match: \"{}\"\r\n", raw["digest"].as_str().expect("a digest"))
}

fn only(namespace: &str) -> NamespaceScope {
    NamespaceScope::only([Namespace::try_from(namespace).expect("a name")])
}

#[tokio::test]
async fn unreadable_records_are_listed_with_their_reason_and_what_they_hold() {
    let (server, store) = server().await;
    store.cannot_read(Quarantined {
        queue: Some(QueueName::new("mail").expect("a name")),
        state: Some("RUNNING".to_owned()),
        serial_key: Some(SerialKey::new("customer-7").expect("a key")),
        holds_slot: true,
        ..finding(RecordKind::Task, "default", "7")
    });
    let newer = Unreadable::UnknownFormat { found: 9, known: 1 };
    store
        .cannot_read(Quarantined { reason: newer, ..finding(RecordKind::Document, "default", "schedule/a") });
    let page = server.get("/api/v1/quarantine").await.expect(200);
    assert_eq!(page["items"].as_array().expect("items").len(), 2, "{page}");
    let (task, document) = (&page["items"][0], &page["items"][1]);
    let expected = json!({
        "kind": "task", "namespace": "default", "id": "7", "cause": "undecodable",
        "reason": "it cannot be decoded: labels: expected a map", "queue": "mail", "state": "RUNNING",
        "holds": { "serial_key": "customer-7", "slot": true }, "found_at": "2023-11-14T22:13:20.000000Z",
    });
    assert_eq!(*task, expected);
    assert_eq!((&document["kind"], &document["id"]), (&json!("document"), &json!("schedule/a")));
    assert_eq!((&document["found_format"], &document["known_format"]), (&json!(9), &json!(1)));
    assert_eq!(document["holds"], json!({ "slot": false }));
}

#[tokio::test]
async fn the_list_is_paged_and_limited_to_its_namespace() {
    let (server, store) = server().await;
    (0..5).for_each(|id| store.cannot_read(finding(RecordKind::Task, "a", &id.to_string())));
    store.cannot_read(finding(RecordKind::Task, "b", "1"));
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/quarantine?namespace=a&limit=2{cursor}")).await.expect(200);
        seen.extend(page["items"].as_array().expect("items").iter().map(|each| each["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        let bytes: String = next.bytes().map(|byte| format!("%{byte:02x}")).collect();
        cursor = format!("&cursor={bytes}");
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    server.get("/api/v1/quarantine?cursor=x").await.problem(404, "unknown_cursor");
    assert_eq!(server.get("/api/v1/quarantine").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn a_token_of_one_namespace_sees_only_its_own_unreadable_records() {
    let (server, store, tokens) = guarded().await;
    store.cannot_read(finding(RecordKind::Task, "a", "1"));
    store.cannot_read(finding(RecordKind::Task, "b", "2"));
    store.cannot_read(finding(RecordKind::Document, Namespace::internal().as_str(), "token/3"));
    let viewer = token(&tokens, "v", Role::Viewer, only("a")).await;
    let page = server.get_as(&viewer, "/api/v1/quarantine?namespace=a").await.expect(200);
    assert_eq!((page["items"].as_array().map(Vec::len), &page["items"][0]["id"]), (Some(1), &json!("1")));
    server.get_as(&viewer, "/api/v1/quarantine?namespace=b").await.problem(403, "namespace_not_allowed");
    let internal = format!("/api/v1/quarantine?namespace={}", Namespace::internal());
    server.get_as(&viewer, &internal).await.problem(403, "scope_too_narrow");
    let wide = token(&tokens, "w", Role::Viewer, NamespaceScope::All).await;
    assert_eq!(server.get_as(&wide, &internal).await.expect(200)["items"][0]["id"], "token/3");
}

#[tokio::test]
async fn every_route_of_an_unreadable_task_says_so_with_a_hint() {
    let (server, store) = server().await;
    let id = server.enqueue(json!({})).await;
    let other = server.enqueue(json!({})).await;
    store.cannot_read(finding(RecordKind::Task, "default", &id));
    for route in ["", "/explain", "/history", "/logs", "/wait?timeout_ms=0"] {
        let problem = server.get(&format!("/api/v1/tasks/{id}{route}")).await.problem(409, "task_unreadable");
        let (detail, hint) = (problem["detail"].to_string(), problem["hint"].to_string());
        assert!(detail.contains("labels: expected a map"), "{detail}");
        assert!(hint.contains(&format!("weaver tasks purge {id} --yes")), "{hint}");
    }
    for route in ["cancel", "retry", "run-now"] {
        server.post_empty(&format!("/api/v1/tasks/{id}/{route}")).await.problem(409, "task_unreadable");
    }
    let tasks = server.get("/api/v1/tasks").await.expect(200);
    assert_eq!((tasks["items"].as_array().map(Vec::len), &tasks["items"][0]["id"]), (Some(1), &json!(other)));
}

#[tokio::test]
async fn the_hint_for_a_task_of_a_newer_format_is_not_to_remove_it() {
    let (server, store) = server().await;
    let why = Unreadable::UnknownFormat { found: 9, known: 1 };
    store.cannot_read(Quarantined { reason: why, ..finding(RecordKind::Task, "default", "5") });
    let problem = server.get("/api/v1/tasks/5").await.problem(409, "task_unreadable");
    let hint = problem["hint"].as_str().expect("text");
    assert!(hint.contains("upgrade this node") && !hint.contains("purge"), "{hint}");
}

#[tokio::test]
async fn a_task_is_removed_only_if_it_is_unchanged_since_it_was_read() {
    let (server, store) = server().await;
    let id = server.enqueue(json!({})).await;
    let key = key("default", id.parse().expect("a number"));
    store.stores_as(&key, r#"{"labels": 7}"#);
    store.cannot_read(Quarantined {
        state: Some("QUEUED".to_owned()),
        ..finding(RecordKind::Task, "default", &id)
    });
    let path = format!("/api/v1/tasks/{id}");
    let answer = server.get(&format!("{path}/raw")).await;
    let raw = answer.expect(200);
    assert_eq!((&raw["text"], &raw["state"]), (&json!(r#"{"labels": 7}"#), &json!("QUEUED")));
    assert_eq!((&raw["finished"], raw["unreadable"].is_string()), (&json!(false), true));
    let tag = format!("etag: \"{}\"", raw["digest"].as_str().expect("text"));
    assert!(
        answer.headers.contains(&tag) && answer.headers.contains("cache-control: no-store"),
        "{answer:?}"
    );

    remove(&server, &path, "").await.problem(428, "digest_required");
    remove(&server, &path, "If-Match: *\r\n").await.problem(428, "digest_required");
    remove(&server, &path, "If-Match: \"0123\"\r\n").await.problem(412, "task_changed");
    let weak = format!("If-Match: W/\"{}\"\r\n", raw["digest"].as_str().expect("text"));
    remove(&server, &path, &weak).await.problem(412, "task_changed");
    store.stores_as(&key, r#"{"labels": 8}"#);
    remove(&server, &path, &if_match(&raw)).await.problem(412, "task_changed");
    server.get(&path).await.problem(409, "task_unreadable");

    let raw = server.get(&format!("{path}/raw")).await.expect(200);
    assert_eq!(remove(&server, &path, &if_match(&raw)).await.status, 204);
    server.get(&path).await.problem(404, "task_not_found");
    remove(&server, &path, &if_match(&raw)).await.problem(404, "task_not_found");
    assert_eq!(server.get("/api/v1/quarantine").await.expect(200)["items"], json!([]));
    let entries = server.get("/api/v1/audit").await.expect(200)["entries"].clone();
    let purge = entries.as_array().expect("entries").last().expect("one").clone();
    assert_eq!((&purge["action"], &purge["target"]), (&json!("task.purge"), &json!(format!("task/{id}"))));
    let detail = purge["detail"].as_str().expect("text");
    assert!(detail.starts_with("unreadable, state QUEUED, sha256 "), "{detail}");
}

#[tokio::test]
async fn the_stored_form_of_a_readable_task_says_whether_it_has_ended() {
    let (server, store) = server().await;
    let id = server.enqueue(json!({})).await;
    store.stores_as(&key("default", id.parse().expect("a number")), "{}");
    let raw = server.get(&format!("/api/v1/tasks/{id}/raw")).await.expect(200);
    assert_eq!((&raw["state"], &raw["finished"]), (&json!("queued"), &json!(false)));
    assert!(raw.get("unreadable").is_none(), "{raw}");
    server.post_empty(&format!("/api/v1/tasks/{id}/cancel")).await.expect(200);
    let raw = server.get(&format!("/api/v1/tasks/{id}/raw")).await.expect(200);
    assert_eq!((&raw["state"], &raw["finished"]), (&json!("cancelled"), &json!(true)));
}

#[tokio::test]
async fn stored_forms_are_read_and_removed_by_admins_only() {
    let (server, store, tokens) = guarded().await;
    store.stores_as(&key("a", 1), "{}");
    store.cannot_read(finding(RecordKind::Task, "a", "1"));
    let path = "/api/v1/tasks/1?namespace=a";
    let delete = |token: &TokenText| request("DELETE", path, server.address, &bearer(token), "");
    for role in [Role::Viewer, Role::Producer, Role::Worker, Role::Operator] {
        let other = token(&tokens, role.as_str(), role, only("a")).await;
        let refused = server.get_as(&other, "/api/v1/tasks/1/raw?namespace=a").await;
        refused.problem(403, "permission_missing");
        server.send(&delete(&other)).await.problem(403, "permission_missing");
    }
    let elsewhere = token(&tokens, "b", Role::Admin, only("b")).await;
    server.send(&delete(&elsewhere)).await.problem(403, "namespace_not_allowed");
    let admin = token(&tokens, "admin", Role::Admin, only("a")).await;
    let raw = server.get_as(&admin, "/api/v1/tasks/1/raw?namespace=a").await.expect(200);
    let headers = bearer(&admin) + &if_match(&raw);
    assert_eq!(remove(&server, path, &headers).await.status, 204);
}

#[tokio::test]
async fn metrics_count_unreadable_records_by_kind() {
    let (server, store) = server().await;
    let lines = |body: &str| -> Vec<String> {
        body.lines().filter(|line| line.starts_with("weaver_quarantined")).map(str::to_owned).collect()
    };
    let none = lines(&server.get("/metrics").await.body);
    assert_eq!(none.len(), 4, "{none:?}");
    assert!(none.iter().all(|line| line.ends_with("} 0")), "{none:?}");
    store.cannot_read(finding(RecordKind::Task, "a", "1"));
    store.cannot_read(finding(RecordKind::Task, "b", "1"));
    store.cannot_read(finding(RecordKind::QueueSettings, "b", "mail"));
    let some = lines(&server.get("/metrics").await.body);
    assert_eq!(some[0], r#"weaver_quarantined_records{kind="task"} 2"#);
    assert_eq!(some[1], r#"weaver_quarantined_records{kind="queue_settings"} 1"#);
}
