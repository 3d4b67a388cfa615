use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use serde_json::json;
use weaver_core::error::Result;
use weaver_core::ports::Store;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::{ApiLimits, AppState, router};
use weaver_server::security::{Identity, NamespaceScope, Role};

use weaver_testkit::faults::{CallSite, Fault, FaultyStore};
use weaver_testkit::intercept::{Answer, Call, Intercept, Intercepted};

use crate::server::Server;

#[tokio::test]
async fn every_change_is_in_the_journal_with_actor_action_and_target() {
    let server = Server::start().await;
    server.enqueue(json!({ "delay_ms": 60_000 })).await;
    server
        .post("/api/v1/tasks", &json!({ "tasks": [{ "task_type": "t" }, { "task_type": "t" }] }))
        .await
        .expect(201);
    server.post_empty("/api/v1/tasks/1/run-now").await.expect(200);
    server.post_empty("/api/v1/tasks/1/cancel").await.expect(200);
    server.post_empty("/api/v1/tasks/1/retry").await.expect(201);
    server.post_empty("/api/v1/queues/default/pause").await.expect(200);
    server.post_empty("/api/v1/queues/default/resume").await.expect(200);
    server.put("/api/v1/queues/q", &json!({ "max_running": 3 })).await.expect(200);
    server.post("/api/v1/workers/r/directive", &json!({ "directive": "stop" })).await.expect(204);
    let page = server.get("/api/v1/audit").await.expect(200);
    let entries = page["entries"].as_array().unwrap();
    let actions: Vec<_> = entries
        .iter()
        .map(|entry| [entry["action"].as_str().unwrap(), entry["target"].as_str().unwrap()])
        .collect();
    assert_eq!(
        actions,
        [
            ["task.enqueue", "task/1"],
            ["task.enqueue", "task/2"],
            ["task.run_now", "task/1"],
            ["task.cancel", "task/1"],
            ["task.retry", "task/1"],
            ["queue.pause", "queue/default"],
            ["queue.resume", "queue/default"],
            ["queue.put", "queue/q"],
            ["worker.directive", "worker/r"],
        ]
    );
    assert_eq!(
        (&entries[0]["actor"], &entries[1]["detail"]),
        (&json!("anonymous"), &json!("2 tasks, the last is 3"))
    );
    assert!(entries[0]["at"].is_string());
    let page = server.get("/api/v1/audit?after=7&limit=1").await.expect(200);
    assert_eq!(
        (&page["entries"][0]["action"], &page["more"], &page["next"]),
        (&json!("queue.put"), &json!(true), &json!(8))
    );
}

#[tokio::test]
async fn refused_requests_and_no_ops_are_not_in_the_journal() {
    let server = Server::start().await;
    server
        .post("/api/v1/tasks", &json!({ "task_type": "weaver.x" }))
        .await
        .problem(403, "task_type_internal");
    server.post_empty("/api/v1/tasks/1/cancel").await.problem(404, "task_not_found");
    assert_eq!(server.get("/api/v1/audit").await.expect(200)["entries"], json!([]));
}

