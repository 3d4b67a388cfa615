//! `weaver serve`: the HTTP API over a store, a worker with the built-in handlers, the scheduler and the
//! merge queues, in one process with one graceful shutdown.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use weaver::core::clock::Clock;
use weaver::core::network::Network;
use weaver::core::ports::Store;
use weaver::runtime::{Registry, Shutdown, Worker};
use weaver_cluster::{ClusterNode, NodeOptions};
use weaver_core::cluster::ClusterSettings;
use weaver_process::Isolation;
use weaver_scheduler::Scheduler;
use weaver_server::AppState;
use weaver_server::dashboard::{login_path, site};
use weaver_server::security::{
    FirstToken, FirstTokenError, Guard, GuardOptions, PrivateFileError, Sessions, TlsListener, Tokens,
    check_listen, first_token, load_tls,
};
use weaver_server::serve::{serve, serve_local};

use crate::cli::local::{LocalSocket, LocalWorkers};
use crate::cli::merge::side::{self, Side};
use crate::cli::store::StoreTask;
use crate::cli::worker::{self, WorkerSettings};
use crate::cli::{Context, Given, StoreArgs, confinement, serve_limits};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, start_log};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver serve\n  weaver serve --store /var/lib/weaver --listen 127.0.0.1:8000\n  \
    weaver serve --listen 0.0.0.0:443 --tls-certificate fullchain.pem --tls-key key.pem --hosts jobs.example.org\n\n\
    Commands of this user and of root connect through the server's Unix socket as admins, without a token; other users and\n\
    machines need one: `weaver tokens create`. SIGTERM or Ctrl-C drains the server: running tasks may finish within --grace."
)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    address: AddressArgs,
    /// TLS certificate chain, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<String>,
    /// TLS private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<String>,
    /// A reverse proxy terminates TLS and sets X-Forwarded-For
    #[arg(long, num_args = 0, default_missing_value = "true")]
    behind_proxy: Option<String>,
    /// Unix socket for local admins [default: in the user's runtime directory]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    #[command(flatten)]
    worker: WorkerSettings,
}

#[derive(Debug, Args)]
pub(crate) struct AddressArgs {
    /// Address to listen on; port 0: any free port [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Allowed host names besides those of this machine, comma-separated [default: localhost]
    #[arg(long, value_name = "NAMES")]
    hosts: Option<String>,
}

impl AddressArgs {
    pub(crate) fn given(&self) -> [Given<'_>; 2] {
        [(keys::SERVE_LISTEN, self.listen.as_ref()), (keys::SERVE_HOSTS, self.hosts.as_ref())]
    }
}

impl ServeArgs {
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        let mut given = self.worker.given().to_vec();
        given.extend(self.address.given());
        given.extend([
            self.store.setting(),
            (keys::SERVE_TLS_CERTIFICATE, self.tls_certificate.as_ref()),
            (keys::SERVE_TLS_KEY, self.tls_key.as_ref()),
            (keys::SERVE_BEHIND_PROXY, self.behind_proxy.as_ref()),
            (keys::SERVE_SOCKET, self.socket.as_ref()),
        ]);
        given
    }
}

pub(crate) async fn run(context: Context) -> Result<Exit, Failure> {
    start_log(&context.config);
    let endpoint = Endpoint::new(&context.config)?;
    let task = StoreTask::new(context)?;
    let store = task.open_to_serve(&Progress::new("opening the store")).await?;
    serve_store(&task, store, endpoint, Registry::new()).await
}

/// Address, TLS and proxies of the server.
pub(crate) struct Endpoint {
    listen: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    hosts: Vec<String>,
    behind_proxy: bool,
    proxies: Vec<Network>,
}

impl Endpoint {
    /// Checked before a store is opened.
    pub(crate) fn new(config: &Config) -> Result<Self, Failure> {
        let text = config.text(keys::SERVE_LISTEN);
        let listen: SocketAddr = text.parse().map_err(|_| {
            let message = format!("`{text}` is not a listen address");
            Failure::new(Exit::Usage, message).next("give an IP address and a port: --listen 127.0.0.1:7117")
        })?;
        let tls = match (config.path(keys::SERVE_TLS_CERTIFICATE), config.path(keys::SERVE_TLS_KEY)) {
            (Some(certificate), Some(key)) => Some(
                load_tls(certificate, key).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?,
            ),
            (None, None) => None,
            _ => {
                let message = "serve.tls_certificate and serve.tls_key must be set together";
                return Err(Failure::new(Exit::Usage, message).next("set both, or neither"));
            }
        };
        let behind_proxy = config.text(keys::SERVE_BEHIND_PROXY) == "true";
        check_listen(listen, true, tls.is_some(), behind_proxy)
            .map_err(|refused| Failure::new(Exit::Refused, refused.to_string()))?;
        let proxies = serve_limits::proxies(config)?;
        Ok(Self { listen, tls, hosts: config.names(keys::SERVE_HOSTS), behind_proxy, proxies })
    }

