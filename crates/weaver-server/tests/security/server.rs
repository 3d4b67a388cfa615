//! A small server behind the real layers, and a client that can send anything.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path as InPath;
use axum::routing::get;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use weaver_core::clock::ManualClock;
use weaver_core::name::{Namespace, TaskType};
use weaver_core::ports::Documents;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_server::security::{
    ClientAddress, Guard, GuardOptions, Identity, NamespaceScope, NewToken, PeerAddress, Permission, Refusal,
    Role, TokenText, Tokens, protect,
};

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn Documents>,
    // Ends with the server.
    _serving: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut GuardOptions)) -> Self {
        let clock = ManualClock::default();
        let store: Arc<dyn Documents> = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        let tokens = Arc::new(Tokens::new(Arc::clone(&store), Arc::new(clock.clone())));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut options = GuardOptions {
            tokens: Some(Arc::clone(&tokens)),
            clock: Arc::new(clock.clone()),
            listen: address,
            hosts: Vec::new(),
            tls: false,
            behind_proxy: false,
        };
        change(&mut options);
        let routes = routes(Arc::new(Guard::new(options).expect("hosts that are hosts")));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let service = routes.into_make_service_with_connect_info::<PeerAddress>();
            axum::serve(listener, service).await.expect("serving never ends");
        });
        Self { address, tokens, clock, store, _serving: serving }
    }

    pub(crate) async fn token(&self, role: Role, namespaces: NamespaceScope) -> TokenText {
        self.tokens.create(new_token(role, namespaces)).await.expect("a token").0
    }

    /// Sends a request as written, and reads until the server closes.
    pub(crate) async fn send(&self, request: &str) -> TestResponse {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        exchange(stream, request).await
    }

    /// A valid `GET` with these additional headers.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> TestResponse {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n",
            self.address
        ))
        .await
    }

    /// A valid `GET` with a token.
    pub(crate) async fn get_as(&self, path: &str, token: &TokenText) -> TestResponse {
        self.get(path, &bearer(token)).await
    }

    /// A `POST` to `/echo` with exactly these headers besides the necessary ones.
    pub(crate) async fn post(&self, headers: &str, body: &str) -> TestResponse {
        self.send(&format!(
            "POST /echo HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        ))
        .await
    }
}

pub(crate) fn bearer(token: &TokenText) -> String {
    format!("Authorization: Bearer {}\r\n", token.expose())
}

pub(crate) fn only(name: &'static str) -> NamespaceScope {
    NamespaceScope::only([Namespace::new(name).expect("a name")])
}

pub(crate) fn new_token(role: Role, namespaces: NamespaceScope) -> NewToken {
    NewToken {
        name: format!("a {role}"),
        role,
        namespaces,
        may_exec: false,
        expires_at: None,
        created_by: "the test".to_owned(),
    }
}

pub(crate) fn routes(guard: Arc<Guard>) -> Router {
    let private = Router::new()
        .route("/whoami", get(async |identity: Identity| identity.caller()))
        .route("/headers", get(async |headers: axum::http::HeaderMap| format!("{headers:?}")))
        .route(
            "/address",
            get(async |axum::Extension(address): axum::Extension<ClientAddress>| address.0.to_string()),
        )
        .route("/echo", get(async || "").post(async |_: Identity, body: Bytes| body))
        .route("/read/{namespace}", get(read))
        .route(
            "/tokens",
            get(async |identity: Identity| identity.require_everywhere(Permission::ManageTokens)),
        )
        .route("/enqueue/{namespace}/{task_type}", get(enqueue));
    protect(private, Router::new().route("/healthz", get(async || "ok")), guard)
}

async fn read(identity: Identity, InPath(namespace): InPath<Namespace>) -> Result<String, Refusal> {
    identity.require(Permission::Read, &namespace)?;
    Ok(format!("what is in {namespace}"))
}

async fn enqueue(identity: Identity, InPath(task): InPath<(Namespace, TaskType)>) -> Result<(), Refusal> {
    identity.require_enqueue(&task.0, &task.1)
}

pub(crate) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> TestResponse {
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut text = String::new();
    // A connection that is closed without TLS close_notify after the response is fine.
    let _ = stream.read_to_string(&mut text).await;
    TestResponse { text }
}

pub(crate) struct TestResponse {
    pub(crate) text: String,
}

impl TestResponse {
    pub(crate) fn status(&self) -> u16 {
        let status = self.text.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("no answer of HTTP: {:?}", self.text))
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").expect("an answer has a body").1
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next().expect("an answer has a head");
        let headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// Asserts a problem document with this status and code, and returns its text.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status(), status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem: Value = serde_json::from_str(self.body()).expect("a problem document");
        assert_eq!((&problem["code"], &problem["status"]), (&Value::from(code), &Value::from(status)));
        for field in ["type", "title", "detail", "hint"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {problem}");
        }
        problem.to_string()
    }

    #[track_caller]
    pub(crate) fn allowed(&self) -> &str {
        assert_eq!(self.status(), 200, "{}", self.text);
        self.body()
    }
}

/// A directory of one test, removed with it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weaver-security-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for temporary files");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // Leftovers are harmless.
    }
}
