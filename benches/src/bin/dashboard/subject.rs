//! A server on a full store.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weaver_core::clock::Clock;
use weaver_core::ports::{Order, Selector, TaskQuery};
use weaver_core::prelude::*;
use weaver_embedded::EmbeddedStore;
use weaver_postgres::{PostgresOptions, PostgresStore};
use weaver_runtime::SystemClock;
use weaver_server::api::AppState;
use weaver_server::dashboard::{login_path, site};
use weaver_server::security::{Guard, GuardOptions, NamespaceScope, NewToken, Role, Sessions, Tokens};
use weaver_server::serve::serve;
use weaver_testkit::services::postgres::Private;

use crate::ask::{self, Site};
use crate::fill;

/// As large as a page of the list.
const STILL_BYTES: usize = 24_000;

pub struct Subject {
    pub name: &'static str,
    pub site: Site,
    middle: Timestamp,
    dead: String,
    _server: Option<Private>,
}

impl Subject {
    pub async fn embedded(directory: &Path) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = EmbeddedStore::open(directory, Arc::clone(&clock));
        Self::on("embedded", Arc::new(store.expect("an empty directory opens")), clock, None).await
    }

    pub async fn postgres(url: Option<&str>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let server = url.is_none().then(Private::durable);
        let url = url.map_or_else(|| server.as_ref().expect("one of the two").url(), str::to_owned);
        let options = PostgresOptions::parse(&url).expect("a URL");
        let store = PostgresStore::open(options, Arc::clone(&clock)).await.expect("the store opens");
        Self::on("PostgreSQL", Arc::new(store), clock, server).await
    }

    async fn on(
        name: &'static str,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        server: Option<Private>,
    ) -> Self {
        let all = TaskQuery { limit: 1, ..TaskQuery::new(Namespace::default()) };
        if store.list_tasks(all.clone()).await.expect("the store answers").items.is_empty() {
            println!("{name}: filling");
            fill::fill(&*store).await;
        }
        let newest = store.list_tasks(all.clone()).await.expect("the store answers").items[0].created_at;
        let all = TaskQuery { order: Order::OldestFirst, ..all };
        let oldest = store.list_tasks(all).await.expect("the store answers").items[0].created_at;
        let middle = oldest.saturating_add(newest.since(oldest) / 2);
        let query = TaskQuery::new(Namespace::default()).select(Selector::State(TaskState::Dead));
        let dead = store.list_tasks(query).await.expect("the store answers").items[0].key.id.to_string();
        let site = site_on(store, clock).await;
        Self { name, site, middle, dead, _server: server }
    }

    /// The measured pages with their paths.
    pub fn pages(&self) -> Vec<(&'static str, String)> {
        let filtered = |filter: &str| format!("/tasks?{filter}");
        let time = self.middle.to_string().replace(':', "%3A").replace('+', "%2B");
        vec![
            ("overview", "/".to_owned()),
            ("tasks", "/tasks".to_owned()),
            ("tasks, succeeded", filtered("state=succeeded")),
            ("tasks, dead", filtered("state=dead")),
            ("tasks, queued", filtered("state=queued")),
            ("tasks, running (none)", filtered("state=running")),
            ("tasks of a queue", filtered("queue=queue-7")),
            ("tasks of a type", filtered("task_type=type-3")),
            ("tasks of a group", filtered("group=group-5")),
            ("tasks of a session", filtered("session=session-5")),
            ("tasks with a label", filtered("label=team%3Dt10")),
            ("dead tasks of a queue", filtered("queue=queue-0&state=dead")),
            ("tasks of a type in a queue", filtered("queue=queue-7&task_type=type-3")),
            ("tasks created before the middle", filtered(&format!("created_before={time}"))),
            ("a dead task", format!("/tasks/{}", self.dead)),
            ("queues", "/queues".to_owned()),
            ("groups", "/groups".to_owned()),
        ]
    }
}

/// The server, and one with a static page, in this process.
async fn site_on(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Site {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
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
    let state = AppState::new(store, clock).with_tokens(Arc::clone(&tokens));
    let router = site(state.clone(), Arc::new(guard.expect("its hosts are hosts")));
    tokio::spawn(serve(listener, router, state, CancellationToken::new()));
    let new = NewToken {
        name: "bench".to_owned(),
        role: Role::Admin,
        namespaces: NamespaceScope::All,
        may_exec: false,
        expires_at: None,
        created_by: "bench".to_owned(),
    };
    let token = tokens.create(new).await.expect("a token").0;
    let link = Sessions::new(tokens).make_link(&token.id()).await.expect("a link");
    let cookie = ask::log_in(address, &login_path(&link)).await;
    Site { address, cookie, still: still().await }
}

async fn still() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let page: &'static str = String::from("<p>x</p>").repeat(STILL_BYTES / 8).leak();
    let router =
        Router::new().route("/", get(move || async move { ([("content-type", "text/html")], page) }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
