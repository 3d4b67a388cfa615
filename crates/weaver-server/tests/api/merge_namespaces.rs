//! Merge queues of one namespace, attacked with tokens of another.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use weaver_core::clock::Clock;
use weaver_core::name::Namespace;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_merge::domain::{QueueId, RemoveOptions};
use weaver_merge::engine::{EngineOptions, MergeEngine};
use weaver_merge::forge::git::GitForges;
use weaver_merge::keys::Keyring;
use weaver_merge::notify::Notifications;
use weaver_merge::plan::Policy;
use weaver_runtime::SystemClock;
use weaver_server::api::{ApiLimits, AppState};
use weaver_server::security::{NamespaceScope, NewToken, Role, TokenText, Tokens};

use crate::merge_bench::CONFIG;
use crate::merge_side::working;
use crate::repo::Repo;
use crate::server::{Server, TestResponse, bearer, request};

const QUEUES: &str = "/api/v1/merge/queues";
/// The queue of `team-a`, and one that does not exist.
const HIDDEN: &str = "hidden:main";
const ABSENT: &str = "absent:main";

/// A server with tokens, and a repository whose queue is in the namespace `team-a`.
struct Teams {
    server: Server,
    tokens: Arc<Tokens>,
    repo: Repo,
    admin: TokenText,
    running: JoinSet<()>,
}

fn scope(names: &[&str]) -> NamespaceScope {
    NamespaceScope::Only(
        names.iter().map(|name| Namespace::new((*name).to_owned()).expect("a name")).collect(),
    )
}

impl Teams {
    /// Without the queue.
    async fn empty() -> Self {
        let repo = Repo::new(&[("README", "hello\n"), (".weaver/merge.toml", CONFIG)]);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
        let (server, tokens) = Server::guarding(store, clock, ApiLimits::default()).await;
        let admin = create(&tokens, Role::Admin, NamespaceScope::All).await;
        Self { server, tokens, repo, admin, running: JoinSet::new() }
    }

    /// With the queue, and an entry in it.
    async fn new() -> Self {
        let teams = Self::empty().await;
        teams.add(&teams.admin, json!({ "namespace": "team-a" })).await.expect(201);
        teams.repo.commit("good", Some("main"), &[("a", "1\n")]);
        let admin = teams.admin.clone();
        teams
            .send(&admin, "POST", &format!("{QUEUES}/{HIDDEN}/entries"), &json!({ "change": "good" }))
            .await
            .expect(201);
        teams
    }

    /// With the engine and a worker running.
    fn working(mut self) -> Self {
        self.running = working(&self.server.state, &self.repo);
        self
    }

    async fn token(&self, role: Role, namespaces: &[&str]) -> TokenText {
        create(&self.tokens, role, scope(namespaces)).await
    }

    async fn add(&self, token: &TokenText, more: Value) -> TestResponse {
        let mut new = json!({ "location": self.repo.path(), "name": "hidden" });
        crate::server::merge(&mut new, more);
        self.send(token, "POST", QUEUES, &new).await
    }

    async fn send(&self, token: &TokenText, method: &str, path: &str, body: &Value) -> TestResponse {
        let headers = format!("{}Content-Type: application/json\r\n", bearer(token));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.send(&request(method, path, self.server.address, &headers, &body)).await
    }

    async fn get(&self, token: &TokenText, path: &str) -> TestResponse {
        self.send(token, "GET", path, &Value::Null).await
    }

    /// Waits until the entry has left the queue.
    async fn landed(&self) -> Value {
        let mut published = self.server.state.merge.published();
        loop {
            published.mark_unchanged();
            let entry = self.get(&self.admin, &format!("{QUEUES}/{HIDDEN}/entries/1")).await.expect(200);
            if entry["completed_at"].is_string() {
                assert_eq!(entry["status"], "landed", "{entry}");
                return entry;
            }
            published.changed().await.expect("the engine is there");
        }
    }
}

/// The engine of another node on the same store.
fn other_node(state: &AppState) -> MergeEngine {
    let options = EngineOptions {
        namespace: state.merge.namespace().clone(),
        policy: Policy::default(),
        notifications: Notifications::default(),
        keyring: Keyring::ephemeral(),
    };
    let forges = Arc::new(GitForges::new(Arc::clone(&state.clock)));
    MergeEngine::new(Arc::clone(&state.store), forges, Arc::clone(&state.clock), options)
}

async fn create(tokens: &Tokens, role: Role, namespaces: NamespaceScope) -> TokenText {
    let new = NewToken {
        name: role.to_string(),
        role,
        namespaces,
        may_exec: !matches!(role, Role::Viewer | Role::Worker),
        expires_at: None,
        created_by: "the test".to_owned(),
    };
    tokens.create(new).await.expect("a token").0
}

