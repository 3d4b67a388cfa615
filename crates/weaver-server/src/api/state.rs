//! What every handler shares, and how much one request may ask for.

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
use super::metrics::{Figures, Metrics};
use super::queue_quota::QueueQuota;
use crate::security::{ServerKey, Tokens};
use crate::serve::{Admission, ConnectionLimits};

/// How much one request or connection may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiLimits {
    /// The largest body, in bytes.
    pub body_max_bytes: usize,
    /// The most bytes of bodies that are read at the same time, of all requests.
    pub body_budget_bytes: usize,
    /// The most of them for one token.
    pub body_share_bytes: usize,
    /// The longest pause between two parts of a body.
    pub body_timeout: Duration,
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
    /// The most connections at once.
    pub connections_max: usize,
    /// Of these, the ones that only callers who have not shown a token may use: health checks, logins, and
    /// whoever comes next. Of all addresses together, those that wait for a place included.
    pub connections_reserved: usize,
    /// The most connections of one address before a token was shown; more wait unread.
    pub anonymous_per_address: usize,
    /// How long a connection whose caller has not shown a token may be silent, or wait for a place.
    pub anonymous_timeout: Duration,
    /// The most connections of one token. A request that waits holds one, and so does a stream.
    pub connections_per_token: usize,
    /// The most queues of a namespace that requests can make.
    pub queues_per_namespace: usize,
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
    /// Where browsers find this server, without a slash at the end.
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
    pub(crate) figures: Option<Figures>,
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
            figures: None,
            clock_watch: Arc::default(),
            maintenance: None,
        }))
    }

    /// Watches the clock that the store goes by, for ever: run it beside the server.
    pub async fn watch_clock(self) {
        self.clock_watch.run(&*self.store, &*self.clock).await;
    }

    /// With the worker beside it whose maintenance `/readyz` answers for.
    #[must_use]
    pub fn with_maintenance(mut self, watch: Arc<MaintenanceWatch>) -> Self {
        Arc::make_mut(&mut self.0).maintenance = Some(watch);
        self
    }

    /// With tokens that its routes manage: those that the guard in front asks for.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<Tokens>) -> Self {
        Arc::make_mut(&mut self.0).tokens = Some(tokens);
        self
    }

    /// With the address that links for browsers begin with, such as `http://127.0.0.1:7117`.
    #[must_use]
    pub fn with_address(mut self, address: &str) -> Self {
        Arc::make_mut(&mut self.0).address = Some(address.into());
        self
    }

    /// With merge queues of another namespace or by other rules.
    #[must_use]
    pub fn with_merge(mut self, merge: MergeEngine) -> Self {
        Arc::make_mut(&mut self.0).merge = merge;
        self
    }

    /// Behind proxies on these networks, whose `X-Forwarded-For` says where a request comes from. From others
    /// the header is removed.
    #[must_use]
    pub fn with_proxies(mut self, networks: Vec<Network>) -> Self {
        Arc::make_mut(&mut self.0).proxies = networks.into();
        self
    }

    /// Whether connections of this address are a trusted proxy's.
    pub(crate) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(peer))
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
        keyring: Keyring::ephemeral(),
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
