//! Tokens that expire or are revoked during a long poll or a stream, and what tokens of one namespace see.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::name::Namespace;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::ApiLimits;
use weaver_server::security::{NamespaceScope, NewToken, Role, TokenText, Tokens};

use crate::log::Log;
use crate::server::{Server, bearer, lease_request, merge, token};

struct Scene {
    server: Server,
    tokens: Arc<Tokens>,
    admin: TokenText,
}

async fn scene() -> Scene {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let (server, tokens) = Server::guarding(store, clock, ApiLimits::default()).await;
    let admin = token(&tokens, "admin", Role::Admin, NamespaceScope::All).await;
    Scene { server, tokens, admin }
}

/// On a clock that the test moves, with a token that expires after a minute.
async fn expiring(role: Role) -> (Scene, ManualClock, TokenText) {
    let clock = ManualClock::default();
    let store = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
    let (server, tokens) = Server::guarding(store, Arc::new(clock.clone()), ApiLimits::default()).await;
    let admin = token(&tokens, "admin", Role::Admin, NamespaceScope::All).await;
    let new = NewToken {
        name: "short".to_owned(),
        role,
        namespaces: NamespaceScope::All,
        may_exec: false,
        expires_at: Some(clock.now().saturating_add(Duration::from_secs(60))),
        created_by: "the test".to_owned(),
    };
    let (short, _) = tokens.create(new).await.expect("a token");
    (Scene { server, tokens, admin }, clock, short)
}

fn only(name: &'static str) -> NamespaceScope {
    NamespaceScope::only([Namespace::new(name).expect("a name")])
}

impl Scene {
    async fn enqueue(&self, more: Value) -> Value {
        let mut task = json!({ "task_type": "t" });
        merge(&mut task, more);
        self.server.post_as(&self.admin, "/api/v1/tasks", &task).await.expect(201)["id"].clone()
    }
}

fn waiting_lease() -> Value {
    let mut body = lease_request(1);
    merge(&mut body, json!({ "wait_ms": 30_000 }));
    body
}

