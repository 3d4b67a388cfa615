//! The test harness: a repository, a store, an engine and a worker; checks the invariants after each test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weaver_core::name::Namespace;
use weaver_core::ports::{ReadFrom, Store};
use weaver_merge::check::{CheckHandler, CheckOptions};
use weaver_merge::domain::{EntryId, EntryOutcome, MergeQueue, Oid, OnForeign, QueueId, Reason, Repository};
use weaver_merge::engine::{EngineOptions, EntryDetail, MergeEngine, event_stream};
use weaver_merge::forge::Forges;
use weaver_merge::forge::git::GitForges;
use weaver_merge::keys::Keyring;
use weaver_merge::notify::Notifications;
use weaver_merge::plan::Policy;
use weaver_process::Isolation;
use weaver_runtime::testing::TestQueue;
use weaver_runtime::{Registry, SystemClock};

use crate::proof::{Proof, checks_directory, config, unit};
use crate::repo::Repo;

pub(crate) struct Harness {
    pub(crate) repo: Repo,
    pub(crate) tasks: TestQueue,
    pub(crate) engine: MergeEngine,
    pub(crate) queue: QueueId,
    pub(crate) first: Oid,
}

impl Harness {
    pub(crate) async fn new() -> Self {
        Self::with(|repo| config(&[("unit", &unit(repo))])).await
    }

    /// With `on_push = "retest"` on the base branch.
    pub(crate) async fn retesting() -> Self {
        Self::with(|repo| format!("on_push = \"retest\"\n{}", config(&[("unit", &unit(repo))]))).await
    }

    /// With this configuration on the base branch.
    pub(crate) async fn with(config: impl FnOnce(&Repo) -> String) -> Self {
        let repo = Repo::new(&[("README", "hello\n")]);
        let first = repo.commit("main", None, &[(".weaver/merge.toml", &config(&repo))]);
        let tasks = TestQueue::new();
        let engine = engine(tasks.store(), forges(), &tasks, Policy::default());
        let repository =
            Repository { name: "demo".into(), location: repo.path().to_str().unwrap().to_owned() };
        let queue = engine.add_queue(repository, "main").await.unwrap().id;
        Self { repo, tasks, engine, queue, first }
    }

    pub(crate) fn with_policy(mut self, policy: Policy) -> Self {
        self.engine = engine(self.tasks.store(), forges(), &self.tasks, policy);
        self
    }

    /// Accepts changes of the base outside the queue, as a forge does.
    pub(crate) async fn accept_foreign(&self) {
        self.engine.set_on_foreign(&self.queue, Some(OnForeign::Accept)).await.unwrap();
    }

    /// Pushes a branch that adds files, and enqueues it.
    pub(crate) async fn add(&self, branch: &str, files: &[(&str, &str)]) -> EntryId {
        self.repo.commit(branch, Some(self.first.as_str()), files);
        self.engine.enqueue(&self.queue, branch, 5).await.unwrap().entry
    }

    pub(crate) fn registry(&self) -> Registry {
        self.registry_with(Isolation::none(), forges())
    }

    pub(crate) fn registry_with(&self, isolation: Isolation, forges: Arc<dyn Forges>) -> Registry {
        let options = check_options(checks_directory(&self.repo), isolation);
        let clock = Arc::new(SystemClock::new());
        Registry::new().handler(CheckHandler::new(self.tasks.store(), forges, clock, options))
    }

    /// Reconciles and runs tasks until nothing changes any more; advances the clock where nothing moves.
    pub(crate) async fn settle(&self) {
        self.settle_with(&self.engine).await;
    }

    pub(crate) async fn settle_with(&self, engine: &MergeEngine) {
        let registry = self.registry();
        let (mut still, mut rounds) = (0, 0);
        while still < 3 {
            rounds += 1;
            assert!(rounds < 100, "it does not become idle: {:?}", self.state().await);
            let before = self.state().await;
            let (_, problems) = engine.reconcile_all().await.unwrap();
            assert!(problems.is_empty(), "{problems:?}");
            let ran = self.tasks.drain(&registry).await.len();
            if ran > 0 || self.state().await != before {
                still = 0;
            } else {
                still += 1;
                self.tasks.clock().advance(Duration::from_secs(1000));
            }
        }
    }

    pub(crate) async fn state(&self) -> MergeQueue {
        self.engine.get(&self.queue).await.unwrap().queue
    }

    pub(crate) async fn entry(&self, id: EntryId) -> EntryDetail {
        self.engine.entry(&self.queue, id).await.unwrap()
    }

    pub(crate) async fn reason(&self, id: EntryId) -> Reason {
        match self.entry(id).await.outcome {
            Some(EntryOutcome::Removed(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn has_landed(&self, id: EntryId) -> bool {
        self.entry(id).await.outcome == Some(EntryOutcome::Landed)
    }

    pub(crate) fn files(&self) -> BTreeSet<String> {
        self.repo.git(&["ls-tree", "-r", "--name-only", "main"]).lines().map(str::to_owned).collect()
    }

    /// The events of the queue, deduplicated by key.
    pub(crate) async fn events(&self) -> BTreeMap<String, serde_json::Value> {
        let stream = event_stream(&Namespace::default(), &self.queue);
        let page = self.tasks.store().read_entries(&stream, ReadFrom::Last(1000), 1000).await.unwrap();
        let read = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).unwrap();
        let events = page.entries.iter().map(|entry| read(&entry.body));
        events.map(|event| (event["key"].as_str().unwrap().to_owned(), event)).collect()
    }

    /// Checks the invariants. `outsiders` are commits pushed to the base outside the queue.
    pub(crate) async fn prove(&self, outsiders: &[Oid]) {
        let Self { repo, engine, queue, first, .. } = self;
        Proof { repo, engine, queue, first }.prove(outsiders).await;
    }
}

pub(crate) fn forges() -> Arc<dyn Forges> {
    Arc::new(GitForges::new(Arc::new(SystemClock::new())))
}

/// The key of this process: every engine of a test is one node.
pub(crate) fn keyring() -> Keyring {
    static KEYRING: OnceLock<Keyring> = OnceLock::new();
    KEYRING.get_or_init(Keyring::ephemeral).clone()
}

pub(crate) fn engine(
    store: Arc<dyn Store>,
    forges: Arc<dyn Forges>,
    tasks: &TestQueue,
    policy: Policy,
) -> MergeEngine {
    MergeEngine::new(store, forges, Arc::new(tasks.clock().clone()), options(policy))
}

/// In the default namespace, without notifications, with the key of this process.
pub(crate) fn options(policy: Policy) -> EngineOptions {
    EngineOptions {
        namespace: Namespace::default(),
        policy,
        notifications: Notifications::default(),
        keyring: keyring(),
    }
}

/// For queues of an engine with [`options`].
pub(crate) fn check_options(directory: PathBuf, isolation: Isolation) -> CheckOptions {
    CheckOptions {
        namespace: Namespace::default(),
        directory,
        path: std::env::var_os("PATH").unwrap(),
        grace: Duration::from_millis(200),
        isolation,
        cache: None,
    }
}

/// An engine of another node, with its own key.
pub(crate) fn engine_with(harness: &Harness, keyring: Keyring) -> MergeEngine {
    let options = EngineOptions { keyring, ..options(Policy::default()) };
    MergeEngine::new(harness.tasks.store(), forges(), Arc::new(harness.tasks.clock().clone()), options)
}
