//! The settings of a server's limits.

use crate::config::keys::Key;
use crate::config::kind::Kind;

pub(crate) static SERVE_TRUSTED_PROXIES: &Key = &Key {
    name: "serve.trusted_proxies",
    kind: Kind::Names,
    default: "private",
    about: "behind a proxy: the networks whose X-Forwarded-For counts; `private`: loopback and private networks",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_CONNECTIONS: &Key = &Key {
    name: "serve.connections",
    kind: Kind::Count(16, 1_000_000),
    default: "16384",
    about: "the most connections at once; fewer where the limit on open files is lower",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_CONNECTIONS_PER_TOKEN: &Key = &Key {
    name: "serve.connections_per_token",
    kind: Kind::Count(1, 1_000_000),
    default: "10000",
    about: "the most connections of one token; a long poll or event stream holds one",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_ANONYMOUS_PER_ADDRESS: &Key = &Key {
    name: "serve.anonymous_per_address",
    kind: Kind::Count(1, 100_000),
    default: "64",
    about: "the most connections of one address that have not shown a token",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_ANONYMOUS_TIMEOUT: &Key = &Key {
    name: "serve.anonymous_timeout",
    kind: Kind::Span,
    default: "5s",
    about: "how long such a connection may be silent, or wait for a place",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_BODY_BUDGET_MIB: &Key = &Key {
    name: "serve.body_budget_mib",
    kind: Kind::Count(16, 1_000_000),
    default: "256",
    about: "the most MiB of request bodies that are read at once",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_BODY_SHARE_MIB: &Key = &Key {
    name: "serve.body_share_mib",
    kind: Kind::Count(16, 1_000_000),
    default: "64",
    about: "the most of them for one token",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_BODY_TIMEOUT: &Key = &Key {
    name: "serve.body_timeout",
    kind: Kind::Span,
    default: "10s",
    about: "the longest pause between two parts of a request body",
    flag: None,
    is_place: false,
};

pub(crate) static SERVE_QUEUES_PER_NAMESPACE: &Key = &Key {
    name: "serve.queues_per_namespace",
    kind: Kind::Count(1, 1_000_000),
    default: "1000",
    about: "the most queues of a namespace that tasks and settings over HTTP can make",
    flag: None,
    is_place: false,
};
