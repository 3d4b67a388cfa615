//! The real server on a free port, and a client that sends exactly the given bytes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weaver_client::sse::{SseEvent, SseReader};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::network::Network;
use weaver_core::ports::Store;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_embedded::EmbeddedStore;
use weaver_runtime::SystemClock;
use weaver_server::api::{ApiLimits, AppState, router};
use weaver_server::dashboard::site;
use weaver_server::security::{Guard, GuardOptions, NamespaceScope, NewToken, Role, TokenText, Tokens};
use weaver_server::serve::serve;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) state: AppState,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Server {
    /// Over a store in memory, on the machine's clock.
    pub(crate) async fn start() -> Self {
        Self::with_limits(ApiLimits::default()).await
    }

    pub(crate) async fn with_limits(limits: ApiLimits) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self::over(Arc::new(InMemoryQueue::new(Arc::clone(&clock))), clock, limits).await
    }

    /// Over a store in memory, on a manual clock.
    pub(crate) async fn on_manual_clock() -> (Self, ManualClock) {
        let clock = ManualClock::default();
        let store = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        (Self::over(store, Arc::new(clock.clone()), ApiLimits::default()).await, clock)
    }

    /// Over a durable store in a directory.
    pub(crate) async fn on_disk(directory: &Path) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = EmbeddedStore::open(directory, Arc::clone(&clock)).expect("a store");
        Self::over(Arc::new(store), clock, ApiLimits::default()).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>, clock: Arc<dyn Clock>, limits: ApiLimits) -> Self {
        let state = AppState::with_limits(Arc::clone(&store), clock, limits);
        Self::serving(store, state.clone(), router(state)).await
    }

    pub(crate) async fn serving(store: Arc<dyn Store>, state: AppState, routes: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::listening(listener, store, state, routes)
    }

    pub(crate) fn listening(
        listener: TcpListener,
        store: Arc<dyn Store>,
        state: AppState,
        routes: Router,
    ) -> Self {
        let address = listener.local_addr().expect("it is bound");
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, routes, state.clone(), stop.clone()));
        Self { address, store, state, stop, serving: tasks }
    }

    /// Over a store in memory, with tokens; and a token of this role.
    pub(crate) async fn guarded(name: &str, role: Role) -> (Self, String) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
        let (server, tokens) = Self::guarding(store, clock, ApiLimits::default()).await;
        let token = token(&tokens, name, role, NamespaceScope::All).await;
        (server, token.expose().to_owned())
    }

    /// Over a store, with tokens; and what creates and revokes them.
    pub(crate) async fn guarding(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        limits: ApiLimits,
    ) -> (Self, Arc<Tokens>) {
        Self::guarding_behind(store, clock, limits, Vec::new()).await
    }

    /// The same behind proxies on these networks.
    pub(crate) async fn guarding_behind(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        limits: ApiLimits,
        proxies: Vec<Network>,
    ) -> (Self, Arc<Tokens>) {
        let documents: Arc<dyn weaver_core::ports::Documents> = store.clone();
        let tokens = Arc::new(Tokens::new(documents, Arc::clone(&clock)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let guard = Guard::new(GuardOptions {
            tokens: Some(Arc::clone(&tokens)),
            clock: Arc::clone(&clock),
            listen: listener.local_addr().expect("it is bound"),
            hosts: Vec::new(),
            tls: false,
            behind_proxy: !proxies.is_empty(),
        });
        let state = AppState::with_limits(store.clone(), clock, limits);
        let state = state.with_tokens(Arc::clone(&tokens)).with_proxies(proxies);
        let guard = Arc::new(guard.expect("its hosts are hosts"));
        (Self::listening(listener, store, state.clone(), site(state, guard)), tokens)
    }

    /// A `POST` of JSON with a token.
    pub(crate) async fn post_as(&self, token: &TokenText, path: &str, body: &Value) -> TestResponse {
        let headers = format!("{}Content-Type: application/json\r\n", bearer(token));
        self.send(&request("POST", path, self.address, &headers, &body.to_string())).await
    }

    /// A `GET` with a token.
    pub(crate) async fn get_as(&self, token: &TokenText, path: &str) -> TestResponse {
        self.send(&request("GET", path, self.address, &bearer(token), "")).await
    }

    /// Shuts down like on a signal, and waits until everything has ended.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.serving.join_next().await.is_some() {}
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send(&request("GET", path, self.address, "", "")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.with_body("POST", path, &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> TestResponse {
        self.with_body("PUT", path, &body.to_string()).await
    }

    /// A `POST` without a body.
    pub(crate) async fn post_empty(&self, path: &str) -> TestResponse {
        self.send(&request("POST", path, self.address, "", "")).await
    }

    pub(crate) async fn with_body(&self, method: &str, path: &str, body: &str) -> TestResponse {
        let headers = "Content-Type: application/json\r\n";
        self.send(&request(method, path, self.address, headers, body)).await
    }

    /// Sends a request as written, and reads until the server closes.
    pub(crate) async fn send(&self, request: &str) -> TestResponse {
        let mut stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.write_all(request.as_bytes()).await.expect("the server reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("the server answers");
        TestResponse::parse(&bytes)
    }

    /// Opens a stream of events.
    pub(crate) async fn events(&self, path: &str, headers: &str) -> Events {
        let mut stream = TcpStream::connect(self.address).await.expect("the server listens");
        let request = request("GET", path, self.address, headers, "");
        stream.write_all(request.as_bytes()).await.expect("the server reads");
        let mut events = Events { stream: BufReader::new(stream), sse: SseReader::default() };
        while !events.line().await.expect("headers").trim().is_empty() {}
        events
    }

    /// A stream with an invalid `Last-Event-ID` is refused; the problem names the header and has a hint.
    pub(crate) async fn refuses_event_id(&self, path: &str, id: &str) {
        let request = request("GET", path, self.address, &format!("Last-Event-ID: {id}\r\n"), "");
        let problem = self.send(&request).await.problem(400, "invalid_last_event_id");
        assert_eq!(problem["field"], "last-event-id", "{id}: {problem}");
    }

    /// Enqueues a task of type `t`, and returns its id.
    pub(crate) async fn enqueue(&self, more: Value) -> String {
        let mut task = json!({ "task_type": "t" });
        merge(&mut task, more);
        let answer = self.post("/api/v1/tasks", &task).await.expect(201);
        answer["id"].as_str().expect("an id").to_owned()
    }

    /// Leases one task of the default queue as worker `w`.
    pub(crate) async fn lease(&self, token: u128) -> Value {
        let answer = self.post("/api/v1/work/lease", &lease_request(token)).await.expect(200);
        answer["tasks"][0].clone()
    }
}

/// Creates a token that does not expire.
pub(crate) async fn token(tokens: &Tokens, name: &str, role: Role, namespaces: NamespaceScope) -> TokenText {
    let new = NewToken {
        name: name.to_owned(),
        role,
        namespaces,
        may_exec: false,
        expires_at: None,
        created_by: "the test".to_owned(),
    };
    tokens.create(new).await.expect("a token").0
}

pub(crate) fn bearer(token: &TokenText) -> String {
    format!("Authorization: Bearer {}\r\n", token.expose())
}

pub(crate) fn lease_request(token: u128) -> Value {
    json!({ "worker": "w", "token": format!("{token:032x}") })
}

pub(crate) fn merge(value: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (value, more) {
        fields.extend(more);
    }
}

pub(crate) fn request(method: &str, path: &str, host: SocketAddr, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

/// A parsed response.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl TestResponse {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Self { status, headers: head.to_lowercase(), body: body.to_owned() }
    }

    /// The body of a response that must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.body.is_empty() { Value::Null } else { serde_json::from_str(&self.body).expect("JSON") }
    }

    /// A problem with this status and code; returns the document.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.expect(status);
        assert!(self.headers.contains("content-type: application/problem+json"), "{self:?}");
        assert_eq!(problem["code"], code, "{self:?}");
        assert_eq!(problem["status"], status, "{self:?}");
        assert!(problem["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{self:?}");
        problem
    }
}

/// A stream of events.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    sse: SseReader,
}

pub(crate) type Event = SseEvent;

impl Events {
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.expect("text");
        (read > 0).then_some(line)
    }

    /// The next event or comment; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.sse.next_event() {
                return Some(event);
            }
            // A chunk: its length in hex, its bytes, an empty line. The last one has no bytes.
            let length = usize::from_str_radix(self.line().await?.trim(), 16).expect("the length of a chunk");
            if length == 0 {
                return None;
            }
            let mut chunk = vec![0; length + 2];
            self.stream.read_exact(&mut chunk).await.ok()?;
            self.sse.push(&chunk[..length]);
        }
    }

    /// The next event that has data.
    pub(crate) async fn data(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if !event.data.is_empty() {
                return event;
            }
        }
    }
}

/// A directory of one test, removed with it.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weaver-api-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Best effort: leftovers are in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
