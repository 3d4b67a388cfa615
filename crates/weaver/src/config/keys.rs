//! All settings: name, kind and default. The variable is `WEAVER_` and the name in capitals.

use crate::config::kind::Kind;
pub(crate) use crate::config::limit_keys::{
    SERVE_ANONYMOUS_PER_ADDRESS, SERVE_ANONYMOUS_TIMEOUT, SERVE_BODY_BUDGET_MIB, SERVE_BODY_SHARE_MIB,
    SERVE_BODY_TIMEOUT, SERVE_CONNECTIONS, SERVE_CONNECTIONS_PER_TOKEN, SERVE_QUEUES_PER_NAMESPACE,
    SERVE_TRUSTED_PROXIES,
};
pub(crate) use crate::config::merge_keys::{
    MERGE_CHECK_BUDGET, MERGE_CHECK_TIMEOUT, MERGE_COMMAND, MERGE_ENABLED, MERGE_HOOKS_PATH, MERGE_KEY_FILE,
    MERGE_MAX_ACTIVE_QUEUES, MERGE_NAMESPACE, MERGE_RECONCILE_CONCURRENCY, MERGE_RECONCILE_EVERY,
    MERGE_TRUSTED_KEYS, MERGE_VERIFY_EVERY, MERGE_WEBHOOK,
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// As in `weaver.toml`; a dot stands for a table.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    /// The description in `weaver config show` and the guide.
    pub(crate) about: &'static str,
    pub(crate) flag: Option<&'static str>,
    /// Whether a relative path is resolved from the file it is set in.
    pub(crate) is_place: bool,
}

