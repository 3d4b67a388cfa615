//! A server with a real repository, the engine of its merge queues and a worker for their checks.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use weaver_core::clock::Clock;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::{AppState, router};
use weaver_server::security::{Identity, NamespaceScope, Role};

use crate::merge_side::working;
use crate::repo::Repo;
use crate::server::{Server, TestResponse};

pub(crate) const QUEUE: &str = "/api/v1/merge/queues/demo:main";

/// Fails where there is a file `bad`.
pub(crate) const CONFIG: &str =
    "[[check]]\nname = \"unit\"\ncommand = [\"sh\", \"-c\", \"echo looking; test ! -e bad\"]\n";

pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) repo: Repo,
    running: JoinSet<()>,
}

impl Bench {
    /// With the token of an admin with `may_exec`.
    pub(crate) async fn new() -> Self {
        Self::asked_by(Role::Admin, true).await
    }

    /// With a token of this role.
    pub(crate) async fn asked_by(role: Role, may_exec: bool) -> Self {
        Self::with_config(CONFIG, role, may_exec).await
    }

    /// With a check that is this script.
    pub(crate) async fn checking(script: &str) -> Self {
        let config = format!("[[check]]\nname = \"unit\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n");
        Self::with_config(&config, Role::Admin, true).await
    }

    async fn with_config(config: &str, role: Role, may_exec: bool) -> Self {
        let repo = Repo::new(&[("README", "hello\n"), (".weaver/merge.toml", config)]);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
        let state = AppState::new(store.clone(), clock);
        let identity =
            Identity { name: "ada".into(), role, namespaces: NamespaceScope::All, may_exec, token: None };
        let routes = router(state.clone()).layer(from_fn(move |mut request: Request, next: Next| {
            request.extensions_mut().insert(identity.clone());
            next.run(request)
        }));
        let server = Server::serving(store, state, routes).await;
        Self { server, repo, running: JoinSet::new() }
    }

    /// The body that adds the repository.
    pub(crate) fn repository(&self) -> Value {
        json!({ "location": self.repo.path(), "name": "demo" })
    }

    /// With the queue `demo:main`.
    pub(crate) async fn with_queue(self) -> Self {
        self.server.post("/api/v1/merge/queues", &self.repository()).await.expect(201);
        self
    }

    /// With the engine and a worker running.
    pub(crate) fn working(mut self) -> Self {
        self.running = working(&self.server.state, &self.repo);
        self
    }

    /// A branch that adds a file to `main`.
    pub(crate) fn branch(&self, name: &str, files: &[(&str, &str)]) {
        self.repo.commit(name, Some("main"), files);
    }

    pub(crate) async fn enqueue(&self, change: &str) -> TestResponse {
        self.server.post(&format!("{QUEUE}/entries"), &json!({ "change": change })).await
    }

    /// Waits until an entry has landed or was removed; returns it.
    pub(crate) async fn left(&self, entry: u64) -> Value {
        let mut published = self.server.state.merge.published();
        loop {
            published.mark_unchanged();
            let shown = self.server.get(&format!("{QUEUE}/entries/{entry}")).await.expect(200);
            if shown["completed_at"].is_string() {
                return shown;
            }
            published.changed().await.expect("the engine is there");
        }
    }
}
