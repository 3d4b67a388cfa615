//! Building a worker.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::error::Invalid;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LEASE_TTL_DEFAULT, LEASE_TTL_MAX, LEASE_TTL_MIN};
use weaver_core::name::{Namespace, QueueName, SharedText, TaskType, WorkerId};

use crate::ctx::{LogLimits, Surroundings};
use crate::registry::{MissingShared, Registry};
use crate::source::WorkSource;
use crate::worker::stats::Stats;
use crate::worker::table::Table;
use crate::worker::{Options, Shared, Worker};

/// The most handlers one worker may run at once.
const CONCURRENCY_MAX: u32 = 100_000;

/// The shortest time between two polls or heartbeats: less would only keep the store busy.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// The longest: half of what makes a silent worker look stopped.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Why a worker cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A name is not one.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Nothing to serve.
    #[error("a worker needs at least one {what}: name one, or leave it at `default`")]
    Nothing {
        /// A queue or a namespace.
        what: &'static str,
    },
    /// Without handlers it would take nothing: a worker takes the types that have a handler.
    #[error(
        "the worker has no handler, and so no type of task to take: add a handler to its registry, or name `types`"
    )]
    NoHandlers,
    /// A handler needs a value that is not shared.
    #[error("{0}")]
    NotShared(#[from] MissingShared),
    /// A number is out of its range.
    #[error("{what} is {value}: it must be between {min} and {max}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// As given.
        value: String,
        /// At least.
        min: String,
        /// At most.
        max: String,
    },
}

/// Which types a worker takes.
enum Types {
    /// Those with a handler.
    Registered,
    Listed(Vec<SharedText>),
    Any,
}

impl Types {
    /// What to ask a store for; `None`: any.
    fn resolve(self, registry: &Registry) -> Result<Option<Vec<TaskType>>, BuildError> {
        let types: Vec<_> = match self {
            Self::Listed(types) => types.into_iter().map(TaskType::new).collect::<Result<_, _>>()?,
            Self::Registered => registry.types().cloned().collect(),
            Self::Any => return Ok(None),
        };
        if types.is_empty() { Err(BuildError::NoHandlers) } else { Ok(Some(types)) }
    }
}

/// Collects what a worker should be. Made by [`Worker::builder`].
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
    beat_every: Duration,
    ahead: bool,
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
            beat_every: Duration::from_secs(10),
            ahead: true,
            project_root: None,
            tokens: Arc::new(random_token),
        }
    }

    /// Its name, unique among the workers alive. If not given, one is drawn.
    pub fn name(mut self, name: impl Into<SharedText>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The namespaces it serves; `*` follows whatever there is.
    pub fn namespaces<T: Into<SharedText>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.namespaces = names.into_iter().map(Into::into).collect();
        self
    }

    /// The queues it serves.
    pub fn queues<T: Into<SharedText>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.queues = names.into_iter().map(Into::into).collect();
        self
    }

    /// The types it takes. If not given, those that have a handler: the others are left to other workers, so
    /// that in a rolling deploy an old worker fails nothing that a new one can run.
    pub fn types<T: Into<SharedText>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.types = Types::Listed(names.into_iter().map(Into::into).collect());
        self
    }

    /// Takes tasks of any type, and fails those that have no handler: for a queue whose workers must notice a
    /// type without one.
    pub fn any_type(mut self) -> Self {
        self.types = Types::Any;
        self
    }

    /// What it can run.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// How many handlers run at once; 16 if not given.
    pub fn concurrency(mut self, count: u32) -> Self {
        self.concurrency = count;
        self
    }

    /// At most so many of this type at once.
    pub fn type_limit(mut self, task_type: impl Into<SharedText>, count: u32) -> Self {
        self.type_limits.push((task_type.into(), count));
        self
    }

    /// How long its leases last; 30 s if not given. They are renewed at a third.
    pub fn lease_ttl(mut self, span: Duration) -> Self {
        self.ttl = span;
        self
    }

    /// How long handlers may go on after a shutdown was asked for; 30 s if not given.
    pub fn grace(mut self, span: Duration) -> Self {
        self.grace = span;
        self
    }

    /// How long a handler that was told to stop may take to do so before it is dropped; 5 s if not given.
    pub fn stop_grace(mut self, span: Duration) -> Self {
        self.stop_grace = span;
        self
    }

    /// How much of each attempt's log is kept, of its beginning and of its end; 3 MiB and 1 MiB if not given.
    pub fn log_limits(mut self, limits: LogLimits) -> Self {
        self.log_limits = limits;
        self
    }

    /// How long it waits for work before it looks by itself; 10 s if not given. New work wakes it wherever
    /// the store has wake-ups.
    pub fn poll_every(mut self, span: Duration) -> Self {
        self.poll_every = span;
        self
    }

    /// Between two heartbeats, whatever else it does; 10 s if not given.
    pub fn beat_every(mut self, span: Duration) -> Self {
        self.beat_every = span;
        self
    }

    /// Takes only what it can start at once. Without this, a few tasks more are leased while quick handlers
    /// run.
    pub fn nothing_ahead(mut self) -> Self {
        self.ahead = false;
        self
    }

    /// The project its tasks are about, shown beside it.
    pub fn project_root(mut self, path: impl Into<String>) -> Self {
        self.project_root = Some(path.into());
        self
    }

    /// Where lease tokens come from: the system's randomness, unless a simulation wants to repeat itself.
    pub fn tokens(mut self, tokens: Arc<dyn Fn() -> LeaseToken + Send + Sync>) -> Self {
        self.tokens = tokens;
        self
    }

    /// Checks everything.
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
            check("the limit of a type", count, 1, CONCURRENCY_MAX)?;
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
            beat_every: self.beat_every,
            ahead: self.ahead,
            project_root: self.project_root,
            tokens: self.tokens,
        };
        let stats = Stats::new(self.clock.monotonic());
        let shared = Shared {
            options,
            surroundings: Arc::new(Surroundings {
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
            poke: Notify::new(),
            stats: Mutex::new(stats),
            paused: false.into(),
            namespaces: Mutex::new(namespaces),
            maintenance: Arc::default(),
        };
        Ok(Worker { shared: Arc::new(shared) })
    }
    fn check_numbers(&self) -> Result<(), BuildError> {
        check("the concurrency", self.concurrency, 1, CONCURRENCY_MAX)?;
        check("the lease", Spelled(self.ttl), Spelled(LEASE_TTL_MIN), Spelled(LEASE_TTL_MAX))?;
        for (what, span) in [("the poll interval", self.poll_every), ("the heartbeat", self.beat_every)] {
            check(what, Spelled(span), Spelled(INTERVAL_MIN), Spelled(INTERVAL_MAX))?;
        }
        Ok(())
    }
}

/// A duration that prints as people write it.
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

/// 128 bits from the system. Without randomness there are no safe leases: nothing sensible can go on.
fn random_token() -> LeaseToken {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    LeaseToken(u128::from_ne_bytes(bytes))
}
