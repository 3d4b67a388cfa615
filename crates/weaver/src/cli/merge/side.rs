//! The merge engine and the worker for its checks, shared by `weaver serve` and `weaver merge run`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weaver::core::clock::Clock;
use weaver::core::name::Namespace;
use weaver::core::ports::Store;
use weaver::runtime::{BuildError, Registry, Shutdown, Worker};
use weaver_merge::check::{CHECK_QUEUE, CheckHandler, CheckOptions};
use weaver_merge::engine::{EngineOptions, MergeEngine};
use weaver_merge::forge::git::GitForges;
use weaver_merge::keys::Keyring;
use weaver_merge::plan::Policy;

use super::notify;
use crate::cli::local::LocalWorkers;
use crate::cli::{confinement, worker};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::wiring::StoreUrl;

/// Time between SIGTERM and SIGKILL for a check's command.
const KILL_GRACE: Duration = Duration::from_secs(10);
/// Slots for notification tasks, which are in the same queue: checks must not starve them.
const MESSAGES: u32 = 2;
/// With a store in a directory, the key is beside that directory.
const KEY_SUFFIX: &str = ".merge-key";
/// With any other store.
const KEY_FILE: &str = "./weaver-node/merge.key";

pub(crate) fn engine(
    store: &Arc<dyn Store>,
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<MergeEngine, Failure> {
    let name = config.text(keys::MERGE_NAMESPACE);
    let namespace = Namespace::new(name.to_owned()).map_err(|invalid| {
        let message = format!("{}: merge.namespace: {invalid}", config.origin(keys::MERGE_NAMESPACE));
        Failure::new(Exit::Usage, message).next("use a valid namespace, such as `default`")
    })?;
    let policy = Policy {
        reconcile_every_s: config.span(keys::MERGE_RECONCILE_EVERY).as_secs().max(1),
        check_timeout_s: config.span(keys::MERGE_CHECK_TIMEOUT).as_secs().max(1),
        max_active_queues: config.count(keys::MERGE_MAX_ACTIVE_QUEUES) as usize,
        reconcile_concurrency: config.count(keys::MERGE_RECONCILE_CONCURRENCY) as usize,
        check_budget: config.count(keys::MERGE_CHECK_BUDGET) as usize,
        ..Policy::default()
    };
    let (notifications, keyring) = (notify::notifications(config)?, keyring(config));
    let options = EngineOptions { namespace, policy, notifications, keyring };
    let forges = Arc::new(forges(config, clock));
    Ok(MergeEngine::new(Arc::clone(store), forges, Arc::clone(clock), options))
}

/// Repositories on this machine, with the hooks of `merge.hooks_path`.
pub(crate) fn forges(config: &Config, clock: &Arc<dyn Clock>) -> GitForges {
    let hooks = config.path(keys::MERGE_HOOKS_PATH).map(Path::to_owned);
    GitForges::new(Arc::clone(clock)).with_hooks(hooks)
}

/// This node's signing key, and the trusted keys of other nodes.
pub(crate) fn keyring(config: &Config) -> Keyring {
    let trusted = config.path(keys::MERGE_TRUSTED_KEYS).map(Path::to_owned);
    Keyring::at(key_file(config), trusted)
}

/// The path of this node's key: never in a store, which is backed up, exported and shared.
pub(crate) fn key_file(config: &Config) -> PathBuf {
    if let Some(path) = config.path(keys::MERGE_KEY_FILE) {
        return path.to_owned();
    }
    let store = StoreUrl::parse(config.text(keys::STORE)).ok();
    match store.as_ref().and_then(|store| store.place()) {
        Some(directory) => {
            let mut name = directory.components().collect::<PathBuf>().into_os_string();
            name.push(KEY_SUFFIX);
            name.into()
        }
        None => PathBuf::from(KEY_FILE),
    }
}

/// An engine, and the workers for its checks: one for each namespace, from its first merge queue on. So tasks
/// that a namespace has in the queue of the checks do not hold up the checks of another one.
pub(crate) struct Side {
    engine: MergeEngine,
    workers: LocalWorkers,
    registry: Registry,
    /// How long running checks may take after a shutdown request.
    grace: Duration,
    clock: Arc<dyn Clock>,
    /// Interval of re-verifying a part of the history.
    verify_every: Duration,
}

impl Side {
    /// `None` if `merge.enabled` is off.
    pub(crate) fn if_enabled(
        engine: &MergeEngine,
        store: &Arc<dyn Store>,
        workers: &LocalWorkers,
        config: &Config,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Self>, Failure> {
        let is_enabled = config.text(keys::MERGE_ENABLED) == "true";
        is_enabled.then(|| Self::new(engine.clone(), store, workers, config, clock)).transpose()
    }

    pub(crate) fn new(
        engine: MergeEngine,
        store: &Arc<dyn Store>,
        workers: &LocalWorkers,
        config: &Config,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, Failure> {
        let options = CheckOptions {
            namespace: engine.namespace().clone(),
            // Shared by all processes: leftovers of a killed one are removed by the next.
            directory: std::env::temp_dir(),
            path: std::env::var_os("PATH").unwrap_or_default(),
            grace: KILL_GRACE,
            isolation: confinement::isolation(config)?.with_rules(config.confine.0.check.clone()),
            cache: config.confine.0.cache.clone(),
        };
        let forges = Arc::new(forges(config, clock));
        let handler = CheckHandler::new(Arc::clone(store), forges, Arc::clone(clock), options);
        let registry = worker::with_built_in(Registry::new().handler(handler), config, clock)?;
        let grace = config.span(keys::WORKER_GRACE);
        let verify_every = config.span(keys::MERGE_VERIFY_EVERY);
        let workers = workers.clone();
        let side = Self { engine, workers, registry, grace, clock: Arc::clone(clock), verify_every };
        // What cannot be built is refused at the start; the namespace makes no difference.
        side.worker(side.engine.namespace())
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        Ok(side)
    }

    fn worker(&self, namespace: &Namespace) -> Result<Worker, BuildError> {
        let budget = u32::try_from(self.engine.policy().check_budget).unwrap_or(u32::MAX);
        self.workers
            .builder(&self.clock)
            .registry(self.registry.clone())
            .queues([CHECK_QUEUE])
            .namespaces([namespace.to_string()])
            .concurrency(budget.saturating_add(MESSAGES))
            .grace(self.grace)
            .build()
    }

    /// Runs until `closing`; the workers then drain as `shutdown` allows.
    pub(crate) async fn run(self, closing: &CancellationToken, shutdown: &Shutdown) {
        let engine = &self.engine;
        let history = Box::pin(engine.watch_history(self.verify_every, closing.cancelled()));
        let checks = Box::pin(self.run_checks(closing, shutdown));
        tokio::join!(engine.run(closing.cancelled()), history, checks);
    }

    /// Starts a worker for each namespace that has a merge queue, created here or by another node. It stays
    /// until the end: tasks of a queue that was removed may be left.
    async fn run_checks(&self, closing: &CancellationToken, shutdown: &Shutdown) {
        let mut changes = self.engine.changes();
        let every = Duration::from_secs(self.engine.policy().reconcile_every_s);
        // Tasks of their own: a slow listing of queues must not delay their renewals.
        let (mut workers, mut served) = (JoinSet::new(), HashSet::new());
        while !closing.is_cancelled() {
            changes.mark_unchanged();
            // Errors are retried; the engine logs them.
            for queue in self.engine.queues().await.unwrap_or_default() {
                let namespace = self.engine.namespace_of(&queue);
                if !served.contains(namespace)
                    && let Ok(worker) = self.worker(namespace)
                {
                    served.insert(namespace.clone());
                    workers.spawn(worker.run(shutdown.clone()));
                }
            }
            let next = self.clock.monotonic().saturating_add(every);
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                _ = changes.changed() => {}
                () = self.clock.sleep_until(next) => {}
            }
        }
        while workers.join_next().await.is_some() {}
    }
}
