//! The builder of a worker: defaults, ranges, checks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::error::Invalid;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LEASE_TTL_DEFAULT, LEASE_TTL_MAX, LEASE_TTL_MIN};
use weaver_core::name::{Namespace, QueueName, SharedText, TaskType, WorkerId};

use crate::ctx::{LogLimits, WorkerEnv};
use crate::registry::{MissingShared, Registry};
use crate::source::WorkSource;
use crate::worker::leasing::Leasing;
use crate::worker::stats::Stats;
use crate::worker::table::Table;
use crate::worker::{Options, Shared, Worker};

/// The highest concurrency of one worker.
const CONCURRENCY_MAX: u32 = 100_000;

/// The shortest poll and heartbeat interval: less would only load the store.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// The longest: half of the time after which a silent worker counts as stopped.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Why a worker cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A name of a namespace, queue, type or worker is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// An empty list of queues or namespaces.
    #[error("a worker needs at least one {what}: name one, or keep `default`")]
    Nothing {
        /// The word `queue` or `namespace`.
        what: &'static str,
    },
    /// A worker leases the types that have a handler, and there is none.
    #[error("the worker has no handler: add one to its registry, or name `types`")]
    NoHandlers,
    /// A handler needs a shared value that is not registered.
    #[error("{0}")]
    NotShared(#[from] MissingShared),
    /// A number or duration is out of range.
    #[error("{what} is {value}: it must be between {min} and {max}")]
    OutOfRange {
        /// The setting, as a noun: `the concurrency`.
        what: &'static str,
        /// The value that was refused.
        value: String,
        /// The lowest allowed value.
        min: String,
        /// The highest allowed value.
        max: String,
    },
}

/// Which task types a worker leases.
enum Types {
    /// Those with a handler.
    Registered,
    Listed(Vec<SharedText>),
    Any,
}

impl Types {
    /// The filter of lease requests; `None`: any type.
    fn resolve(self, registry: &Registry) -> Result<Option<Vec<TaskType>>, BuildError> {
        let types: Vec<_> = match self {
            Self::Listed(types) => types.into_iter().map(TaskType::new).collect::<Result<_, _>>()?,
            Self::Registered => registry.types().cloned().collect(),
            Self::Any => return Ok(None),
        };
        if types.is_empty() { Err(BuildError::NoHandlers) } else { Ok(Some(types)) }
    }
}

/// Builds a [`Worker`]. Made by [`Worker::builder`].
#[must_use = "a builder does nothing until it is built"]
pub struct WorkerBuilder {
    source: Arc<dyn WorkSource>,
    clock: Arc<dyn Clock>,
    name: Option<SharedText>,
    namespaces: Vec<SharedText>,
    queues: Vec<SharedText>,
    types: Types,
    registry: Registry,
    concurrency: u32,
    type_limits: Vec<(SharedText, u32)>,
    ttl: Duration,
    grace: Duration,
    stop_grace: Duration,
    log_limits: LogLimits,
    poll_every: Duration,
    heartbeat_every: Duration,
    prefetch: bool,
    project_root: Option<String>,
    tokens: Arc<dyn Fn() -> LeaseToken + Send + Sync>,
}

impl WorkerBuilder {
    pub(super) fn new(source: Arc<dyn WorkSource>, clock: Arc<dyn Clock>) -> Self {
        Self {
            source,
            clock,
            name: None,
            namespaces: vec!["default".into()],
            queues: vec!["default".into()],
            types: Types::Registered,
            registry: Registry::new(),
            concurrency: 16,
            type_limits: Vec::new(),
            ttl: LEASE_TTL_DEFAULT,
            grace: Duration::from_secs(30),
            stop_grace: Duration::from_secs(5),
            log_limits: LogLimits::default(),
            poll_every: Duration::from_secs(10),
            heartbeat_every: Duration::from_secs(10),
            prefetch: true,
            project_root: None,
            tokens: Arc::new(random_token),
        }
    }

    /// The worker's name, unique among live workers. Default: `worker-` and eight random hex digits.
    pub fn name(mut self, name: impl Into<SharedText>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The namespaces it serves; `*`: all, also those created later. Default: `default`.
    pub fn namespaces<T: Into<SharedText>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.namespaces = names.into_iter().map(Into::into).collect();
        self
    }

