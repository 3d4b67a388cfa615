//! The settings of a server's limits.

use crate::config::keys::Key;
use crate::config::kind::Kind;

pub(crate) static SERVE_TRUSTED_PROXIES: &Key = &Key {
    name: "serve.trusted_proxies",
    kind: Kind::Names,
    default: "private",
    about: "behind a proxy: networks whose X-Forwarded-For is trusted; `private`: loopback and private networks",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_CONNECTIONS: &Key = &Key {
    name: "serve.connections",
    kind: Kind::Count(16, 1_000_000),
    default: "16384",
    about: "maximum number of connections; capped by the limit on open files",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_CONNECTIONS_PER_TOKEN: &Key = &Key {
    name: "serve.connections_per_token",
    kind: Kind::Count(1, 1_000_000),
    default: "10000",
    about: "maximum number of connections per token; a long poll or event stream holds one",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_ANONYMOUS_PER_ADDRESS: &Key = &Key {
    name: "serve.anonymous_per_address",
    kind: Kind::Count(1, 100_000),
    default: "64",
    about: "maximum number of unauthenticated connections per address",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_ANONYMOUS_TIMEOUT: &Key = &Key {
    name: "serve.anonymous_timeout",
    kind: Kind::Span,
    default: "5s",
    about: "idle timeout of an unauthenticated connection, and its maximum wait to be accepted",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_BODY_BUDGET_MIB: &Key = &Key {
    name: "serve.body_budget_mib",
    kind: Kind::Count(16, 1_000_000),
    default: "256",
    about: "memory for request bodies that are read at the same time, in MiB",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_BODY_SHARE_MIB: &Key = &Key {
    name: "serve.body_share_mib",
    kind: Kind::Count(16, 1_000_000),
    default: "64",
    about: "share of that memory for one token, in MiB",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_BODY_TIMEOUT: &Key = &Key {
    name: "serve.body_timeout",
    kind: Kind::Span,
    default: "10s",
    about: "timeout between two chunks of a request body",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_QUEUES_PER_NAMESPACE: &Key = &Key {
    name: "serve.queues_per_namespace",
    kind: Kind::Count(1, 1_000_000),
    default: "1000",
    about: "maximum number of queues per namespace that can be created over HTTP",
    flag: None,
    is_place: false,
};
