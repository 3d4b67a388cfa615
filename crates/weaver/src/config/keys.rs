//! Every setting there is: its name, kind and default. The variable is made of the name: `WEAVER_` and
//! capitals.

use crate::config::kind::Kind;
pub(crate) use crate::config::limit_keys::{
    SERVE_ANONYMOUS_PER_ADDRESS, SERVE_ANONYMOUS_TIMEOUT, SERVE_BODY_BUDGET_MIB, SERVE_BODY_SHARE_MIB,
    SERVE_BODY_TIMEOUT, SERVE_CONNECTIONS, SERVE_CONNECTIONS_PER_TOKEN, SERVE_QUEUES_PER_NAMESPACE,
    SERVE_TRUSTED_PROXIES,
};
pub(crate) use crate::config::merge_keys::{
    MERGE_CHECK_BUDGET, MERGE_CHECK_TIMEOUT, MERGE_COMMAND, MERGE_ENABLED, MERGE_HOOKS_PATH, MERGE_KEY_FILE,
    MERGE_MAX_ACTIVE_QUEUES, MERGE_NAMESPACE, MERGE_RECONCILE_EVERY, MERGE_TRUSTED_KEYS, MERGE_VERIFY_EVERY,
    MERGE_WEBHOOK,
};

/// A setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// As in `weaver.toml`; a dot stands for a table.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    /// A line for people.
    pub(crate) about: &'static str,
    /// The flag that sets it.
    pub(crate) flag: Option<&'static str>,
    /// Whether it may be a path, which counts from the file it stands in.
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
    about: "where the tasks are: a directory, or a store's URL",
    flag: Some("--store"),
    is_place: true,
};

pub(crate) static RETENTION: &Key = &Key {
    name: "retention",
    kind: Kind::Span,
    default: "30d",
    about: "how long finished tasks are kept",
    flag: None,
    is_place: false,
};

pub(crate) static DYNAMODB_ALLOW_AWS: &Key = &Key {
    name: "dynamodb.allow_aws",
    kind: Kind::Switch,
    default: "false",
    about: "whether a DynamoDB that is not on this machine may be used",
    flag: None,
    is_place: false,
};

pub(crate) static SERVER: &Key = &Key {
    name: "server",
    kind: Kind::Optional,
    default: "",
    about: "the server that commands talk to: its address, or unix:PATH of its socket; this user's on this machine if not set",
    flag: Some("--server"),
    is_place: false,
};

pub(crate) static NAMESPACE: &Key = &Key {
    name: "namespace",
    kind: Kind::Text,
    default: "default",
    about: "the namespace that commands are about",
    flag: Some("--namespace"),
    is_place: false,
};

// No flag: other users of the machine can read the command lines of processes.
pub(crate) static TOKEN: &Key = &Key {
    name: "token",
    kind: Kind::Secret,
    default: "",
    about: "shown to the server that a flag or variable names; this user's own server needs none",
    flag: None,
    is_place: false,
};

pub(crate) static PROXY: &Key = &Key {
    name: "proxy",
    kind: Kind::Optional,
    default: "",
    about: "the proxy to the server: a URL, or `environment` for HTTP_PROXY and HTTPS_PROXY; none if not set",
    flag: Some("--proxy"),
    is_place: false,
};

pub(crate) static INSECURE_HTTP: &Key = &Key {
    name: "insecure_http",
    kind: Kind::Switch,
    default: "false",
    about: "whether a token may be sent over plain HTTP to another machine",
    flag: Some("--insecure-http"),
    is_place: false,
};

pub(crate) static WORKER_QUEUES: &Key = &Key {
    name: "worker.queues",
    kind: Kind::Names,
    default: "default",
    about: "the queues a worker takes tasks from",
    flag: Some("--queues"),
    is_place: false,
};

pub(crate) static WORKER_NAMESPACES: &Key = &Key {
    name: "worker.namespaces",
    kind: Kind::Names,
    default: "default",
    about: "the namespaces a worker takes tasks from; `*`: all there are",
    flag: Some("--namespaces"),
    is_place: false,
};

pub(crate) static WORKER_CONCURRENCY: &Key = &Key {
    name: "worker.concurrency",
    kind: Kind::Count(1, 100_000),
    default: "16",
    about: "how many tasks a worker runs at once",
    flag: Some("--concurrency"),
    is_place: false,
};

pub(crate) static WORKER_GRACE: &Key = &Key {
    name: "worker.grace",
    kind: Kind::Span,
    default: "30s",
    about: "how long tasks may go on after a worker was told to stop",
    flag: Some("--grace"),
    is_place: false,
};