    /// The address for browsers on this machine: the unspecified address becomes loopback.
    fn seen_at(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            ip if !ip.is_unspecified() => address,
            std::net::IpAddr::V4(_) => (std::net::Ipv4Addr::LOCALHOST, address.port()).into(),
            std::net::IpAddr::V6(_) => (std::net::Ipv6Addr::LOCALHOST, address.port()).into(),
        }
    }

    async fn bind(&self) -> Result<(TcpListener, SocketAddr), Failure> {
        let bound = TcpListener::bind(self.listen).await;
        bound.and_then(|listener| listener.local_addr().map(|address| (listener, address))).map_err(|error| {
            let exit = if error.kind() == std::io::ErrorKind::AddrInUse { Exit::Busy } else { Exit::Failed };
            Failure::new(exit, format!("cannot listen on {}: {error}", self.listen))
                .next("stop the process that listens there, or choose another address with --listen")
        })
    }
}

/// Serves until a shutdown is requested and everything has drained.
pub(crate) async fn serve_store(
    task: &StoreTask,
    store: Arc<dyn Store>,
    endpoint: Endpoint,
    registry: Registry,
) -> Result<Exit, Failure> {
    let context = &task.context;
    let clock = &context.clock;
    let workers = LocalWorkers::new(&store, task.url());
    let worker = worker::build(workers.builder(clock), registry, &context.config, clock)?;
    let (listener, address) = endpoint.bind().await?;
    let tokens = Arc::new(Tokens::new(Arc::clone(&store) as _, Arc::clone(clock)));
    let (local, admins, mut socket) = LocalSocket::open(&context.config, address.port())?;
    register_first_token(&context.config, &tokens).await?;
    let scheme = if endpoint.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", endpoint.seen_at(address));
    let merge = side::engine(&store, &context.config, clock)?;
    let merging = Side::if_enabled(&merge, &store, &workers, &context.config, clock)?;
    let state = AppState::with_limits(store, Arc::clone(clock), serve_limits::limits(&context.config));
    let state = state.with_proxies(endpoint.proxies).with_maintenance(worker.maintenance());
    let mut state = state.with_tokens(Arc::clone(&tokens)).with_merge(merge).with_address(&url);
    if let Some(store_metrics) = task.store_metrics() {
        state = state.with_store_metrics(store_metrics);
    }
    let guard = Guard::new(GuardOptions {
        tokens: Some(Arc::clone(&tokens)),
        clock: Arc::clone(clock),
        listen: address,
        hosts: endpoint.hosts,
        tls: endpoint.tls.is_some(),
        behind_proxy: endpoint.behind_proxy,
    })
    .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let router = site(state.clone(), Arc::new(guard));
    let closing = CancellationToken::new();
    let signals = Signals::new()?;
    socket.register(&url, task.url().to_string());
    let link = match std::io::stdout().is_terminal() {
        // Only on a terminal: elsewhere the link would end up in a log.
        true => Some(Sessions::new(tokens).make_admin_link("weaver serve", true).await?.1),
        false => None,
    };
    let link = link.map(|secret| format!("{url}{}", login_path(&secret)));
    print_banner(task, &format!("{scheme}://{address}"), link.as_deref(), &socket)?;
    let local = serve_local(local, admins, router.clone(), state.clone(), closing.clone());
    let isolation = confinement::isolation(&context.config)?;
    let isolation = isolation.with_rules(context.config.confine.0.check.clone());
    let background = Background {
        node: cluster_node(task, &state, &worker, &url),
        worker,
        scheduler: state.scheduler.clone(),
        merging,
        isolation,
        clock: Arc::clone(clock),
        signals,
    };
    let watching = state.clone().watch_clock();
    match endpoint.tls {
        Some(tls) => {
            let listener = TlsListener::new(listener, tls, Arc::clone(clock));
            let server = serve(listener, router, state, closing.clone());
            until_shutdown(with_clock_watch(join(server, local), watching), background, &closing).await;
        }
        None => {
            let server = serve(listener, router, state, closing.clone());
            until_shutdown(with_clock_watch(join(server, local), watching), background, &closing).await;
        }
    }
    Ok(Exit::Done)
}