#[tokio::test]
async fn an_identity_is_named_and_limited_to_its_role_and_namespaces() {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let state = AppState::new(store.clone(), clock);
    let producer = Identity {
        name: "ci".into(),
        role: Role::Producer,
        namespaces: NamespaceScope::only([weaver_core::name::Namespace::new("n").unwrap()]),
        may_exec: false,
        token: None,
    };
    let identified = from_fn(move |mut request: Request, next: Next| {
        request.extensions_mut().insert(producer.clone());
        next.run(request)
    });
    let server = Server::serving(store.clone(), state.clone(), router(state).layer(identified)).await;
    server.enqueue(json!({ "namespace": "n" })).await;
    server.post("/api/v1/tasks", &json!({ "task_type": "t" })).await.problem(403, "namespace_not_allowed");
    server
        .post("/api/v1/tasks", &json!({ "namespace": "n", "task_type": "exec" }))
        .await
        .problem(403, "exec_not_granted");
    server.post_empty("/api/v1/tasks/1/cancel?namespace=n").await.problem(403, "permission_missing");
    server
        .post("/api/v1/work/lease", &crate::server::lease_request(1))
        .await
        .problem(403, "namespace_not_allowed");
    server.get("/api/v1/audit?namespace=n").await.problem(403, "permission_missing");
    server.get("/metrics").await.problem(403, "scope_too_narrow");
    assert_eq!(server.get("/api/v1/namespaces").await.expect(200)["items"], json!([{ "name": "n" }]));
    let audit = weaver_core::ports::StreamKey::new(weaver_core::name::Namespace::new("n").unwrap(), "audit");
    let read = weaver_core::ports::Journal::read_entries(
        &*store,
        &audit,
        weaver_core::ports::ReadFrom::Last(10),
        10,
    );
    let entries = read.await.unwrap().entries;
    assert!(String::from_utf8_lossy(&entries[0].body).contains(r#""who":"ci""#), "{entries:?}");
}

/// A store that cannot write an audit entry with its tasks, as DynamoDB (ADR 0022).
struct AuditsApart;

#[async_trait::async_trait]
impl Intercept for AuditsApart {
    async fn around(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        call.send(store.as_ref()).await
    }

    fn audits_in_the_transaction(&self, _: &Arc<dyn Store>) -> bool {
        false
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(InMemoryQueue::new(Arc::new(SystemClock::new())))
}

async fn serving(store: Arc<dyn Store>) -> Server {
    Server::over(store, Arc::new(SystemClock::new()), ApiLimits::default()).await
}

#[tokio::test]
async fn after_a_shutdown_all_actions_are_in_the_journal_in_order() {
    for store in [memory(), Arc::new(Intercepted::of(memory(), AuditsApart))] {
        let server = serving(store.clone()).await;
        let mut expected = Vec::new();
        for _ in 0..20 {
            expected.push(format!("task/{}", server.enqueue(json!({})).await));
        }
        server.post_empty("/api/v1/tasks/1/cancel").await.expect(200);
        expected.push("task/1".to_owned());
        server.stop().await;
        let server = serving(store).await;
        let page = server.get("/api/v1/audit").await.expect(200);
        let target = |entry: &serde_json::Value| entry["target"].as_str().expect("text").to_owned();
        assert_eq!(
            page["entries"].as_array().expect("a list").iter().map(target).collect::<Vec<_>>(),
            expected
        );
    }
}

#[tokio::test]
async fn entries_of_enqueues_read_the_same_whether_they_were_written_with_the_tasks_or_after_them() {
    let mut pages = Vec::new();
    for store in [memory(), Arc::new(Intercepted::of(memory(), AuditsApart)) as Arc<dyn Store>] {
        let server = serving(store).await;
        server.enqueue(json!({})).await;
        let batch = json!({ "tasks": [{ "task_type": "t" }, { "task_type": "t" }] });
        server.post("/api/v1/tasks", &batch).await.expect(201);
        let mut page = server.get("/api/v1/audit").await.expect(200);
        for entry in page["entries"].as_array_mut().expect("a list") {
            entry["at"] = json!(null);
        }
        pages.push(page);
    }
    assert_eq!(pages[0], pages[1]);
    assert_eq!(pages[0]["entries"][1]["detail"], "2 tasks, the last is 3");
}

#[tokio::test]
async fn an_enqueue_is_in_the_journal_although_no_entry_can_be_appended_after_it() {
    let plan = |site: &CallSite| match site.method {
        "append_entries" => Fault::FailBefore,
        _ => Fault::None,
    };
    let server = serving(Arc::new(FaultyStore::new(memory(), Arc::new(SystemClock::new()), plan))).await;
    let id = server.enqueue(json!({})).await;
    let page = server.get("/api/v1/audit").await.expect(200);
    assert_eq!(page["entries"][0]["target"], format!("task/{id}"));
}
