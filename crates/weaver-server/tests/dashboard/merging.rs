//! A repository, the engine of its merge queue, and a worker for its checks.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use weaver_merge::check::{CHECK_QUEUE, CheckHandler, CheckOptions};
use weaver_merge::domain::{QueueId, Repository};
use weaver_merge::forge::git::GitForges;
use weaver_runtime::{LocalSource, Registry, Shutdown, Worker};

use crate::repo::Repo;
use crate::site::Site;

/// Prints what it is told to, and fails where there is a file `bad`.
pub(crate) fn repository(says: &str) -> Repo {
    let config = format!(
        "[[check]]\nname = \"unit\"\ncommand = [\"sh\", \"-c\", '''echo '{says}'; test ! -e bad''']\n"
    );
    Repo::new(&[("README", "hello\n"), (".weaver/merge.toml", &config)])
}

pub(crate) async fn add_queue(site: &Site, repo: &Repo, name: &str) -> QueueId {
    let location = repo.path().to_str().expect("a path").to_owned();
    let repository = Repository { name: name.to_owned(), location };
    site.state.merge.add_queue(repository, "main").await.expect("a queue").id
}

/// The engine, and a worker for its checks.
pub(crate) fn working(site: &Site, repo: &Repo) -> JoinSet<()> {
    let (engine, state) = (site.state.merge.clone(), &site.state);
    let mut running = JoinSet::new();
    running.spawn(async move { engine.run(std::future::pending()).await });
    let options = CheckOptions {
        directory: repo.scratch("checks"),
        path: std::env::var_os("PATH").expect("there is a PATH"),
        grace: Duration::from_millis(200),
        guard: None,
    };
    let forges = Arc::new(GitForges::new(Arc::clone(&state.clock)));
    let handler = CheckHandler::new(Arc::clone(&state.store), forges, Arc::clone(&state.clock), options);
    let source = Arc::new(LocalSource::new(Arc::clone(&state.store)));
    let worker = Worker::builder(source, Arc::clone(&state.clock))
        .registry(Registry::new().handler(handler))
        .only_registered()
        .queues([CHECK_QUEUE])
        .build()
        .expect("its settings are sound");
    running.spawn(async move {
        let _ = worker.run(Shutdown::new()).await; // Its summary is nobody's here.
    });
    running
}