pub(crate) static RUNNER_POLL: &Key = &Key {
    name: "runner.poll",
    kind: Kind::Span,
    default: "1s",
    about: "between two polls of a runner, and two heartbeats",
    flag: Some("--poll"),
    is_place: false,
};

pub(crate) static RUNNER_LEASE: &Key = &Key {
    name: "runner.lease",
    kind: Kind::Span,
    default: "120s",
    about: "how long a runner's leases last: out of touch for longer, it ends its prompt",
    flag: Some("--lease"),
    is_place: false,
};

pub(crate) static RUNNER_GRACE: &Key = &Key {
    name: "runner.grace",
    kind: Kind::Span,
    default: "30s",
    about: "how long a prompt may go on after its runner was told to stop",
    flag: Some("--grace"),
    is_place: false,
};

pub(crate) static RUNNER_KILL_GRACE: &Key = &Key {
    name: "runner.kill_grace",
    kind: Kind::Span,
    default: "5s",
    about: "how long an agent's command may take to end after SIGTERM",
    flag: Some("--kill-grace"),
    is_place: false,
};

pub(crate) static RUNNER_LOG_MAX_BYTES: &Key = &Key {
    name: "runner.log_max_bytes",
    kind: Kind::Count(4_096, 1_073_741_824),
    default: "4194304",
    about: "how many bytes of an agent's output its log keeps: three quarters of its beginning, a quarter of its end",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_LISTEN: &Key = &Key {
    name: "serve.listen",
    kind: Kind::Text,
    default: "127.0.0.1:7117",
    about: "the address a server listens on",
    flag: Some("--listen"),
    is_place: false,
};

pub(crate) static SERVE_HOSTS: &Key = &Key {
    name: "serve.hosts",
    kind: Kind::Names,
    default: "localhost",
    about: "the names a server is reached by, besides those of this machine",
    flag: Some("--hosts"),
    is_place: false,
};

pub(crate) static SERVE_TLS_CERTIFICATE: &Key = &Key {
    name: "serve.tls_certificate",
    kind: Kind::Optional,
    default: "",
    about: "a server's certificate with its chain, a PEM file",
    flag: Some("--tls-certificate"),
    is_place: true,
};

pub(crate) static SERVE_TLS_KEY: &Key = &Key {
    name: "serve.tls_key",
    kind: Kind::Optional,
    default: "",
    about: "the certificate's private key, a PEM file",
    flag: Some("--tls-key"),
    is_place: true,
};

pub(crate) static SERVE_BEHIND_PROXY: &Key = &Key {
    name: "serve.behind_proxy",
    kind: Kind::Switch,
    default: "false",
    about: "a proxy in front does TLS, and says where requests come from",
    flag: Some("--behind-proxy"),
    is_place: false,
};

pub(crate) static SERVE_SOCKET: &Key = &Key {
    name: "serve.socket",
    kind: Kind::Optional,
    default: "",
    about: "the Unix socket of a server, for admins of its machine; in the user's runtime directory if not set",
    flag: Some("--socket"),
    is_place: true,
};

pub(crate) static SERVE_ADMIN_GROUP: &Key = &Key {
    name: "serve.admin_group",
    kind: Kind::Optional,
    default: "",
    about: "a group of /etc/group whose members are admins on the socket, besides the server's user and root",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_ADMIN_TOKEN_FILE: &Key = &Key {
    name: "serve.admin_token_file",
    kind: Kind::Optional,
    default: "",
    about: "a file with a first admin token, made if it is not there; for containers",
    flag: None,
    is_place: true,
};

pub(crate) static LOG: &Key = &Key {
    name: "log",
    kind: Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
    default: "info",
    about: "how much is logged, on standard error",
    flag: Some("--log"),
    is_place: false,
};

pub(crate) static OUTPUT: &Key = &Key {
    name: "output",
    kind: Kind::Choice(&["table", "json"]),
    default: "table",
    about: "how answers are printed",
    flag: Some("--output"),
    is_place: false,
};

pub(crate) static COLOR: &Key = &Key {
    name: "color",
    kind: Kind::Choice(&["auto", "always", "never"]),
    default: "auto",
    about: "colours; auto: on a terminal, unless NO_COLOR is set",
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
    MERGE_WEBHOOK,
    MERGE_COMMAND,
    MERGE_KEY_FILE,
    MERGE_TRUSTED_KEYS,
    MERGE_HOOKS_PATH,
    LOG,
    OUTPUT,
    COLOR,
];
