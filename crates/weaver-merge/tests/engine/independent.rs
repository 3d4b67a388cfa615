//! Several queues in one process: what one repository does is nothing to the others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::{JoinSet, spawn_blocking};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_merge::check::{CHECK_QUEUE, CheckHandler};
use weaver_merge::domain::{EntryId, EntryOutcome, QueueId, Repository};
use weaver_merge::engine::MergeEngine;
use weaver_merge::forge::{Forge, Forges};
use weaver_merge::plan::Policy;
use weaver_process::Isolation;
use weaver_runtime::{LocalSource, Registry, Shutdown, SystemClock, Worker};

use crate::harness::{check_options, forges, options};
use crate::hooked::{Hook, HookedForges};
use crate::proof::config;
use crate::repo::{Repo, write_script};

/// Queues of several repositories on one store, with the default policy but for its concurrency.
struct Site {
    store: Arc<InMemoryQueue>,
    clock: Arc<SystemClock>,
    engine: MergeEngine,
    repos: Vec<(QueueId, Repo)>,
}

impl Site {
    /// Repositories with a branch `change` each.
    async fn new(count: usize) -> Self {
        let clock = Arc::new(SystemClock::new());
        let store = Arc::new(InMemoryQueue::new(clock.clone()));
        let engine = MergeEngine::new(store.clone(), forges(), clock.clone(), options(Policy::default()));
        let mut repos = Vec::new();
        for number in 0..count {
            let repo =
                Repo::new(&[("README", "hello\n"), (".weaver/merge.toml", &config(&[("unit", "true")]))]);
            repo.commit("change", Some("main"), &[("a", "1\n")]);
            let location = repo.path().to_str().unwrap().to_owned();
            let repository = Repository { name: format!("r{number}"), location };
            repos.push((engine.add_queue(repository, "main").await.unwrap().id, repo));
        }
        Self { store, clock, engine, repos }
    }

    fn with_forges(mut self, forges: Arc<dyn Forges>, policy: Policy) -> Self {
        self.engine = MergeEngine::new(self.store.clone(), forges, self.clock.clone(), options(policy));
        self
    }

    /// The engine and a worker, until this is dropped.
    fn working(&self) -> JoinSet<()> {
        let mut running = JoinSet::new();
        let engine = self.engine.clone();
        running.spawn(async move { engine.run(std::future::pending()).await });
        let options = check_options(self.repos[0].1.scratch("checks"), Isolation::none());
        let handler = CheckHandler::new(self.store.clone(), forges(), self.clock.clone(), options);
        let worker = Worker::builder(Arc::new(LocalSource::new(self.store.clone())), self.clock.clone())
            .registry(Registry::new().handler(handler))
            .queues([CHECK_QUEUE])
            .build()
            .unwrap();
        running.spawn(async move {
            let _ = worker.run(Shutdown::new()).await;
        });
        running
    }

    async fn enqueue(&self, number: usize) -> EntryId {
        self.engine.enqueue(&self.repos[number].0, "change", 5).await.unwrap().entry
    }

    /// Waits until the only entry of a repository has landed.
    async fn landed(&self, number: usize) {
        let mut published = self.engine.published();
        loop {
            published.mark_unchanged();
            let entry = self.engine.entry(&self.repos[number].0, EntryId(1)).await.unwrap();
            match entry.outcome {
                Some(outcome) => return assert_eq!(outcome, EntryOutcome::Landed),
                None => published.changed().await.unwrap(),
            }
        }
    }

    async fn has_left(&self, number: usize) -> bool {
        self.engine.entry(&self.repos[number].0, EntryId(1)).await.unwrap().outcome.is_some()
    }
}

/// A hook of a repository that says when it is entered, and waits until it is released.
struct Gate {
    entered: PathBuf,
    release: PathBuf,
}

impl Gate {
    fn new(repo: &Repo) -> Self {
        let directory = repo.scratch("gate");
        let gate = Self { entered: directory.join("entered"), release: directory.join("release") };
        let (entered, release) = (gate.entered.display(), gate.release.display());
        let made = std::process::Command::new("mkfifo").args([&gate.entered, &gate.release]).status();
        assert!(made.unwrap().success());
        write_script(repo, "pre-receive", &format!("echo in > {entered}; read -r word < {release}"));
        gate
    }

