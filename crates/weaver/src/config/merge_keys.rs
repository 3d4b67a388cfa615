//! The settings of merge queues.

use crate::config::keys::Key;
use crate::config::kind::Kind;

pub(crate) static MERGE_ENABLED: &Key = &Key {
    name: "merge.enabled",
    kind: Kind::Switch,
    default: "true",
    about: "whether a server processes merge queues; the repositories must be on its machine",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_NAMESPACE: &Key = &Key {
    name: "merge.namespace",
    kind: Kind::Text,
    default: "default",
    about: "namespace of the merge queues' documents, and of queues that are added without --namespace",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_RECONCILE_EVERY: &Key = &Key {
    name: "merge.reconcile_every",
    kind: Kind::Span,
    default: "30s",
    about: "interval of reconciling merge queues without an event",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_VERIFY_EVERY: &Key = &Key {
    name: "merge.verify_every",
    kind: Kind::Span,
    default: "1h",
    about: "interval of re-verifying 200 landings of each merge queue; a difference pauses the queue",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_CHECK_TIMEOUT: &Key = &Key {
    name: "merge.check_timeout",
    kind: Kind::Span,
    default: "60m",
    about: "timeout of a check, in total and without output",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_CHECK_BUDGET: &Key = &Key {
    name: "merge.check_budget",
    kind: Kind::Count(1, 1000),
    default: "4",
    about: "checks that run at once, over all merge queues",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_MAX_ACTIVE_QUEUES: &Key = &Key {
    name: "merge.max_active_queues",
    kind: Kind::Count(1, 1000),
    default: "16",
    about: "merge queues that are processed at once",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_RECONCILE_CONCURRENCY: &Key = &Key {
    name: "merge.reconcile_concurrency",
    kind: Kind::Count(1, 1000),
    default: "16",
    about: "merge queues that are reconciled at once; a repository whose git blocks holds up only its own",
    flag: None,
    is_place: false,
};

// The URL may hold a secret.
pub(crate) static MERGE_WEBHOOK: &Key = &Key {
    name: "merge.webhook",
    kind: Kind::Secret,
    default: "",
    about: "webhook URL that receives every merge queue notification as JSON",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_COMMAND: &Key = &Key {
    name: "merge.command",
    kind: Kind::Optional,
    default: "",
    about: "command of `handlers.exec.commands` that is run with every merge queue notification",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_KEY_FILE: &Key = &Key {
    name: "merge.key_file",
    kind: Kind::Optional,
    default: "",
    about: "signing key of this node; created when first needed; if unset, beside the store's directory",
    flag: None,
    is_place: true,
};

pub(crate) static MERGE_TRUSTED_KEYS: &Key = &Key {
    name: "merge.trusted_keys",
    kind: Kind::Optional,
    default: "",
    about: "file with the trusted public keys of other nodes, one per line",
    flag: None,
    is_place: true,
};

pub(crate) static MERGE_HOOKS_PATH: &Key = &Key {
    name: "merge.hooks_path",
    kind: Kind::Optional,
    default: "",
    about: "directory of server-side git hooks that run on landings instead of each repository's own",
    flag: None,
    is_place: true,
};
