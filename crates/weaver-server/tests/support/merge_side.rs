//! What processes merge queues: the engine, and a worker for its checks.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use weaver_merge::check::{CHECK_QUEUE, CheckHandler, CheckOptions};
use weaver_merge::forge::git::GitForges;
use weaver_runtime::{LocalSource, Registry, Shutdown, Worker};
use weaver_server::api::AppState;

use crate::repo::Repo;

/// Both, until this is dropped.
pub(crate) fn working(state: &AppState, repo: &Repo) -> JoinSet<()> {
    let engine = state.merge.clone();
    let mut running = JoinSet::new();
    running.spawn(async move { engine.run(std::future::pending()).await });
    let options = CheckOptions {
        namespace: state.merge.namespace().clone(),
        directory: repo.scratch("checks"),
        path: std::env::var_os("PATH").expect("there is a PATH"),
        grace: Duration::from_millis(200),
        isolation: weaver_process::Isolation::none(),
        cache: None,
    };
    let forges = Arc::new(GitForges::new(Arc::clone(&state.clock)));
    let handler = CheckHandler::new(Arc::clone(&state.store), forges, Arc::clone(&state.clock), options);
    let source = Arc::new(LocalSource::new(Arc::clone(&state.store)));
    let worker = Worker::builder(source, Arc::clone(&state.clock))
        .registry(Registry::new().handler(handler))
        .queues([CHECK_QUEUE])
        .namespaces(["default", "team-a"])
        .build()
        .expect("its settings are sound");
    running.spawn(async move {
        let _ = worker.run(Shutdown::new()).await; // Its summary is not needed here.
    });
    running
}