#[tokio::test]
async fn a_token_revoked_during_a_long_poll_gets_no_lease() {
    let scene = scene().await;
    let worker = token(&scene.tokens, "w", Role::Worker, NamespaceScope::All).await;
    let body = waiting_lease();
    let revoke = async {
        // The store had no task for it: from now on it waits.
        let asked = "weaver_store_seconds_count{call=\"lease\"} 1";
        while !scene.server.get_as(&scene.admin, "/metrics").await.body.contains(asked) {}
        scene.tokens.revoke(&worker.id()).await.expect("it is there");
        scene.enqueue(json!({})).await
    };
    let (leased, id) = tokio::join!(scene.server.post_as(&worker, "/api/v1/work/lease", &body), revoke);
    leased.problem(401, "token_invalid");
    let id = id.as_str().expect("an id").to_owned();
    let task = scene.server.get_as(&scene.admin, &format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(task["state"], "queued");
}

#[tokio::test]
async fn a_token_revoked_during_a_wait_for_work_is_not_notified() {
    let scene = scene().await;
    let worker = token(&scene.tokens, "w", Role::Worker, NamespaceScope::All).await;
    let wait = json!({ "queues": ["default"], "wait_ms": 30_000 });
    let revoke = async {
        while !scene.tokens.has_seen(&worker.id()) {
            tokio::task::yield_now().await;
        }
        scene.tokens.revoke(&worker.id()).await.expect("it is there");
        scene.enqueue(json!({})).await
    };
    let (waited, _) = tokio::join!(scene.server.post_as(&worker, "/api/v1/work/wait", &wait), revoke);
    waited.problem(401, "token_invalid");
}

#[tokio::test]
async fn a_token_that_expires_during_a_long_poll_is_refused_before_the_poll_ends() {
    for path in ["/api/v1/tasks/1/wait", "/api/v1/tasks/1/logs?wait_ms=30000"] {
        let (scene, clock, short) = expiring(Role::Viewer).await;
        scene.enqueue(json!({})).await;
        clock.advance(Duration::from_secs(50));
        let time_goes_on = async {
            while !scene.tokens.has_seen(&short.id()) {
                tokio::task::yield_now().await;
            }
            loop {
                tokio::task::yield_now().await;
                clock.advance(Duration::from_secs(5));
            }
        };
        let answer = tokio::select! {
            answer = scene.server.get_as(&short, path) => answer,
            () = time_goes_on => unreachable!("it never ends"),
        };
        answer.problem(401, "token_expired");
    }
}

#[tokio::test]
async fn a_stream_of_a_revoked_token_ends_with_the_reason_and_sends_no_more_data() {
    let scene = scene().await;
    let viewer = token(&scene.tokens, "v", Role::Viewer, NamespaceScope::All).await;
    let mut events = scene.server.events("/api/v1/events", &bearer(&viewer)).await;
    assert_eq!(events.next().await.expect("it goes on").comment, "listening");
    scene.enqueue(json!({})).await;
    assert_eq!(events.data().await.name, "change");
    scene.tokens.revoke(&viewer.id()).await.expect("it is there");
    scene.enqueue(json!({})).await;
    let end = events.data().await;
    let data: Value = serde_json::from_str(&end.data).expect("JSON");
    assert_eq!((end.name.as_str(), &data["reason"]), ("end", &json!("token_invalid")));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn the_end_of_every_stream_is_logged_with_its_reason() {
    let log = Log::default();
    let _listening = tracing::subscriber::set_default(log.clone());
    let scene = scene().await;
    let logged = async |reason: &str| {
        while !log.0.lock().contains(&format!("reason={reason}")) {
            tokio::task::yield_now().await;
        }
    };
    let mut left = scene.server.events("/api/v1/events", &bearer(&scene.admin)).await;
    left.next().await.expect("it goes on");
    drop(left);
    logged("the client disconnected").await;
    let viewer = token(&scene.tokens, "v", Role::Viewer, NamespaceScope::All).await;
    let mut revoked = scene.server.events("/api/v1/events", &bearer(&viewer)).await;
    revoked.next().await.expect("it goes on");
    scene.tokens.revoke(&viewer.id()).await.expect("it is there");
    scene.enqueue(json!({})).await;
    logged("token_invalid").await;
    let mut stopped = scene.server.events("/api/v1/events", &bearer(&scene.admin)).await;
    stopped.next().await.expect("it goes on");
    scene.server.stop().await;
    logged("stopping").await;
    let text = log.0.lock().clone();
    assert!(text.contains("event stream ended") && text.contains("caller=v@"), "{text}");
}

#[tokio::test]
async fn a_silent_stream_of_an_expired_token_ends_within_five_seconds() {
    let (scene, clock, short) = expiring(Role::Viewer).await;
    let mut events = scene.server.events("/api/v1/events", &bearer(&short)).await;
    assert_eq!(events.next().await.expect("it goes on").comment, "listening");
    clock.advance(Duration::from_secs(60));
    let end = tokio::select! {
        end = events.data() => end,
        // The stream may not wait yet: the clock advances until it does, by less than a heartbeat at a time.
        () = async { loop { tokio::task::yield_now().await; clock.advance(Duration::from_secs(5)); } } => unreachable!(),
    };
    let data: Value = serde_json::from_str(&end.data).expect("JSON");
    assert_eq!((end.name.as_str(), &data["reason"]), ("end", &json!("token_expired")));
}

#[tokio::test]
async fn a_token_of_one_namespace_sees_no_other_name_in_any_page() {
    let scene = scene().await;
    for namespace in ["aaa-secret", "mine", "zzz-secret"] {
        scene.enqueue(json!({ "namespace": namespace })).await;
    }
    let viewer = token(&scene.tokens, "v", Role::Viewer, only("mine")).await;
    for query in ["?limit=1", "", "?limit=1&cursor=aaa-secret", "?cursor=a"] {
        let answer = scene.server.get_as(&viewer, &format!("/api/v1/namespaces{query}")).await;
        let page = answer.expect(200);
        assert_eq!(page, json!({ "items": [{ "name": "mine" }], "complete": true }), "{query}");
    }
    let all = scene.server.get_as(&scene.admin, "/api/v1/namespaces?limit=1").await.expect(200);
    assert_eq!(all["items"], json!([{ "name": "aaa-secret" }]));
}

#[tokio::test]
async fn a_token_of_several_namespaces_pages_through_them() {
    let scene = scene().await;
    for namespace in ["a", "b", "c", "d"] {
        scene.enqueue(json!({ "namespace": namespace })).await;
    }
    let scope = NamespaceScope::only(["d", "b", "nothing"].map(|name| Namespace::new(name).unwrap()));
    let viewer = token(&scene.tokens, "v", Role::Viewer, scope).await;
    let first = scene.server.get_as(&viewer, "/api/v1/namespaces?limit=1").await.expect(200);
    assert_eq!(first["items"], json!([{ "name": "b" }]));
    let next = first["next"].as_str().expect("there is more");
    let path = format!("/api/v1/namespaces?limit=1&cursor={next}");
    let second = scene.server.get_as(&viewer, &path).await.expect(200);
    assert_eq!(second, json!({ "items": [{ "name": "d" }], "complete": true }));
}

#[tokio::test]
async fn changes_of_other_namespaces_leave_no_trace_in_a_stream() {
    let scene = scene().await;
    let viewer = token(&scene.tokens, "v", Role::Viewer, only("mine")).await;
    let mut events = scene.server.events("/api/v1/events?namespace=mine", &bearer(&viewer)).await;
    let listening = events.next().await.expect("it goes on");
    scene.enqueue(json!({ "namespace": "mine" })).await;
    let first = events.next().await.expect("it goes on");
    for _ in 0..5 {
        scene.enqueue(json!({ "namespace": "other" })).await;
    }
    scene.enqueue(json!({ "namespace": "mine" })).await;
    // The next block is ours: not even an id was sent for the others.
    let second = events.next().await.expect("it goes on");
    assert_eq!((first.name.as_str(), second.name.as_str()), ("change", "change"));
    assert!(second.data.contains("\"namespace\":\"mine\""), "{second:?}");
    for id in [&listening.id, &first.id, &second.id] {
        assert!(id.len() == 72 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    }
    // The same position has another id every time.
    let again = format!("{}Last-Event-ID: {}\r\n", bearer(&viewer), first.id);
    let mut again = scene.server.events("/api/v1/events?namespace=mine", &again).await;
    assert_ne!(again.next().await.expect("it goes on").id, first.id);
    assert_eq!(again.data().await.data, second.data);
}

#[tokio::test]
async fn a_last_event_id_in_plain_numbers_means_resync() {
    let scene = scene().await;
    scene.enqueue(json!({ "namespace": "mine" })).await;
    let viewer = token(&scene.tokens, "v", Role::Viewer, only("mine")).await;
    let incarnation = match scene.server.store.changes(None, 1).await.expect("in memory") {
        weaver_core::event::Changes::Next { next, .. } | weaver_core::event::Changes::Resync { next } => next,
    };
    let plain = weaver_core::event::ChangeCursor { position: 0, ..incarnation };
    let headers = format!("{}Last-Event-ID: {plain}\r\n", bearer(&viewer));
    let mut events = scene.server.events("/api/v1/events?namespace=mine", &headers).await;
    assert_eq!(events.data().await.name, "resync");
}