async fn join(tcp: impl Future<Output = ()>, local: impl Future<Output = ()>) {
    tokio::join!(Box::pin(tcp), Box::pin(local));
}

/// Registers the admin token of `serve.admin_token_file`, if set.
async fn register_first_token(config: &Config, tokens: &Tokens) -> Result<(), Failure> {
    let Some(path) = config.path(keys::SERVE_ADMIN_TOKEN_FILE) else { return Ok(()) };
    match first_token(path, tokens).await? {
        FirstToken::Registered(id) => {
            tracing::info!(%id, file = %path.display(), "registered the first admin token");
        }
        FirstToken::Known(_) => {}
        FirstToken::Revoked(id) => tracing::warn!(
            %id, file = %path.display(),
            "the token in serve.admin_token_file is revoked or expired; put a new one into the file"
        ),
    }
    Ok(())
}

impl From<FirstTokenError> for Failure {
    fn from(error: FirstTokenError) -> Self {
        let exit = match &error {
            FirstTokenError::File(PrivateFileError::Exposed { .. }) => Exit::Refused,
            FirstTokenError::NotAToken { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

/// The first line is a readiness signal for programs: from then on the server answers.
fn print_banner(
    task: &StoreTask,
    address: &str,
    link: Option<&str>,
    socket: &LocalSocket,
) -> Result<(), Failure> {
    let store = task.url().to_string();
    let socket = socket.path().display();
    let dashboard = link.map_or_else(
        || "weaver dashboard".to_owned(),
        |link| format!("{link}\n             (valid for one login; `weaver dashboard` creates another)"),
    );
    let answer = json!({"address": address, "store": store, "socket": socket.to_string()});
    task.context.output.answer(&answer, || {
        format!(
            "Weaver listens on {address}\n  dashboard  {dashboard}\n  store      {store}\n  \
             socket     {socket}\n             (admin access for this user and root; others need a token: weaver tokens create)\n  \
             try        weaver tasks list\n  API        {address}/api/openapi.json\n  stop       Ctrl-C\n",
        )
    })
}

async fn with_clock_watch(server: impl Future<Output = ()>, watching: impl Future<Output = ()>) {
    tokio::select! {
        () = server => {}
        () = watching => {}
    }
}

/// This process as a node of the cluster. Its name is that of its worker, which is unique over restarts.
fn cluster_node(task: &StoreTask, state: &AppState, worker: &Worker, url: &str) -> ClusterNode {
    // A store in a directory belongs to this process: no other node waits for its heartbeats, and each is a
    // sync.
    let seconds = if task.url().place().is_some() { 5 } else { 1 };
    let options = NodeOptions {
        name: worker.name().to_string(),
        host: host_name(),
        address: Some(url.to_owned()),
        own_workers: BTreeSet::from([worker.name().clone()]),
        heartbeat_every: Duration::from_secs(seconds),
        settings: ClusterSettings::default(),
    };
    ClusterNode::new(Arc::clone(&state.store), Arc::clone(&task.context.clock), options)
}

/// The name of this machine; nodes on the leader's machine wait a little longer before they take over.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}

/// What runs beside the server.
struct Background {
    worker: Worker,
    node: ClusterNode,
    scheduler: Scheduler,
    merging: Option<Side>,
    /// Probed in the background, so that the start does not wait for it.
    isolation: Isolation,
    clock: Arc<dyn Clock>,
    signals: Signals,
}

/// Shutdown signals. Installed before the banner: a signal right after it must not kill the process.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Failed, format!("installing signal handlers failed: {error}")).next("retry")
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }
}

/// The first signal drains everything; the second stops the workers at once.
async fn until_shutdown(
    server: impl Future<Output = ()>,
    background: Background,
    closing: &CancellationToken,
) {
    let shutdown = Shutdown::new();
    let Signals { mut interrupt, mut terminate } = background.signals;
    let Background { worker, node, scheduler, merging, isolation, clock, .. } = background;
    let working = Box::pin(worker.run(shutdown.clone()));
    let merging = Box::pin(async {
        if let Some(side) = merging {
            side.run(closing, &shutdown).await;
        }
    });
    let probing = Box::pin(confinement::warn_if_impossible(&isolation, &*clock));
    let scheduling = Box::pin(scheduler.run(closing.cancelled()));
    let leading = Box::pin(node.run(closing.cancelled()));
    let signals = async {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            shutdown.request();
            closing.cancel();
        }
    };
    tokio::select! {
        _ = async { tokio::join!(Box::pin(server), working, scheduling, leading, merging, probing) } => {}
        () = signals => {}
    }
}
