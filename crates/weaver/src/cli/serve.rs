//! `weaver serve`: the HTTP API over a store, and beside it a worker with the built-in handlers, the scheduler, and
//! the merge queues.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use weaver::core::ports::Store;
use weaver::runtime::{LocalSource, Registry, Shutdown, Worker};
use weaver_scheduler::Scheduler;
use weaver_server::api::AppState;
use weaver_server::dashboard::{login_path, site};
use weaver_server::security::{
    Guard, GuardOptions, Sessions, TlsListener, Tokens, check_listen, load_tls, root_token,
};
use weaver_server::serve::serve;

use crate::cli::merge::side::{self, Side};
use crate::cli::store::StoreTask;
use crate::cli::worker::{self, WorkerSettings};
use crate::cli::{Context, Given, StoreArgs, identity};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, start_log};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver serve\n  weaver serve --store /var/lib/weaver --listen 127.0.0.1:8000\n  \
    weaver serve --listen 0.0.0.0:443 --tls-certificate fullchain.pem --tls-key key.pem --hosts jobs.example.org\n\n\
    The first start makes a token in the store's directory; `weaver` on this machine uses it by itself, and\n\
    `weaver token` prints it. SIGTERM or Ctrl-C: nothing new is accepted, what runs is finished within --grace."
)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    address: AddressArgs,
    /// The certificate with its chain, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<String>,
    /// The certificate's private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<String>,
    /// A proxy in front does TLS, and says where requests come from
    #[arg(long, num_args = 0, default_missing_value = "true")]
    behind_proxy: Option<String>,
    #[command(flatten)]
    worker: WorkerSettings,
}

/// Where to listen.
#[derive(Debug, Args)]
pub(crate) struct AddressArgs {
    /// The address; port 0 takes a free one [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The names it is reached by besides those of this machine, separated by commas
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
        ]);
        given
    }
}

pub(crate) async fn run(context: Context) -> Result<Exit, Failure> {
    start_log(&context.config);
    let entrance = Entrance::new(&context.config)?;
    let task = StoreTask::new(context)?;
    let store = task.open_to_serve(&Progress::new("opening the store")).await?;
    serve_store(&task, store, entrance, Registry::new()).await
}

/// How the server is reached.
pub(crate) struct Entrance {
    listen: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    hosts: Vec<String>,
    behind_proxy: bool,
}

impl Entrance {
    /// Everything that can be wrong about it, before a store is opened.
    pub(crate) fn new(config: &Config) -> Result<Self, Failure> {
        let text = config.text(keys::SERVE_LISTEN);
        let listen: SocketAddr = text.parse().map_err(|_| {
            let message = format!("`{text}` is no address to listen on");
            Failure::new(Exit::Usage, message).next("give an IP address and a port: --listen 127.0.0.1:7117")
        })?;
        let tls = match (config.path(keys::SERVE_TLS_CERTIFICATE), config.path(keys::SERVE_TLS_KEY)) {
            (Some(certificate), Some(key)) => Some(
                load_tls(certificate, key).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?,
            ),
            (None, None) => None,
            _ => {
                let message = "serve.tls_certificate and serve.tls_key belong together, and one is not set";
                return Err(Failure::new(Exit::Usage, message).next("set both, or neither"));
            }
        };
        let behind_proxy = config.text(keys::SERVE_BEHIND_PROXY) == "true";
        check_listen(listen, true, tls.is_some(), behind_proxy)
            .map_err(|refused| Failure::new(Exit::Refused, refused.to_string()))?;
        Ok(Self { listen, tls, hosts: config.names(keys::SERVE_HOSTS), behind_proxy })
    }

    async fn bind(&self) -> Result<(TcpListener, SocketAddr), Failure> {
        let bound = TcpListener::bind(self.listen).await;
        bound.and_then(|listener| listener.local_addr().map(|address| (listener, address))).map_err(|error| {
            let exit = if error.kind() == std::io::ErrorKind::AddrInUse { Exit::Busy } else { Exit::Failed };
            Failure::new(exit, format!("cannot listen on {}: {error}", self.listen))
                .next("stop what listens there, or choose another address with --listen")
        })
    }
}

