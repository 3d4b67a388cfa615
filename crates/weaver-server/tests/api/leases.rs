//! Leases belong to the subject of the token that took them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weaver_client::{Client, RemoteSource};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Renewal, Renewed};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::ports::Store;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::{SystemClock, WorkSource};
use weaver_server::api::ApiLimits;
use weaver_server::security::{NamespaceScope, Role, TokenText, Tokens};

use crate::server::{Directory, Server, lease_request, merge, token};

/// A server with a task that worker `a` leased, and the token of another worker.
struct Scene {
    server: Server,
    tokens: Arc<Tokens>,
    clock: ManualClock,
    admin: TokenText,
    a: TokenText,
    b: TokenText,
    lease: Value,
}

async fn scene() -> Scene {
    let clock = ManualClock::default();
    let store = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
    let (server, tokens) = Server::guarding(store, Arc::new(clock.clone()), ApiLimits::default()).await;
    let admin = token(&tokens, "admin", Role::Admin, NamespaceScope::All).await;
    let a = token(&tokens, "a", Role::Worker, NamespaceScope::All).await;
    let b = token(&tokens, "b", Role::Worker, NamespaceScope::All).await;
    server.post_as(&admin, "/api/v1/tasks", &json!({ "task_type": "t" })).await.expect(201);
    let lease = lease(&server, &a, 1).await;
    Scene { server, tokens, clock, admin, a, b, lease }
}

async fn lease(server: &Server, token: &TokenText, drawn: u128) -> Value {
    let leased = server.post_as(token, "/api/v1/work/lease", &lease_request(drawn)).await.expect(200);
    leased["tasks"][0]["lease"].clone()
}

async fn renew(server: &Server, token: &TokenText, lease: &Value) -> Value {
    let body = json!({ "renewals": [{ "lease": lease }] });
    server.post_as(token, "/api/v1/work/renew", &body).await.expect(200)["results"][0].clone()
}

async fn finish(server: &Server, token: &TokenText, lease: &Value) -> Value {
    let body = json!({ "ends": [{ "lease": lease, "outcome": "succeeded" }] });
    server.post_as(token, "/api/v1/work/finish", &body).await.expect(200)["results"][0]["status"].clone()
}

fn log(lease: &Value) -> Value {
    json!({ "appends": [{ "stream": "task/1/1", "entries": ["x"], "lease": lease }] })
}

async fn audited(scene: &Scene) -> Vec<String> {
    let audit = scene.server.get_as(&scene.admin, "/api/v1/audit").await.expect(200);
    let entries = audit["entries"].as_array().expect("entries").iter();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    entries
        .filter(|entry| entry["action"] == "lease.refused")
        .map(|entry| format!("{} {} {}", text(entry, "actor"), text(entry, "target"), text(entry, "detail")))
        .collect()
}

#[tokio::test]
async fn a_worker_token_cannot_use_another_tokens_lease_and_every_attempt_is_audited() {
    let scene = scene().await;
    let Scene { server, a, b, lease, .. } = &scene;
    assert_eq!(renew(server, b, lease).await, "lost");
    assert_eq!(finish(server, b, lease).await, "lost");
    server.post_as(b, "/api/v1/work/append", &log(lease)).await.problem(403, "lease_not_yours");
    server.post_as(b, "/api/v1/work/confirm-stopped", &json!({ "leases": [lease] })).await.expect(204);
    let audited = audited(&scene).await;
    assert_eq!(audited.len(), 4, "{audited:?}");
    for (entry, verb) in audited.iter().zip(["renew", "finish", "append", "confirm-stopped"]) {
        assert!(entry.starts_with("b@") && entry.contains(&format!("task/1 {verb}: ")), "{entry}");
    }
    assert_eq!(renew(server, a, lease).await, "extended");
    assert_eq!(finish(server, a, lease).await, "recorded");
}

#[tokio::test]
async fn a_cancellation_hold_is_released_only_by_its_subject() {
    let scene = scene().await;
    let Scene { server, a, b, lease, .. } = &scene;
    server.post_as(&scene.admin, "/api/v1/tasks/1/cancel", &json!({})).await.expect(200);
    let confirm = json!({ "leases": [lease] });
    server.post_as(b, "/api/v1/work/confirm-stopped", &confirm).await.expect(204);
    assert_eq!(renew(server, b, lease).await, "lost");
    assert_eq!(renew(server, a, lease).await, "cancelled");
    let task = async || server.get_as(&scene.admin, "/api/v1/tasks/1").await.expect(200);
    assert_ne!(task().await["lease"], Value::Null);
    server.post_as(a, "/api/v1/work/confirm-stopped", &confirm).await.expect(204);
    assert_eq!(task().await["lease"], Value::Null);
}

#[tokio::test]
async fn a_finish_with_a_forged_lease_token_is_never_recorded() {
    let scene = scene().await;
    let Scene { server, a, b, lease, .. } = &scene;
    assert_eq!(finish(server, a, lease).await, "recorded");
    let mut forged = lease.clone();
    merge(&mut forged, json!({ "token": format!("{:032x}", 1) }));
    // The same end was recorded: but only the holder of the lease may learn that.
    for (token, lease) in [(a, &forged), (b, lease), (b, &forged)] {
        assert_eq!(finish(server, token, lease).await, "lost");
        let committed = json!({ "ends": [{ "lease": lease, "outcome": "committed" }] });
        let answer = server.post_as(token, "/api/v1/work/finish", &committed).await.expect(200);
        assert_eq!(answer["results"][0]["status"], "lost");
    }
    assert_eq!(finish(server, a, lease).await, "recorded");
}