impl Key {
    pub(crate) fn variable(&self) -> String {
        format!("WEAVER_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

pub(crate) static STORE: &Key = &Key {
    name: "store",
    kind: Kind::Text,
    default: "./weaver-data",
    about: "the store: a directory, or a store URL",
    flag: Some("--store"),
    is_place: true,
};

pub(crate) static RETENTION: &Key = &Key {
    name: "retention",
    kind: Kind::Span,
    default: "30d",
    about: "retention of finished tasks",
    flag: None,
    is_place: false,
};

pub(crate) static DYNAMODB_ALLOW_AWS: &Key = &Key {
    name: "dynamodb.allow_aws",
    kind: Kind::Switch,
    default: "false",
    about: "allow a DynamoDB endpoint that is not on this machine",
    flag: None,
    is_place: false,
};

pub(crate) static SERVER: &Key = &Key {
    name: "server",
    kind: Kind::Optional,
    default: "",
    about: "server that commands talk to: a URL, or unix:PATH of its socket; if unset, this user's server on this machine",
    flag: Some("--server"),
    is_place: false,
};

pub(crate) static NAMESPACE: &Key = &Key {
    name: "namespace",
    kind: Kind::Text,
    default: "default",
    about: "namespace that commands work on",
    flag: Some("--namespace"),
    is_place: false,
};

// No flag: other users of the machine can read the command lines of processes.
pub(crate) static TOKEN: &Key = &Key {
    name: "token",
    kind: Kind::Secret,
    default: "",
    about: "API token, sent to the server that a flag or variable names; not needed for this user's own server",
    flag: None,
    is_place: false,
};

pub(crate) static PROXY: &Key = &Key {
    name: "proxy",
    kind: Kind::Optional,
    default: "",
    about: "HTTP proxy to the server: a URL, or `environment` for HTTP_PROXY and HTTPS_PROXY; none if unset",
    flag: Some("--proxy"),
    is_place: false,
};

pub(crate) static INSECURE_HTTP: &Key = &Key {
    name: "insecure_http",
    kind: Kind::Switch,
    default: "false",
    about: "allow sending a token over plain HTTP to another machine",
    flag: Some("--insecure-http"),
    is_place: false,
};

pub(crate) static WORKER_QUEUES: &Key = &Key {
    name: "worker.queues",
    kind: Kind::Names,
    default: "default",
    about: "queues that a worker serves",
    flag: Some("--queues"),
    is_place: false,
};

pub(crate) static WORKER_NAMESPACES: &Key = &Key {
    name: "worker.namespaces",
    kind: Kind::Names,
    default: "default",
    about: "namespaces that a worker serves; `*`: all",
    flag: Some("--namespaces"),
    is_place: false,
};

pub(crate) static WORKER_CONCURRENCY: &Key = &Key {
    name: "worker.concurrency",
    kind: Kind::Count(1, 100_000),
    default: "16",
    about: "tasks that a worker runs at once",
    flag: Some("--concurrency"),
    is_place: false,
};

pub(crate) static WORKER_GRACE: &Key = &Key {
    name: "worker.grace",
    kind: Kind::Span,
    default: "30s",
    about: "grace period for running tasks when a worker shuts down",
    flag: Some("--grace"),
    is_place: false,
};

pub(crate) static RUNNER_POLL: &Key = &Key {
    name: "runner.poll",
    kind: Kind::Span,
    default: "1s",
    about: "poll and heartbeat interval of a runner",
    flag: Some("--poll"),
    is_place: false,
};

pub(crate) static RUNNER_LEASE: &Key = &Key {
    name: "runner.lease",
    kind: Kind::Span,
    default: "120s",
    about: "lease TTL of a runner; a lease that cannot be renewed for this long stops its prompt",
    flag: Some("--lease"),
    is_place: false,
};

pub(crate) static RUNNER_GRACE: &Key = &Key {
    name: "runner.grace",
    kind: Kind::Span,
    default: "30s",
    about: "grace period for the running prompt when a runner shuts down",
    flag: Some("--grace"),
    is_place: false,
};

pub(crate) static RUNNER_KILL_GRACE: &Key = &Key {
    name: "runner.kill_grace",
    kind: Kind::Span,
    default: "5s",
    about: "time between SIGTERM and SIGKILL for an agent's command",
    flag: Some("--kill-grace"),
    is_place: false,
};

pub(crate) static RUNNER_LOG_MAX_BYTES: &Key = &Key {
    name: "runner.log_max_bytes",
    kind: Kind::Count(4_096, 1_073_741_824),
    default: "4194304",
    about: "bytes of an agent's output that its log keeps: three quarters from the start, a quarter from the end",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_LISTEN: &Key = &Key {
    name: "serve.listen",
    kind: Kind::Text,
    default: "127.0.0.1:7117",
    about: "address that a server listens on",
    flag: Some("--listen"),
    is_place: false,
};

pub(crate) static SERVE_HOSTS: &Key = &Key {
    name: "serve.hosts",
    kind: Kind::Names,
    default: "localhost",
    about: "host names that a server accepts, besides those of this machine",
    flag: Some("--hosts"),
    is_place: false,
};

pub(crate) static SERVE_TLS_CERTIFICATE: &Key = &Key {
    name: "serve.tls_certificate",
    kind: Kind::Optional,
    default: "",
    about: "TLS certificate chain of a server, a PEM file",
    flag: Some("--tls-certificate"),
    is_place: true,
};

pub(crate) static SERVE_TLS_KEY: &Key = &Key {
    name: "serve.tls_key",
    kind: Kind::Optional,
    default: "",
    about: "TLS private key of a server, a PEM file",
    flag: Some("--tls-key"),
    is_place: true,
};

pub(crate) static SERVE_BEHIND_PROXY: &Key = &Key {
    name: "serve.behind_proxy",
    kind: Kind::Switch,
    default: "false",
    about: "a reverse proxy terminates TLS and sets X-Forwarded-For",
    flag: Some("--behind-proxy"),
    is_place: false,
};

pub(crate) static SERVE_SOCKET: &Key = &Key {
    name: "serve.socket",
    kind: Kind::Optional,
    default: "",
    about: "Unix socket of a server, for local admins; if unset, in the user's runtime directory",
    flag: Some("--socket"),
    is_place: true,
};

pub(crate) static SERVE_ADMIN_GROUP: &Key = &Key {
    name: "serve.admin_group",
    kind: Kind::Optional,
    default: "",
    about: "group of /etc/group whose members are admins on the socket, besides the server's user and root",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_ADMIN_TOKEN_FILE: &Key = &Key {
    name: "serve.admin_token_file",
    kind: Kind::Optional,
    default: "",
    about: "file with the first admin token, created if it does not exist; for containers",
    flag: None,
    is_place: true,
};

pub(crate) static LOG: &Key = &Key {
    name: "log",
    kind: Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
    default: "info",
    about: "log level, on standard error",
    flag: Some("--log"),
    is_place: false,
};

pub(crate) static OUTPUT: &Key = &Key {
    name: "output",
    kind: Kind::Choice(&["table", "json"]),
    default: "table",
    about: "output format",
    flag: Some("--output"),
    is_place: false,
};

pub(crate) static COLOR: &Key = &Key {
    name: "color",
    kind: Kind::Choice(&["auto", "always", "never"]),
    default: "auto",
    about: "color; auto: on a terminal, unless NO_COLOR is set",
    flag: Some("--color"),
    is_place: false,
};

pub(crate) static ALL: &[&Key] = &[
    STORE,
    RETENTION,
    DYNAMODB_ALLOW_AWS,
    SERVER,
    NAMESPACE,
    TOKEN,
    PROXY,
    INSECURE_HTTP,
    WORKER_QUEUES,
    WORKER_NAMESPACES,
    WORKER_CONCURRENCY,
    WORKER_GRACE,
    RUNNER_POLL,
    RUNNER_LEASE,
    RUNNER_GRACE,
    RUNNER_KILL_GRACE,
    RUNNER_LOG_MAX_BYTES,
    SERVE_LISTEN,
    SERVE_HOSTS,
    SERVE_TLS_CERTIFICATE,
    SERVE_TLS_KEY,
    SERVE_BEHIND_PROXY,
    SERVE_SOCKET,
    SERVE_ADMIN_GROUP,
    SERVE_ADMIN_TOKEN_FILE,
    SERVE_TRUSTED_PROXIES,
    SERVE_CONNECTIONS,
    SERVE_CONNECTIONS_PER_TOKEN,
    SERVE_ANONYMOUS_PER_ADDRESS,
    SERVE_ANONYMOUS_TIMEOUT,
    SERVE_BODY_BUDGET_MIB,
    SERVE_BODY_SHARE_MIB,
    SERVE_BODY_TIMEOUT,
    SERVE_QUEUES_PER_NAMESPACE,
    MERGE_ENABLED,
    MERGE_NAMESPACE,
    MERGE_RECONCILE_EVERY,
    MERGE_VERIFY_EVERY,
    MERGE_CHECK_TIMEOUT,
    MERGE_CHECK_BUDGET,
    MERGE_MAX_ACTIVE_QUEUES,
    MERGE_RECONCILE_CONCURRENCY,
    MERGE_WEBHOOK,
    MERGE_COMMAND,
    MERGE_KEY_FILE,
    MERGE_TRUSTED_KEYS,
    MERGE_HOOKS_PATH,
    LOG,
    OUTPUT,
    COLOR,
];