    /// The queues it serves. Default: `default`.
    pub fn queues<T: Into<SharedText>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.queues = names.into_iter().map(Into::into).collect();
        self
    }

    /// The task types it leases. Default: those that have a handler. Other types are left to other workers,
    /// so that in a rolling deploy an old worker fails nothing that a new one can run.
    pub fn types<T: Into<SharedText>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.types = Types::Listed(names.into_iter().map(Into::into).collect());
        self
    }

    /// Leases tasks of any type, and fails those that have no handler: for a queue where a type without a
    /// handler must be noticed.
    pub fn any_type(mut self) -> Self {
        self.types = Types::Any;
        self
    }

    /// The handlers and the values they share.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// How many handlers run at once, from 1 to 100,000. Default: 16.
    pub fn concurrency(mut self, count: u32) -> Self {
        self.concurrency = count;
        self
    }

    /// The concurrency limit of a task type in this worker, from 1. Default: none.
    pub fn type_limit(mut self, task_type: impl Into<SharedText>, count: u32) -> Self {
        self.type_limits.push((task_type.into(), count));
        self
    }

    /// The TTL of its leases. Default: 30 s. They are renewed every third of it.
    pub fn lease_ttl(mut self, span: Duration) -> Self {
        self.ttl = span;
        self
    }

    /// How long running handlers may take to finish after a shutdown request. Default: 30 s.
    pub fn grace(mut self, span: Duration) -> Self {
        self.grace = span;
        self
    }

    /// How long a handler may take to stop after its stop signal, before it is dropped. Default: 5 s.
    pub fn stop_grace(mut self, span: Duration) -> Self {
        self.stop_grace = span;
        self
    }

    /// How much of each attempt's log is kept. Default: the first 3 MiB and the last 1 MiB.
    pub fn log_limits(mut self, limits: LogLimits) -> Self {
        self.log_limits = limits;
        self
    }

    /// How long it waits for a wake-up before it polls, from 10 ms to 60 s. Default: 10 s. New tasks wake it
    /// at once where the store has wake-ups.
    pub fn poll_every(mut self, span: Duration) -> Self {
        self.poll_every = span;
        self
    }

    /// The heartbeat interval, from 10 ms to 60 s. Default: 10 s.
    pub fn heartbeat_every(mut self, span: Duration) -> Self {
        self.heartbeat_every = span;
        self
    }

    /// Leases no more tasks than it has free slots. Default: a few more while handlers end quickly.
    pub fn no_prefetch(mut self) -> Self {
        self.prefetch = false;
        self
    }

    /// The project directory that is shown with the worker. Default: none.
    pub fn project_root(mut self, path: impl Into<String>) -> Self {
        self.project_root = Some(path.into());
        self
    }

    /// The source of lease tokens. Default: the system's randomness; a simulation passes a deterministic one.
    pub fn tokens(mut self, tokens: Arc<dyn Fn() -> LeaseToken + Send + Sync>) -> Self {
        self.tokens = tokens;
        self
    }

    /// Fails on an invalid name, a value out of range, a missing handler or a missing shared value.
    pub fn build(self) -> Result<Worker, BuildError> {
        self.check_numbers()?;
        let all_namespaces = self.namespaces.iter().any(|name| name.as_str() == "*");
        let listed = self.namespaces.into_iter().filter(|name| name.as_str() != "*");
        let namespaces: Vec<_> = listed.map(Namespace::new).collect::<Result<_, _>>()?;
        let queues: Vec<_> = self.queues.into_iter().map(QueueName::new).collect::<Result<_, _>>()?;
        if namespaces.is_empty() && !all_namespaces {
            return Err(BuildError::Nothing { what: "namespace" });
        }
        if queues.is_empty() {
            return Err(BuildError::Nothing { what: "queue" });
        }
        self.registry.check_shared()?;
        let types = self.types.resolve(&self.registry)?;
        let mut type_limits = Vec::new();
        for (task_type, count) in self.type_limits {
            check("the limit of a task type", count, 1, CONCURRENCY_MAX)?;
            type_limits.push((TaskType::new(task_type)?, count));
        }
        let name = self.name.unwrap_or_else(|| format!("worker-{:08x}", random_token().0 as u32).into());
        let options = Options {
            name: WorkerId::new(name)?,
            all_namespaces,
            queues,
            types,
            concurrency: self.concurrency,
            type_limits,
            ttl: self.ttl,
            grace: self.grace,
            stop_grace: self.stop_grace,
            poll_every: self.poll_every,
            heartbeat_every: self.heartbeat_every,
            prefetch: self.prefetch,
            project_root: self.project_root,
            tokens: self.tokens,
        };
        let stats = Stats::new(self.clock.monotonic());
        let shared = Shared {
            options,
            env: Arc::new(WorkerEnv {
                source: Arc::clone(&self.source),
                clock: Arc::clone(&self.clock),
                values: self.registry.values(),
                log_limits: self.log_limits,
            }),
            source: self.source,
            clock: self.clock,
            registry: self.registry,
            table: Mutex::new(Table::default()),
            fresh: Mutex::default(),
            done: Mutex::default(),
            never_started: Mutex::default(),
            stopped: Notify::new(),
            room: false.into(),
            idle: Notify::new(),
            renew_now: Notify::new(),
            leasing: Leasing::default(),
            stats: Mutex::new(stats),
            paused: false.into(),
            namespaces: Mutex::new(namespaces),
            maintenance: Arc::default(),
        };
        Ok(Worker { shared: Arc::new(shared) })
    }

    fn check_numbers(&self) -> Result<(), BuildError> {
        check("the concurrency", self.concurrency, 1, CONCURRENCY_MAX)?;
        check("the lease TTL", Spelled(self.ttl), Spelled(LEASE_TTL_MIN), Spelled(LEASE_TTL_MAX))?;
        for (what, span) in
            [("the poll interval", self.poll_every), ("the heartbeat interval", self.heartbeat_every)]
        {
            check(what, Spelled(span), Spelled(INTERVAL_MIN), Spelled(INTERVAL_MAX))?;
        }
        Ok(())
    }
}

/// A duration that prints as `30s`.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Spelled(Duration);

impl std::fmt::Display for Spelled {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.0, out)
    }
}

fn check<T: PartialOrd + std::fmt::Display + Copy>(
    what: &'static str,
    value: T,
    min: T,
    max: T,
) -> Result<(), BuildError> {
    if value >= min && value <= max {
        return Ok(());
    }
    let (value, min, max) = (value.to_string(), min.to_string(), max.to_string());
    Err(BuildError::OutOfRange { what, value, min, max })
}

/// 128 bits from the system. Panics without randomness: lease tokens must not be guessable or collide.
fn random_token() -> LeaseToken {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    LeaseToken(u128::from_ne_bytes(bytes))
}