#[tokio::test]
async fn a_token_of_the_same_name_can_use_the_leases_of_the_one_it_replaces() {
    let scene = scene().await;
    let Scene { server, tokens, a, lease, .. } = &scene;
    let next = token(tokens, "a", Role::Worker, NamespaceScope::All).await;
    tokens.revoke(&a.id()).await.expect("it is there");
    server.post_as(a, "/api/v1/work/renew", &json!({ "renewals": [] })).await.problem(401, "token_invalid");
    assert_eq!(renew(server, &next, lease).await, "extended");
    assert_eq!(finish(server, &next, lease).await, "recorded");
}

#[tokio::test]
async fn a_lease_survives_a_restart_and_stays_its_subjects() {
    let directory = Directory::new();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let open = async || {
        let store = weaver_embedded::EmbeddedStore::open(directory.path(), Arc::clone(&clock));
        let store: Arc<dyn Store> = Arc::new(store.expect("a store"));
        Server::guarding(store, Arc::clone(&clock), ApiLimits::default()).await
    };
    let (server, tokens) = open().await;
    let a = token(&tokens, "a", Role::Worker, NamespaceScope::All).await;
    let b = token(&tokens, "b", Role::Worker, NamespaceScope::All).await;
    let admin = token(&tokens, "admin", Role::Admin, NamespaceScope::All).await;
    server.post_as(&admin, "/api/v1/tasks", &json!({ "task_type": "t" })).await.expect(201);
    let lease = lease(&server, &a, 1).await;
    drop(tokens);
    server.stop().await;
    let (server, _) = open().await;
    assert_eq!(finish(&server, &b, &lease).await, "lost");
    assert_eq!(renew(&server, &a, &lease).await, "extended");
    assert_eq!(finish(&server, &a, &lease).await, "recorded");
}

#[tokio::test]
async fn a_lease_taken_directly_from_the_store_cannot_be_used_over_http() {
    let scene = scene().await;
    let Scene { server, a, .. } = &scene;
    server.post_as(&scene.admin, "/api/v1/tasks", &json!({ "task_type": "t" })).await.expect(201);
    let worker = WorkerId::new("local").unwrap();
    let drawn = LeaseToken(77);
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, drawn);
    let leased = server.store.lease(request).await.expect("a store in memory").remove(0);
    let lease = serde_json::to_value(weaver_api::Lease::from(&leased.lease)).unwrap();
    for token in [a, &scene.admin] {
        assert_eq!(renew(server, token, &lease).await, "lost");
        assert_eq!(finish(server, token, &lease).await, "lost");
    }
}

#[tokio::test]
async fn a_log_is_written_under_its_attempts_lease_and_for_a_minute_after_the_end() {
    let scene = scene().await;
    let Scene { server, a, lease, clock, .. } = &scene;
    let append = async |body: &Value| server.post_as(a, "/api/v1/work/append", body).await;
    append(&log(lease)).await.expect(204);
    append(&log(&Value::Null)).await.problem(403, "lease_missing");
    let of_another = json!({ "appends": [{ "stream": "task/2/1", "entries": ["x"], "lease": lease }] });
    append(&of_another).await.problem(403, "lease_of_another_attempt");
    let mut trim = log(lease);
    trim["appends"][0]["trim_before_seq"] = json!(1);
    server.post_as(&scene.b, "/api/v1/work/append", &trim).await.problem(403, "lease_not_yours");
    assert_eq!(finish(server, a, lease).await, "recorded");
    clock.advance(Duration::from_secs(60));
    append(&log(lease)).await.expect(204);
    clock.advance(Duration::from_secs(1));
    append(&log(lease)).await.problem(409, "attempt_ended");
    let logs = server.get_as(&scene.admin, "/api/v1/tasks/1/logs").await.expect(200);
    assert_eq!(logs["lines"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_lost_attempt_cannot_write_the_log_of_the_next_one() {
    let scene = scene().await;
    let Scene { server, a, lease: first, .. } = &scene;
    let released = json!({ "ends": [{ "lease": first, "outcome": "released" }] });
    server.post_as(a, "/api/v1/work/finish", &released).await.expect(200);
    let second = lease(server, &scene.b, 2).await;
    let of_second =
        |lease: &Value| json!({ "appends": [{ "stream": "task/1/2", "entries": ["x"], "lease": lease }] });
    let answer = server.post_as(a, "/api/v1/work/append", &of_second(first)).await;
    answer.problem(403, "lease_of_another_attempt");
    server.post_as(&scene.b, "/api/v1/work/append", &of_second(&second)).await.expect(204);
    // The last lines of the first attempt go to its own log.
    server.post_as(a, "/api/v1/work/append", &log(first)).await.expect(204);
}

#[tokio::test]
async fn a_remote_worker_whose_subject_has_no_valid_token_loses_its_lease() {
    let scene = scene().await;
    let Scene { server, tokens, a, .. } = &scene;
    server.post_as(&scene.admin, "/api/v1/tasks", &json!({ "task_type": "t" })).await.expect(201);
    let client = Client::new(&format!("http://{}", server.address)).expect("an address");
    let source = RemoteSource::new(client.with_token(a.expose()).unwrap());
    let worker = WorkerId::new("remote").unwrap();
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(9));
    let leased = source.lease(request).await.expect("it answers").remove(0);
    let renewal = || vec![Renewal::of(leased.lease.clone())];
    assert_eq!(source.renew(renewal()).await, Ok(vec![Renewed::Extended]));
    tokens.revoke(&a.id()).await.expect("it is there");
    assert_eq!(source.renew(renewal()).await, Ok(vec![Renewed::Lost]));
}