/// Serves until it is told to stop, and everything has ended in order.
pub(crate) async fn serve_store(
    task: &StoreTask,
    store: Arc<dyn Store>,
    entrance: Entrance,
    registry: Registry,
) -> Result<Exit, Failure> {
    let context = &task.context;
    let clock = &context.clock;
    let source = Arc::new(LocalSource::new(Arc::clone(&store)));
    let worker = worker::build(source, registry, None, &context.config, clock)?;
    let (listener, address) = entrance.bind().await?;
    let tokens = Arc::new(Tokens::new(Arc::clone(&store) as _, Arc::clone(clock)));
    let root = root_token(task.token_directory(), &tokens).await?;
    let link = Sessions::new(Arc::clone(&tokens)).make_link(&root.id()).await?;
    let merge = side::engine(&store, &context.config, clock)?;
    let is_merging = context.config.text(keys::MERGE_ENABLED) == "true";
    let merging = is_merging.then(|| Side::new(merge.clone(), &store, &context.config, clock)).transpose()?;
    let mut state =
        AppState::new(store, Arc::clone(clock)).with_tokens(Arc::clone(&tokens)).with_merge(merge);
    if let Some(figures) = task.figures() {
        state = state.with_figures(figures);
    }
    let guard = Guard::new(GuardOptions {
        tokens: Some(tokens),
        clock: Arc::clone(clock),
        listen: address,
        hosts: entrance.hosts,
        tls: entrance.tls.is_some(),
        behind_proxy: entrance.behind_proxy,
    })
    .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let router = site(state.clone(), Arc::new(guard));
    let closing = CancellationToken::new();
    let scheme = if entrance.tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{address}");
    identity::note_address(task.token_directory(), &address);
    tell(task, &address, &format!("{address}{}", login_path(&link)))?;
    let beside = Beside { worker, scheduler: state.scheduler.clone(), merging };
    let watching = state.clone().watch_clock();
    match entrance.tls {
        Some(tls) => {
            let listener = TlsListener::new(listener, tls, Arc::clone(clock));
            let serving = beside_of(serve(listener, router, state, closing.clone()), watching);
            until_told(serving, beside, &closing).await?;
        }
        None => {
            let serving = beside_of(serve(listener, router, state, closing.clone()), watching);
            until_told(serving, beside, &closing).await?;
        }
    }
    Ok(Exit::Done)
}

/// The first line is for programs that wait for it: from then on the server answers.
fn tell(task: &StoreTask, address: &str, link: &str) -> Result<(), Failure> {
    let directory = task.token_directory().display();
    let answer = json!({"address": address, "dashboard": link, "store": task.url().to_string(), "token_directory": directory.to_string()});
    // The command line looks where its settings say; what differs is named.
    let is_expected = task.context.config.text(keys::SERVER) == address;
    let server = if is_expected { String::new() } else { format!(" --server {address}") };
    task.context.output.answer(&answer, || {
        format!(
            "Weaver listens on {address}\n  look     {link}\n           (logs one browser in, once; `weaver dashboard` makes another)\n  store    {}\n  token    in {directory}, used by `weaver` here; `weaver token` prints it\n  \
             try      weaver tasks list{server}\n  API      {address}/api/openapi.json\n  stop     Ctrl-C\n",
            task.url()
        )
    })
}

/// The server, and what ends with it.
async fn beside_of(server: impl Future<Output = ()>, watching: impl Future<Output = ()>) {
    tokio::select! {
        () = server => {}
        () = watching => {}
    }
}

/// What runs beside the server.
struct Beside {
    worker: Worker,
    scheduler: Scheduler,
    merging: Option<Side>,
}

/// All end at the first signal, each in order; the second one hurries the workers.
async fn until_told(
    server: impl Future<Output = ()>,
    beside: Beside,
    closing: &CancellationToken,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, format!("signals cannot be received: {error}")).next("start it again")
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let shutdown = Shutdown::new();
    let Beside { worker, scheduler, merging } = beside;
    let working = Box::pin(worker.run(shutdown.clone()));
    let merging = Box::pin(async {
        if let Some(side) = merging {
            side.run(closing, &shutdown).await;
        }
    });
    let scheduling = Box::pin(scheduler.run(closing.cancelled()));
    let signals = async {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            shutdown.ask();
            closing.cancel();
        }
    };
    tokio::select! {
        _ = async { tokio::join!(Box::pin(server), working, scheduling, merging) } => Ok(()),
        () = signals => Ok(()),
    }
}
