//! A whole server: API, pages, tokens, and a worker with scripted handlers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weaver_core::clock::Clock;
use weaver_core::prelude::*;
use weaver_embedded::EmbeddedStore;
use weaver_postgres::{PostgresOptions, PostgresStore};
use weaver_runtime::{Ctx, LocalSource, Registry, Shutdown, SystemClock, TaskError, Worker};
use weaver_server::api::AppState;
use weaver_server::dashboard::{login_path, site};
use weaver_server::security::{
    Guard, GuardOptions, NamespaceScope, NewToken, Role, Sessions, TokenText, Tokens,
};
use weaver_server::serve::serve;
use weaver_testkit::services::postgres::Shared;

/// A store that is removed with its harness.
pub(crate) struct Harness {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    directory: Option<PathBuf>,
    _database: Option<Shared>,
}

impl Harness {
    pub(crate) fn of(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, directory: None, _database: None }
    }

    pub(crate) fn memory() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self::of(Arc::new(InMemoryQueue::new(Arc::clone(&clock))), clock)
    }

    pub(crate) fn embedded() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let directory = std::env::temp_dir().join(own_name());
        let store = EmbeddedStore::open(&directory, Arc::clone(&clock)).expect("a store");
        Self { store: Arc::new(store), clock, directory: Some(directory), _database: None }
    }

    pub(crate) async fn postgres() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let database = Shared::server();
        let sign = if database.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{sign}schema={}", database.url(), own_name().replace('-', "_"));
        let options = PostgresOptions::parse(&url).expect("the URL of the test server can be read");
        let store =
            PostgresStore::open(options, Arc::clone(&clock)).await.expect("the schema can be created");
        Self { store: Arc::new(store), clock, directory: None, _database: Some(database) }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory); // A leftover directory is harmless.
        }
    }
}

fn own_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("dashboard-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) state: AppState,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Site {
    pub(crate) async fn start(harness: &Harness) -> Self {
        Self::listening(harness, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// On a given address, such as that of a site that was stopped.
    pub(crate) async fn listening(harness: &Harness, address: SocketAddr) -> Self {
        let (store, clock) = (Arc::clone(&harness.store), Arc::clone(&harness.clock));
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let address = listener.local_addr().expect("it is bound");
        let tokens = Arc::new(Tokens::new(Arc::clone(&store) as _, Arc::clone(&clock)));
        let guard = Guard::new(GuardOptions {
            tokens: Some(Arc::clone(&tokens)),
            clock: Arc::clone(&clock),
            listen: address,
            hosts: Vec::new(),
            tls: false,
            behind_proxy: false,
        });
        let state = AppState::new(Arc::clone(&store), clock).with_tokens(Arc::clone(&tokens));
        let router = site(state.clone(), Arc::new(guard.expect("its hosts are hosts")));
        let stop = CancellationToken::new();
        let mut serving = JoinSet::new();
        let shared = state.clone();
        serving.spawn(serve(listener, router, state, stop.clone()));
        Self { address, tokens, store, state: shared, stop, serving }
    }

    /// Graceful shutdown, as by a signal. Returns when all connections are closed.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.serving.join_next().await.is_some() {}
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn token(&self, role: Role) -> TokenText {
        self.token_for(role, NamespaceScope::All).await
    }

    pub(crate) async fn token_for(&self, role: Role, namespaces: NamespaceScope) -> TokenText {
        let new = NewToken {
            name: role.to_string(),
            role,
            namespaces,
            // Prompts need it too.
            may_exec: !matches!(role, Role::Viewer | Role::Worker),
            expires_at: None,
            created_by: "the test".to_owned(),
        };
        self.tokens.create(new).await.expect("a token").0
    }

    /// A one-time login link.
    pub(crate) async fn link(&self, role: Role) -> String {
        let token = self.token(role).await;
        let link = Sessions::new(Arc::clone(&self.tokens)).make_link(&token.id()).await.expect("a link");
        self.url(&login_path(&link))
    }

    pub(crate) async fn enqueue(&self, task: NewTask) -> TaskKey {
        self.store.enqueue(task).await.expect("a task").key
    }
}

/// What a `print_lines` task prints, line by line; it ends with the sender.
pub(crate) type Lines = mpsc::UnboundedSender<String>;

/// A worker on the store, until it is dropped. By type, its tasks succeed (`ok`), are dead (`broken`), print
/// the lines sent to them (`print_lines`), or wait to be cancelled (`slow`).
pub(crate) struct TestWorker {
    _working: JoinSet<()>,
}

const LEASE: Duration = Duration::from_secs(6);

struct LineReceiver(Mutex<mpsc::UnboundedReceiver<String>>);

impl TestWorker {
    pub(crate) fn start(harness: &Harness) -> (Self, Lines) {
        let (lines, receiver) = mpsc::unbounded_channel();
        let registry = Registry::new()
            .share(LineReceiver(Mutex::new(receiver)))
            .handle("ok", async |what: serde_json::Value, ctx: Ctx| {
                ctx.log("done");
                Ok::<_, TaskError>(what)
            })
            .and_then(|all| {
                all.handle("broken", async |_: serde_json::Value, ctx: Ctx| {
                    ctx.log("tried it");
                    Err::<(), _>(TaskError::fatal("no such recipient"))
                })
            })
            .and_then(|all| all.handle("print_lines", print_lines))
            .and_then(|all| {
                all.handle("slow", async |_: serde_json::Value, ctx: Ctx| {
                    ctx.progress(0.4, "two of five");
                    ctx.cancelled().await;
                    Ok::<_, TaskError>(())
                })
            })
            .expect("handlers of different types");
        let source = Arc::new(LocalSource::new(Arc::clone(&harness.store)));
        // Progress travels with renewals: a short lease shows it soon.
        let worker = Worker::builder(source, Arc::clone(&harness.clock)).registry(registry).lease_ttl(LEASE);
        let worker = worker.build().expect("a worker");
        let mut working = JoinSet::new();
        working.spawn(async move {
            let _ = worker.run(Shutdown::new()).await; // The summary is not used.
        });
        (Self { _working: working }, lines)
    }
}

async fn print_lines(_: serde_json::Value, ctx: Ctx) -> Result<(), TaskError> {
    let shared = ctx.shared::<LineReceiver>()?;
    let mut lines = shared.0.lock().await;
    while let Some(line) = lines.recv().await {
        ctx.log(line);
    }
    Ok(())
}
