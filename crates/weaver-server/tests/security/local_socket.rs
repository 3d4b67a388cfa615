//! The server's Unix socket: callers are authenticated by the kernel.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weaver_api as wire;
use weaver_client::{Client, ClientError};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_server::api::AppState;
use weaver_server::dashboard::site;
use weaver_server::security::{Guard, GuardOptions, LocalAdmins, Tokens};
use weaver_server::serve::serve_local;

/// A user id that no admin of these tests has.
const STRANGER: u32 = 65_534;

/// A socket that every user can reach: the server refuses, not the file's mode.
struct Socket {
    directory: PathBuf,
    client: Client,
    _serving: JoinSet<()>,
}

impl Socket {
    fn open(name: &str, admins: LocalAdmins) -> Self {
        let directory = std::env::temp_dir().join(format!("wvr-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("its mode");
        let path = directory.join("s");
        let listener = UnixListener::bind(&path).expect("a short path");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("its mode");
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
        let tokens = Arc::new(Tokens::new(store.clone(), Arc::clone(&clock)));
        let state = AppState::new(store, Arc::clone(&clock)).with_tokens(Arc::clone(&tokens));
        let guard = Guard::new(GuardOptions {
            tokens: Some(tokens),
            clock,
            listen: "127.0.0.1:7117".parse().expect("an address"),
            hosts: Vec::new(),
            tls: false,
            behind_proxy: false,
        });
        let router = site(state.clone(), Arc::new(guard.expect("no hosts")));
        let mut serving = JoinSet::new();
        serving.spawn(serve_local(listener, admins, router, state, CancellationToken::new()));
        let client = Client::new(&format!("unix:{}", path.display())).expect("a path");
        Self { directory, client, _serving: serving }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory); // The name has the process id.
    }
}

fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").expect("Linux has it").uid()
}

#[tokio::test]
async fn the_servers_own_user_is_an_admin_without_a_token_and_is_named_in_the_audit_journal() {
    let socket = Socket::open("own", LocalAdmins::new(own_uid(), None));
    let new = wire::NewToken {
        name: "ci".to_owned(),
        role: wire::Role::Producer,
        namespaces: None,
        may_exec: true,
        expires_in_ms: Some(60_000),
    };
    let made = socket.client.create_token(&new).await.expect("an admin may");
    let query = wire::AuditQuery { namespace: Some("weaver.internal".to_owned()), ..Default::default() };
    let audit = socket.client.audit(&query).await.expect("an admin may");
    let entry = audit.entries.last().expect("it is written down");
    assert!(entry.actor.starts_with("local:") && entry.action == "token.create", "{entry:?}");
    // A token on the socket narrows the permissions.
    let lesser = socket.client.clone().with_token(made.token).expect("a socket is private");
    let refused = lesser.tokens(&wire::PageQuery::default()).await.expect_err("a producer may not");
    assert!(matches!(refused, ClientError::Refused(problem) if problem.status == 403));
}

#[tokio::test]
async fn a_login_link_from_the_socket_creates_an_admin_token_that_expires_with_the_session() {
    let socket = Socket::open("link", LocalAdmins::new(own_uid(), None));
    let link = socket.client.login_link().await.expect("an admin may");
    assert!(link.path.starts_with("/login?"), "{link:?}");
    let tokens = socket.client.tokens(&wire::PageQuery::default()).await.expect("an admin may").items;
    assert_eq!(tokens.len(), 1);
    assert!(tokens[0].expires_at.is_some() && tokens[0].created_by.starts_with("local:"), "{tokens:?}");
}

#[tokio::test]
async fn another_user_is_refused_on_the_socket_for_every_request() {
    let socket = Socket::open("other", LocalAdmins::new(STRANGER - 1, None));
    for path in ["/api/v1/tasks", "/healthz", "/login"] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", "-w", "\n%{http_code}", "--unix-socket"]);
        curl.arg(socket.directory.join("s")).arg(format!("http://localhost{path}"));
        if own_uid() == 0 {
            // Root is an admin everywhere.
            curl.uid(STRANGER).gid(STRANGER);
        }
        let run = tokio::task::spawn_blocking(move || curl.output()).await.expect("no panic");
        let answer = run.expect("curl starts: apt-get update && apt-get install curl");
        let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(answer.contains("not_a_local_admin") && answer.ends_with("\n403"), "{path}: {answer}");
    }
}
