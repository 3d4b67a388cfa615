//! The state that handlers share, and the limits of requests and connections.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weaver_core::clock::Clock;
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::limits::{PAGE_MAX, check_page};
use weaver_core::name::Namespace;
use weaver_core::network::Network;
use weaver_core::ports::Store;
use weaver_merge::engine::{EngineOptions, MergeEngine};
use weaver_merge::forge::git::GitForges;
use weaver_merge::keys::Keyring;
use weaver_merge::notify::Notifications;
use weaver_merge::plan::Policy;
use weaver_runtime::MaintenanceWatch;
use weaver_scheduler::{Options, Scheduler};

use super::audit::{Audit, Denials};
use super::bodies::Bodies;
use super::clock_watch::ClockWatch;
use super::health::Readiness;
use super::metrics::{Metrics, StoreMetrics};
use super::queue_quota::QueueQuota;
use crate::security::{ServerKey, Tokens};
use crate::serve::{Admission, ConnectionLimits};

/// Limits of requests and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiLimits {
    /// The largest request body. Default: 16 MiB.
    pub body_max_bytes: usize,
    /// Memory for request bodies being read, over all requests. Default: 256 MiB.
    pub body_budget_bytes: usize,
    /// The part of the budget that one token may use. Default: 64 MiB.
    pub body_share_bytes: usize,
    /// The longest pause between two parts of a body. Default: 10 s.
    pub body_timeout: Duration,
    /// The most members of one batch (the store may allow fewer). Default: 10,000.
    pub batch_max: usize,
    /// Page size when a request gives no `limit`. Default: 50.
    pub page_default: u32,
    /// The longest a long-polling request may wait. Default: 30 s.
    pub wait_max: Duration,
    /// The longest a request may take, from its headers to its response; longer than `wait_max`. Default:
    /// 60 s.
    pub request_timeout: Duration,
    /// The longest a client may take to send headers, or keep a connection idle. Default: 30 s.
    pub header_timeout: Duration,
    /// The most bytes of headers. Default: 64 KiB.
    pub header_max_bytes: usize,
    /// The most headers of a request. Default: 100.
    pub headers_max: usize,
    /// How long a client may leave a response unread before it is disconnected. Default: 30 s.
    pub write_timeout: Duration,
    /// The most connections at once, over TCP. Default: 16,384.
    pub connections_max: usize,
    /// Of `connections_max`, those reserved for callers without a token yet (health checks, logins, new
    /// connections); over all addresses, including those that wait for a place. Default: 1024.
    pub connections_reserved: usize,
    /// The most connections of one address before it sends a token; more wait unread. Default: 64.
    pub anonymous_per_address: usize,
    /// How long a connection without a token may be idle, or wait for a place. Default: 5 s.
    pub anonymous_timeout: Duration,
    /// The most connections of one token; a long poll or an event stream holds one. Default: 10,000.
    pub connections_per_token: usize,
    /// The most queues of a namespace that requests can create. Default: 1000.
    pub queues_per_namespace: usize,
    /// Interval of keep-alive comments on an idle event stream. Default: 15 s.
    pub heartbeat: Duration,
    /// How long requests may continue after a shutdown began. Default: 10 s.
    pub shutdown_grace: Duration,
    /// How long audit entries are kept. Default: 90 days.
    pub audit_retention: Duration,
}

impl Default for ApiLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            body_max_bytes: 16 * 1024 * 1024,
            body_budget_bytes: 256 * 1024 * 1024,
            body_share_bytes: 64 * 1024 * 1024,
            body_timeout: seconds(10),
            batch_max: 10_000,
            page_default: 50,
            wait_max: seconds(30),
            request_timeout: seconds(60),
            header_timeout: seconds(30),
            header_max_bytes: 64 * 1024,
            headers_max: 100,
            write_timeout: seconds(30),
            connections_max: 16_384,
            connections_reserved: 1024,
            anonymous_per_address: 64,
            anonymous_timeout: seconds(5),
            connections_per_token: 10_000,
            queues_per_namespace: 1000,
            heartbeat: seconds(15),
            shutdown_grace: seconds(10),
            audit_retention: seconds(90 * 24 * 3600),
        }
    }
}

/// The state that handlers share. Cheap to clone: a router's layers do so several times per request.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

