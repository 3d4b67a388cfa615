//! The settings of merge queues.

use crate::config::keys::Key;
use crate::config::kind::Kind;

pub(crate) static MERGE_ENABLED: &Key = &Key {
    name: "merge.enabled",
    kind: Kind::Switch,
    default: "true",
    about: "whether a server works on merge queues; the repositories must be on its machine",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_NAMESPACE: &Key = &Key {
    name: "merge.namespace",
    kind: Kind::Text,
    default: "default",
    about: "the namespace that merge queues and their checks are in",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_RECONCILE_EVERY: &Key = &Key {
    name: "merge.reconcile_every",
    kind: Kind::Span,
    default: "30s",
    about: "how often merge queues are looked at if nothing happens",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_VERIFY_EVERY: &Key = &Key {
    name: "merge.verify_every",
    kind: Kind::Span,
    default: "1h",
    about: "how often 200 landings of each merge queue's history are verified again; a difference pauses the queue",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_CHECK_TIMEOUT: &Key = &Key {
    name: "merge.check_timeout",
    kind: Kind::Span,
    default: "60m",
    about: "how long a check may take, or be silent",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_CHECK_BUDGET: &Key = &Key {
    name: "merge.check_budget",
    kind: Kind::Count(1, 1000),
    default: "4",
    about: "how many checks run at once, over all merge queues",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_MAX_ACTIVE_QUEUES: &Key = &Key {
    name: "merge.max_active_queues",
    kind: Kind::Count(1, 1000),
    default: "16",
    about: "how many merge queues are processed at once",
    flag: None,
    is_place: false,
};

// It may have a secret in it.
pub(crate) static MERGE_WEBHOOK: &Key = &Key {
    name: "merge.webhook",
    kind: Kind::Secret,
    default: "",
    about: "a URL that is sent every message about merge queues, as JSON",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_COMMAND: &Key = &Key {
    name: "merge.command",
    kind: Kind::Optional,
    default: "",
    about: "a command of `handlers.exec.commands` that is run with every message about merge queues",
    flag: None,
    is_place: false,
};

pub(crate) static MERGE_KEY_FILE: &Key = &Key {
    name: "merge.key_file",
    kind: Kind::Optional,
    default: "",
    about: "the key this node signs landings with; made when it is first needed, beside the store's directory if not given",
    flag: None,
    is_place: true,
};

pub(crate) static MERGE_TRUSTED_KEYS: &Key = &Key {
    name: "merge.trusted_keys",
    kind: Kind::Optional,
    default: "",
    about: "a file of the public keys of other nodes, one a line, whose signatures on landings count too",
    flag: None,
    is_place: true,
};

pub(crate) static MERGE_HOOKS_PATH: &Key = &Key {
    name: "merge.hooks_path",
    kind: Kind::Optional,
    default: "",
    about: "a directory of server-side git hooks that run on landings in place of each repository's own",
    flag: None,
    is_place: true,
};
