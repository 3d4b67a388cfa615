//! What every handler shares, and how much one request may ask for.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weaver_core::clock::Clock;
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::limits::{PAGE_MAX, check_page};
use weaver_core::name::Namespace;
use weaver_core::ports::Store;
use weaver_merge::engine::{EngineOptions, MergeEngine};
use weaver_merge::forge::git::GitForges;
use weaver_merge::notify::Notifications;
use weaver_merge::plan::Policy;
use weaver_scheduler::{Options, Scheduler};

use super::audit::Audit;
use super::clock_watch::ClockWatch;
use super::metrics::{Figures, Metrics};
use crate::security::Tokens;

/// How much one request or connection may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiLimits {
    /// The largest body, in bytes.
    pub body_max_bytes: usize,
    /// The most members of one batch (the store may allow fewer).
    pub batch_max: usize,
    /// Items of a page that asks for no number.
    pub page_default: u32,
    /// The longest a request may wait for something to happen.
    pub wait_max: Duration,
    /// The longest a request may take, from its headers to its answer. More than `wait_max`.
    pub request_timeout: Duration,
    /// The longest a client may take to send a request's headers, or to stay silent between two requests.
    pub header_timeout: Duration,
    /// The most bytes of headers.
    pub header_max_bytes: usize,
    /// The most headers.
    pub headers_max: usize,
    /// How long a client may leave what was sent to it unread before it is disconnected.
    pub write_timeout: Duration,
    /// The most connections at once; more wait to be accepted.
    pub connections_max: usize,
    /// How often a stream of events with nothing to tell says that it is alive.
    pub heartbeat: Duration,
    /// How long requests may go on after a shutdown began.
    pub shutdown_grace: Duration,
    /// How long entries of the audit journal are kept.
    pub audit_kept: Duration,
}

impl Default for ApiLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            body_max_bytes: 16 * 1024 * 1024,
            batch_max: 10_000,
            page_default: 50,
            wait_max: seconds(30),
            request_timeout: seconds(60),
            header_timeout: seconds(30),
            header_max_bytes: 64 * 1024,
            headers_max: 100,
            write_timeout: seconds(30),
            connections_max: 1024,
            heartbeat: seconds(15),
            shutdown_grace: seconds(10),
            audit_kept: seconds(90 * 24 * 3600),
        }
    }
}

/// What every handler shares. Cheap to clone: the layers of a router do so several times for every request.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

/// What an [`AppState`] holds.
#[derive(Clone)]
pub struct Shared {
    /// Where everything is.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// How much one request may ask for.
    pub limits: ApiLimits,
    /// Ends waits and streams when the server stops.
    pub closing: CancellationToken,
    /// Schedules, events and settings. Whoever serves also [runs](Scheduler::run) it, or they fire elsewhere.
    pub scheduler: Scheduler,
    /// Merge queues. Whoever serves also [runs](MergeEngine::run) it, or they move elsewhere.
    pub merge: MergeEngine,
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) figures: Option<Figures>,
    pub(crate) clock_watch: Arc<ClockWatch>,
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl AppState {
    /// Over a store, with default limits.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(store, clock, ApiLimits::default())
    }

    /// Over a store.
    pub fn with_limits(store: Arc<dyn Store>, clock: Arc<dyn Clock>, limits: ApiLimits) -> Self {
        let audit = Arc::new(Audit::new(Arc::clone(&store), Arc::clone(&clock), limits.audit_kept));
        Self(Arc::new(Shared {
            scheduler: Scheduler::new(Arc::clone(&store), Arc::clone(&clock), Options { node: node() }),
            merge: merge_engine(&store, &clock),
            store,
            clock,
            limits,
            closing: CancellationToken::new(),
            tokens: None,
            audit,
            metrics: Arc::new(Metrics::default()),
            figures: None,
            clock_watch: Arc::default(),
        }))
    }

    /// Watches the clock that the store goes by, for ever: run it beside the server.
    pub async fn watch_clock(self) {
        self.clock_watch.run(&*self.store, &*self.clock).await;
    }

    /// With tokens that its routes manage: those that the guard in front asks for.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<Tokens>) -> Self {
        Arc::make_mut(&mut self.0).tokens = Some(tokens);
        self
    }

    /// With merge queues of another namespace or by other rules.
    #[must_use]
    pub fn with_merge(mut self, merge: MergeEngine) -> Self {
        Arc::make_mut(&mut self.0).merge = merge;
        self
    }

    /// With figures of the store's own in `/metrics`.
    #[must_use]
    pub fn with_figures(mut self, figures: Figures) -> Self {
        Arc::make_mut(&mut self.0).figures = Some(figures);
        self
    }

    /// Calls the store, and notes how long it took.
    pub(crate) async fn timed<T>(&self, call: &'static str, future: impl Future<Output = T>) -> T {
        let started = self.clock.monotonic();
        let answer = future.await;
        let took = self.clock.monotonic().0.saturating_sub(started.0);
        self.metrics.store_answered(call, took);
        answer
    }

    /// How long a request that asks for this may wait.
    pub(crate) fn wait(&self, ms: u64) -> Duration {
        Duration::from_millis(ms).min(self.limits.wait_max)
    }

    /// The page a request asks for.
    pub(crate) fn page(&self, limit: Option<u32>) -> Result<u32, Invalid> {
        let limit = limit.unwrap_or(self.limits.page_default.clamp(1, PAGE_MAX));
        check_page(limit)?;
        Ok(limit)
    }

    /// Refuses batches that are too large.
    pub(crate) fn check_batch(&self, field: &'static str, members: usize) -> Result<(), Invalid> {
        let max = self.limits.batch_max;
        if members <= max {
            return Ok(());
        }
        Err(Invalid::new(field, FieldProblem::OutOfRange { value: members as u64, min: 0, max: max as u64 }))
    }
}

/// Merge queues on plain git, by the rules that hold if nobody says anything.
fn merge_engine(store: &Arc<dyn Store>, clock: &Arc<dyn Clock>) -> MergeEngine {
    let options = EngineOptions {
        namespace: Namespace::default(),
        policy: Policy::default(),
        notifications: Notifications::default(),
    };
    let forges = Arc::new(GitForges::new(Arc::clone(clock)));
    MergeEngine::new(Arc::clone(store), forges, Arc::clone(clock), options)
}

/// A name for this life of this server: ids of events are made of it.
fn node() -> String {
    let mut bytes = [0; 8];
    // Without randomness nothing here is safe: tokens need it too.
    getrandom::fill(&mut bytes).expect("the system has randomness");
    format!("{:016x}", u64::from_ne_bytes(bytes))
}

impl std::fmt::Debug for AppState {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("AppState").field("limits", &self.limits).finish_non_exhaustive()
    }
}