/// The fields of an [`AppState`], which dereferences to it.
#[derive(Clone)]
pub struct Shared {
    /// The store behind the API.
    pub store: Arc<dyn Store>,
    /// Deadlines and timestamps of the server; records are stamped by the store.
    pub clock: Arc<dyn Clock>,
    /// Limits of requests and connections.
    pub limits: ApiLimits,
    /// Cancelled on shutdown: long polls and streams end.
    pub closing: CancellationToken,
    /// Schedules, events and settings. Schedules fire only where a process also [runs](Scheduler::run) it.
    pub scheduler: Scheduler,
    /// Merge queues. They progress only where a process also [runs](MergeEngine::run) it.
    pub merge: MergeEngine,
    /// The base URL for browsers, without a trailing slash.
    pub(crate) address: Option<Arc<str>>,
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) key: Arc<ServerKey>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) proxies: Arc<[Network]>,
    pub(crate) queue_quota: Arc<QueueQuota>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) denials: Arc<Denials>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store_metrics: Option<StoreMetrics>,
    pub(crate) clock_watch: Arc<ClockWatch>,
    pub(crate) maintenance: Option<Arc<MaintenanceWatch>>,
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl AppState {
    /// Serves a store with [`ApiLimits::default`].
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(store, clock, ApiLimits::default())
    }

    /// Serves a store; tokens, maintenance and proxies are added by the methods below.
    pub fn with_limits(store: Arc<dyn Store>, clock: Arc<dyn Clock>, limits: ApiLimits) -> Self {
        let audit = Arc::new(Audit::new(Arc::clone(&store), Arc::clone(&clock), limits.audit_retention));
        Self(Arc::new(Shared {
            scheduler: Scheduler::new(Arc::clone(&store), Arc::clone(&clock), Options { node: node() }),
            merge: merge_engine(&store, &clock),
            bodies: Arc::new(Bodies::new(
                limits.body_budget_bytes,
                limits.body_share_bytes,
                limits.body_max_bytes,
            )),
            admission: Admission::new(ConnectionLimits {
                all: limits.connections_max,
                reserved: limits.connections_reserved.min(limits.connections_max / 2),
                per_address: limits.anonymous_per_address,
                per_token: limits.connections_per_token,
            }),
            proxies: Arc::new([]),
            queue_quota: Arc::default(),
            readiness: Arc::default(),
            key: Arc::new(ServerKey::new(Arc::clone(&store))),
            store,
            clock,
            limits,
            closing: CancellationToken::new(),
            address: None,
            tokens: None,
            audit,
            denials: Arc::default(),
            metrics: Arc::new(Metrics::default()),
            store_metrics: None,
            clock_watch: Arc::default(),
            maintenance: None,
        }))
    }

    /// Checks the store's clock for jumps until it is dropped: run it beside the server.
    pub async fn watch_clock(self) {
        self.clock_watch.run(&*self.store, &*self.clock).await;
    }

    /// `/readyz` is degraded while this watch reports failing maintenance.
    #[must_use]
    pub fn with_maintenance(mut self, watch: Arc<MaintenanceWatch>) -> Self {
        Arc::make_mut(&mut self.0).maintenance = Some(watch);
        self
    }

    /// The tokens that `/api/v1/tokens` manages; the same that the guard verifies.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<Tokens>) -> Self {
        Arc::make_mut(&mut self.0).tokens = Some(tokens);
        self
    }

    /// The base URL of login links, such as `http://127.0.0.1:7117`.
    #[must_use]
    pub fn with_address(mut self, address: &str) -> Self {
        Arc::make_mut(&mut self.0).address = Some(address.into());
        self
    }

    /// Merge queues of another namespace or with another policy.
    #[must_use]
    pub fn with_merge(mut self, merge: MergeEngine) -> Self {
        Arc::make_mut(&mut self.0).merge = merge;
        self
    }

    /// Networks of trusted proxies, whose `X-Forwarded-For` is the client's address. The header is removed
    /// from all other connections.
    #[must_use]
    pub fn with_proxies(mut self, networks: Vec<Network>) -> Self {
        Arc::make_mut(&mut self.0).proxies = networks.into();
        self
    }

    pub(crate) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(peer))
    }

    /// Adds the store's own counters to `/metrics`.
    #[must_use]
    pub fn with_store_metrics(mut self, store_metrics: StoreMetrics) -> Self {
        Arc::make_mut(&mut self.0).store_metrics = Some(store_metrics);
        self
    }

    /// Measures a store call for `weaver_store_seconds`.
    pub(crate) async fn timed<T>(&self, call: &'static str, future: impl Future<Output = T>) -> T {
        let started = self.clock.monotonic();
        let result = future.await;
        let took = self.clock.monotonic().0.saturating_sub(started.0);
        self.metrics.store_answered(call, took);
        result
    }

    /// The wait of a long poll, at most `wait_max`.
    pub(crate) fn wait(&self, ms: u64) -> Duration {
        Duration::from_millis(ms).min(self.limits.wait_max)
    }

    pub(crate) fn page(&self, limit: Option<u32>) -> Result<u32, Invalid> {
        let limit = limit.unwrap_or(self.limits.page_default.clamp(1, PAGE_MAX));
        check_page(limit)?;
        Ok(limit)
    }

    pub(crate) fn check_batch(&self, field: &'static str, members: usize) -> Result<(), Invalid> {
        let max = self.limits.batch_max;
        if members <= max {
            return Ok(());
        }
        Err(Invalid::new(field, FieldProblem::OutOfRange { value: members as u64, min: 0, max: max as u64 }))
    }
}

/// Merge queues on plain git, with the default policy.
fn merge_engine(store: &Arc<dyn Store>, clock: &Arc<dyn Clock>) -> MergeEngine {
    let options = EngineOptions {
        namespace: Namespace::default(),
        policy: Policy::default(),
        notifications: Notifications::default(),
        keyring: Keyring::ephemeral(),
    };
    let forges = Arc::new(GitForges::new(Arc::clone(clock)));
    MergeEngine::new(Arc::clone(store), forges, Arc::clone(clock), options)
}

/// A random name for this process; ids of events contain it.
fn node() -> String {
    let mut bytes = [0; 8];
    // Tokens need it too: without randomness the server must not start.
    getrandom::fill(&mut bytes).expect("the system has randomness");
    format!("{:016x}", u64::from_ne_bytes(bytes))
}

impl std::fmt::Debug for AppState {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("AppState").field("limits", &self.limits).finish_non_exhaustive()
    }
}