/// Every route about one queue, from the server's own document: method, path and a valid body.
fn routes() -> Vec<(String, String, Value)> {
    let document = serde_json::to_value(weaver_server::api::document()).expect("JSON");
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let Some(rest) = path.strip_prefix("/api/v1/merge/queues/{queue}") else { continue };
        for (method, operation) in item.as_object().expect("operations") {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let body = match schema.as_str().and_then(|name| name.rsplit('/').next()) {
                None => Value::Null,
                Some("NewMergeEntry") => json!({ "change": "good" }),
                Some("PutMergePriority") => json!({ "priority": 3 }),
                Some("PauseMerge") => json!({ "reason": "attack" }),
                Some("AcceptMerge") => json!({ "commit": "ab".repeat(20) }),
                Some("PutMergeOnForeign") => json!({ "on_foreign": "accept" }),
                Some(other) => panic!("{method} {path} has a body of type {other}: add one here"),
            };
            routes.push((method.to_uppercase(), rest.replace("{entry}", "1"), body));
        }
    }
    assert!(routes.len() >= 17, "{routes:?}");
    routes
}

#[tokio::test]
async fn on_every_route_a_queue_of_another_namespace_is_like_one_that_does_not_exist() {
    let teams = Teams::new().await;
    let before = teams.server.state.merge.queues().await.expect("queues");
    for role in Role::ALL {
        let attacker = teams.token(role, &["team-b", "default"]).await;
        for (method, rest, body) in routes() {
            let ask = async |queue: &str| {
                teams.send(&attacker, &method, &format!("{QUEUES}/{queue}{rest}"), &body).await
            };
            let (hidden, absent) = (ask(HIDDEN).await, ask(ABSENT).await);
            assert_eq!(hidden.status, 404, "{role}: {method} {rest}: {hidden:?}");
            assert_eq!(absent.status, 404, "{role}: {method} {rest}: {absent:?}");
            assert_eq!(hidden.body.replace(HIDDEN, ABSENT), absent.body, "{role}: {method} {rest}");
        }
        assert_eq!(teams.get(&attacker, QUEUES).await.expect(200)["items"], json!([]), "{role}");
    }
    assert_eq!(teams.server.state.merge.queues().await.expect("queues"), before, "nothing changed");
}

#[tokio::test]
async fn on_every_route_the_operator_of_the_namespace_is_answered() {
    let teams = Teams::new().await.working();
    teams.landed().await;
    let operator = teams.token(Role::Operator, &["team-a"]).await;
    let listed = teams.get(&operator, QUEUES).await.expect(200);
    assert_eq!(
        (&listed["items"][0]["id"], &listed["items"][0]["namespace"]),
        (&json!(HIDDEN), &json!("team-a"))
    );
    let (removals, others): (Vec<_>, Vec<_>) =
        routes().into_iter().partition(|(method, _, _)| method == "DELETE");
    for (method, rest, body) in others.into_iter().filter(|(_, rest, _)| rest != "/events").chain(removals) {
        let answer = teams.send(&operator, &method, &format!("{QUEUES}/{HIDDEN}{rest}"), &body).await;
        // The entry has landed, and the commit is none: such refusals are of a queue that is seen.
        assert!(!matches!(answer.status, 401 | 403), "{method} {rest}: {answer:?}");
        assert!(!answer.body.contains("merge_queue_not_found"), "{method} {rest}: {answer:?}");
        assert!(answer.status < 500, "{method} {rest}: {answer:?}");
    }
}

#[tokio::test]
async fn a_producer_enqueues_in_its_own_namespace_only() {
    let teams = Teams::new().await;
    teams.repo.commit("more", Some("main"), &[("b", "1\n")]);
    let entries = format!("{QUEUES}/{HIDDEN}/entries");
    let change = json!({ "change": "more" });
    for (namespace, status) in [("team-b", 404), ("default", 404), ("team-a", 201)] {
        let producer = teams.token(Role::Producer, &[namespace]).await;
        let answer = teams.send(&producer, "POST", &entries, &change).await;
        assert_eq!(answer.status, status, "{namespace}: {answer:?}");
    }
    let viewer = teams.token(Role::Viewer, &["team-a"]).await;
    teams.send(&viewer, "POST", &entries, &change).await.problem(403, "permission_missing");
}