    async fn entered(&self) {
        let fifo = self.entered.clone();
        spawn_blocking(move || std::fs::read_to_string(fifo).unwrap()).await.unwrap();
    }

    async fn release(&self) {
        let fifo = self.release.clone();
        spawn_blocking(move || std::fs::write(fifo, "go\n").unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_change_lands_while_git_blocks_in_another_repository() {
    let site = Site::new(2).await;
    let gate = Gate::new(&site.repos[0].1);
    let _working = site.working();
    site.enqueue(0).await;
    gate.entered().await;
    // Enqueue and landing: neither waits for the first repository.
    site.enqueue(1).await;
    site.landed(1).await;
    assert!(!site.has_left(0).await, "its git still blocks");
    gate.release().await;
    site.landed(0).await;
}

#[tokio::test]
async fn a_change_is_enqueued_even_while_git_blocks_in_as_many_repositories_as_may_be_reconciled() {
    let site = Site::new(2).await;
    let gate = Gate::new(&site.repos[0].1);
    let site = site.with_forges(forges(), Policy { reconcile_concurrency: 1, ..Policy::default() });
    let _working = site.working();
    site.enqueue(0).await;
    gate.entered().await;
    // It would wait here until the test is ended: nothing releases the first repository before it is answered.
    site.enqueue(1).await;
    let (queue, _) = &site.repos[1];
    assert_eq!(site.engine.get(queue).await.unwrap().queue.entries.len(), 1, "it waits for its turn");
    assert!(!site.has_left(0).await, "the other git still blocks");
    gate.release().await;
    site.landed(0).await;
    site.landed(1).await;
}

/// Panics when the first repository is opened.
struct PanickingForges(Arc<dyn Forges>);

impl Forges for PanickingForges {
    fn open(&self, repository: &Repository) -> Arc<dyn Forge> {
        assert_ne!(repository.name, "r0", "on purpose");
        self.0.open(repository)
    }
}

#[tokio::test]
async fn a_queue_whose_reconciliation_panics_does_not_stop_the_others() {
    let site = Site::new(2).await;
    for number in [0, 1] {
        site.enqueue(number).await;
    }
    let panicking: Arc<dyn Forges> = Arc::new(PanickingForges(forges()));
    let site = site.with_forges(panicking, Policy::default());
    let (_, problems) = site.engine.reconcile_all().await.unwrap();
    let problem = problems[0].1.to_string();
    assert!(problem.contains("`r0:main` failed") && problems.len() == 1, "{problems:?}");
    let working = site.working();
    site.landed(1).await;
    assert!(!site.has_left(0).await);
    drop(working);
    // The queue itself is unharmed.
    let site = site.with_forges(forges(), Policy::default());
    let _working = site.working();
    site.landed(0).await;
}

#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Hook for Gauge {
    fn before(&self, _effect: &'static str) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn after(&self, _effect: &'static str) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One gauge for all repositories, one for the first.
struct GaugedForges {
    all: Arc<dyn Forges>,
    first: HookedForges,
}

impl Forges for GaugedForges {
    fn open(&self, repository: &Repository) -> Arc<dyn Forge> {
        if repository.name == "r0" { self.first.open(repository) } else { self.all.open(repository) }
    }
}

#[tokio::test]
async fn at_most_the_limit_of_queues_reconcile_at_once_and_each_only_once() {
    let site = Site::new(5).await;
    for number in 0..5 {
        site.enqueue(number).await;
    }
    let (total, own) = (Arc::new(Gauge::default()), Arc::new(Gauge::default()));
    let all: Arc<dyn Forges> = Arc::new(HookedForges { forges: forges(), hook: total.clone() });
    let first = HookedForges { forges: Arc::clone(&all), hook: own.clone() };
    let policy = Policy { reconcile_concurrency: 2, ..Policy::default() };
    let site = site.with_forges(Arc::new(GaugedForges { all, first }), policy);
    let _working = site.working();
    for number in 0..5 {
        // Wake-ups of a queue that is being reconciled.
        site.engine.set_queue_priority(&site.repos[0].0, number).await.unwrap();
    }
    for number in 0..5 {
        site.landed(number).await;
    }
    assert_eq!(total.most.load(Ordering::SeqCst), 2, "two of them, and not more, ran git at once");
    assert_eq!(own.most.load(Ordering::SeqCst), 1, "a queue has one reconciler");
}
