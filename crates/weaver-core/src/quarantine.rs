//! Records that this process cannot read.
//!
//! A record is unreadable because it is damaged, was written by hand, or has a format that only a newer
//! Weaver knows. Such a record is *quarantined*: not leased, not expired, not changed.
//!
//! A finding belongs to the process that made it. It is kept in memory ([`Quarantine`]) and never written to
//! the store, so that an old node cannot disable what a newer one wrote.

mod ledger;
mod report;

use std::fmt;

pub use ledger::{QUARANTINE_MAX, Quarantine};
pub use report::{CheckProgress, CheckReport, DocumentReader, UnreadableRecord};

use serde::{Deserialize, Serialize};

use crate::id::TaskKey;
use crate::name::{Namespace, QueueName, SerialKey};
use crate::time::Timestamp;

/// What kind of record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A task: not leased, not expired, not changed.
    Task,
    /// The settings of a queue: the queue counts as paused until they are written again.
    QueueSettings,
    /// The heartbeat of a worker: the worker counts as absent.
    Runner,
    /// A document (a schedule, a merge queue, a setting): the part of Weaver that owns it skips it.
    Document,
}

impl RecordKind {
    /// The word for it in JSON, metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::QueueSettings => "queue_settings",
            Self::Runner => "runner",
            Self::Document => "document",
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum Unreadable {
    /// A newer Weaver wrote it. Not damage: a node of that version reads it.
    UnknownFormat {
        /// The format number in the record.
        found: u32,
        /// The newest this process knows.
        known: u32,
    },
    /// Its format is known, but its contents are invalid.
    Undecodable {
        /// The decoder's message, with the position if it has one.
        reason: String,
    },
}

impl Unreadable {
    /// What to do about a task that cannot be read. A newer format is never a reason to remove one.
    pub fn next_step(&self, key: &TaskKey) -> String {
        let (namespace, id) = (&key.namespace, key.shown_id());
        match self {
            Self::UnknownFormat { .. } => {
                "upgrade this node: the task was written by a newer version of Weaver".to_owned()
            }
            Self::Undecodable { .. } => {
                // For people: the reader quotes a namespace that needs quoting in a shell.
                let is_default = *namespace == Namespace::default();
                let flag = if is_default { String::new() } else { format!(" --namespace {namespace}") };
                format!(
                    "remove it with `weaver tasks purge {id} --yes{flag}`, which saves its stored form \
                     first; `weaver tasks quarantine` lists all unreadable records"
                )
            }
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFormat { found, known } => {
                write!(out, "it has format {found}; this version of Weaver reads formats up to {known}")
            }
            Self::Undecodable { reason } => write!(out, "it cannot be decoded: {reason}"),
        }
    }
}

/// One record that this process cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Task, queue settings, runner or document.
    pub kind: RecordKind,
    /// The namespace to which the record belongs.
    pub namespace: Namespace,
    /// Its id as stored: of a document, `kind/id`; of a task, as its client knows it.
    pub id: String,
    /// Why it cannot be read.
    pub reason: Unreadable,
    /// The queue of a task, if that much can be read.
    pub queue: Option<QueueName>,
    /// The state of a task in the store's own word, if that much can be read.
    pub state: Option<String>,
    /// The serial key it holds: later tasks of the key wait. `None` if it has none, or none can be read.
    pub serial_key: Option<SerialKey>,
    /// Whether it takes a slot of its queue's concurrency limit.
    pub holds_slot: bool,
    /// When this process found it, by the store's clock.
    pub found_at: Timestamp,
}

impl Quarantined {
    /// An unreadable record of which nothing more is known.
    pub fn new(
        kind: RecordKind,
        namespace: Namespace,
        id: impl Into<String>,
        reason: Unreadable,
        found_at: Timestamp,
    ) -> Self {
        let (queue, state, serial_key, holds_slot) = (None, None, None, false);
        Self { kind, namespace, id: id.into(), reason, queue, state, serial_key, holds_slot, found_at }
    }
}

/// The stored form of a task as text, for people, and as a copy before it is removed. Each store has its own
/// form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTask {
    /// JSON; bytes that are not text are hexadecimal.
    pub text: String,
}

/// The answer to a request to discard a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a task that changed was not removed"]
pub enum Discarded {
    /// It was removed, with its logs.
    Removed,
    /// Its stored form is no longer the one the caller saw: nothing was removed.
    Changed,
    /// There is no such task, or it was removed before.
    Missing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::id::TaskId;

    fn message(namespace: &'static str, reason: Unreadable) -> String {
        let key = TaskKey::new(Namespace::new(namespace).unwrap(), TaskId(7));
        Error::Quarantined { key, reason }.to_string()
    }

    #[test]
    fn the_word_for_a_kind_is_the_one_that_serde_writes() {
        for kind in [RecordKind::Task, RecordKind::QueueSettings, RecordKind::Runner, RecordKind::Document] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn only_what_is_damaged_is_advised_to_be_removed() {
        let damaged = || Unreadable::Undecodable { reason: "labels".to_owned() };
        assert!(message("default", damaged()).contains("`weaver tasks purge 7 --yes`"));
        assert!(message("other", damaged()).contains("`weaver tasks purge 7 --yes --namespace other`"));
        let newer = message("default", Unreadable::UnknownFormat { found: 2, known: 1 });
        assert!(newer.contains("upgrade this node") && !newer.contains("purge"), "{newer}");
    }
}