#[tokio::test]
async fn logs_of_checks_are_for_readers_of_the_queue_and_no_others() {
    let teams = Teams::new().await.working();
    let entry = teams.landed().await;
    let task = entry["checks"][0]["runs"][0]["task"].as_str().expect("a task").to_owned();
    assert_eq!(entry["namespace"], "team-a");
    let reader = teams.token(Role::Viewer, &["team-a"]).await;
    let log = format!("/api/v1/tasks/{task}/logs?namespace=team-a");
    let read = teams.get(&reader, &log).await;
    assert!(read.status == 200 && read.body.contains("looking"), "{read:?}");
    let outsider = teams.token(Role::Admin, &["team-b", "default"]).await;
    teams.get(&outsider, &log).await.problem(403, "namespace_not_allowed");
    for namespace in ["team-b", "default"] {
        for path in ["", "/logs"] {
            let path = format!("/api/v1/tasks/{task}{path}?namespace={namespace}");
            teams.get(&outsider, &path).await.problem(404, "task_not_found");
        }
        let tasks = teams.get(&outsider, &format!("/api/v1/tasks?namespace={namespace}")).await;
        assert!(!tasks.body.contains("hidden"), "{tasks:?}");
        let audit = teams.get(&outsider, &format!("/api/v1/audit?namespace={namespace}")).await;
        assert!(audit.status == 200 && !audit.body.contains("hidden"), "{audit:?}");
    }
    let own = teams.token(Role::Operator, &["team-a"]).await;
    let audit = teams.get(&own, "/api/v1/audit?namespace=team-a").await;
    assert!(audit.body.contains("merge/hidden:main"), "{audit:?}");
    teams.get(&outsider, "/metrics").await.problem(403, "scope_too_narrow");
}

#[tokio::test]
async fn a_repository_is_added_to_a_namespace_by_operators_of_it_and_of_the_installation() {
    let teams = Teams::empty().await;
    let new = || json!({ "namespace": "team-a" });
    for scope in [&["team-a"][..], &["default"], &["team-b", "default"]] {
        let operator = teams.token(Role::Operator, scope).await;
        teams.add(&operator, new()).await.problem(403, "namespace_not_allowed");
    }
    let internal = json!({ "namespace": "weaver.internal" });
    teams.add(&teams.admin, internal).await.problem(403, "namespace_not_allowed");
    teams.add(&teams.admin, json!({ "namespace": "a\nb" })).await.problem(400, "invalid_field");
    let operator = teams.token(Role::Operator, &["team-a", "default"]).await;
    let added = teams.add(&operator, new()).await.expect(201);
    assert_eq!(added["namespace"], "team-a");
    // Neither its branch nor its name is given to another namespace; the refusal does not say whose it is.
    let other = teams.token(Role::Operator, &["team-b", "default"]).await;
    for (more, code) in [
        (json!({ "namespace": "team-b", "name": "mine" }), "repository_taken"),
        (json!({ "name": "mine" }), "repository_taken"),
        (json!({ "namespace": "team-b" }), "merge_queue_name_taken"),
        (json!({}), "merge_queue_name_taken"),
    ] {
        let refused = teams.add(&other, more.clone()).await.problem(409, code);
        assert!(!refused.to_string().contains("team-a"), "{more}: {refused}");
    }
}

#[tokio::test]
async fn a_removed_queue_ends_its_streams_and_what_another_namespace_adds_is_not_in_them() {
    let teams = Teams::new().await;
    let reader = teams.token(Role::Viewer, &["team-a"]).await;
    let path = format!("{QUEUES}/{HIDDEN}/events");
    teams.server.state.merge.reconcile_all().await.expect("it is published");
    let headers = format!("{}Last-Event-ID: 0\r\n", bearer(&reader));
    let mut events = teams.server.events(&path, &headers).await;
    assert_eq!(events.data().await.name, "queue_entry_added");
    // Another node does the rest, so that the reader finds all of it at its next poll.
    let id = QueueId(HIDDEN.to_owned());
    let other = other_node(&teams.server.state);
    let options = RemoveOptions { cancel_entries: true, by: None };
    let removed = other.remove_queue(&id, &options).await.expect("it is removed");
    let team_b = Namespace::new("team-b").expect("a name");
    other.add_queue_in(&team_b, removed.repository, "main", |_| true).await.expect("it is added");
    other.enqueue(&id, "good", 5).await.expect("an entry");
    other.reconcile_all().await.expect("it is published");
    let names = [events.data().await.name, events.data().await.name, events.data().await.name];
    assert_eq!(names, ["queue_entry_removed", "queue_removed", "end"]);
    let queue = format!("{QUEUES}/{HIDDEN}");
    teams.get(&reader, &queue).await.problem(404, "merge_queue_not_found");
}
