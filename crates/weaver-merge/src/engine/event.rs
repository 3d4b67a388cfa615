//! Events for programs: appended to the journal after the change they report is stored.

use serde::{Deserialize, Serialize};
use weaver_core::name::Namespace;
use weaver_core::ports::StreamKey;

use crate::domain::{
    Check, EntryId, EntryOutcome, ForeignMove, MergeQueue, Notice, Oid, QueueEntry, QueueId, Reason,
};

/// Journal stream of a queue's events.
pub fn event_stream(namespace: &Namespace, queue: &QueueId) -> StreamKey {
    StreamKey::new(namespace.clone(), format!("merge/{queue}"))
}

/// An event as it is stored in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEvent {
    /// The queue it happened to.
    pub queue: QueueId,
    /// Deduplication key: equal if the same event was appended twice.
    pub key: String,
    /// Stored inline, tagged by `event`.
    #[serde(flatten)]
    pub event: Event,
}

/// What an entry is pinned to, and by whom; empty in events of older versions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pinned {
    /// The head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Oid>,
    /// The authenticated subject or local user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_by: Option<String>,
}

impl Pinned {
    fn of(entry: &QueueEntry) -> Self {
        Self { head: Some(entry.pull_request.head.clone()), enqueued_by: entry.enqueued_by.clone() }
    }
}

/// An event of a merge queue. Delivery is at-least-once: a crash may append it twice; `key` deduplicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// An entry was enqueued.
    QueueEntryAdded {
        /// Number of the entry.
        entry: EntryId,
        /// Id of the change.
        pull_request: String,
        /// Stored inline.
        #[serde(flatten)]
        pinned: Pinned,
        /// Position in the queue, from 1.
        position: usize,
    },
    /// An entry was removed without landing.
    QueueEntryRemoved {
        /// Number of the entry.
        entry: EntryId,
        /// Id of the change.
        pull_request: String,
        /// Stored inline.
        #[serde(flatten)]
        pinned: Pinned,
        /// Stored inline, tagged by `reason`.
        #[serde(flatten)]
        reason: Reason,
        /// Checks of its last candidate, with every run.
        results: Vec<Check>,
    },
    /// An entry landed on the base.
    PullRequestMerged {
        /// Number of the entry.
        entry: EntryId,
        /// Id of the change.
        pull_request: String,
        /// Stored inline.
        #[serde(flatten)]
        pinned: Pinned,
        /// New tip of the base.
        commit: Option<Oid>,
        /// The tested tree.
        tree: Option<Oid>,
    },
    /// A change of the base outside the queue was accepted.
    BaseMovedOutside {
        /// What changed, stored inline.
        #[serde(flatten)]
        moved: ForeignMove,
        /// Operator, or the setting that accepted it.
        accepted_by: String,
    },
    /// The queue was paused.
    QueuePaused {
        /// The reason and what to do.
        problem: String,
    },
    /// A step keeps failing and is retried.
    #[serde(rename = "queue_trouble")]
    QueueFault {
        /// Number of the entry.
        entry: EntryId,
        /// The last error, for people.
        problem: String,
    },
    /// The queue was removed. Its journal continues if it is added again.
    QueueRemoved {
        /// The authenticated subject or local user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Entries that were cancelled with it.
        entries: usize,
    },
}

impl Event {
    pub(crate) fn of(notice: &Notice) -> Self {
        match notice {
            Notice::Added { entry, position } => Self::QueueEntryAdded {
                entry: entry.id,
                pull_request: entry.pull_request.id.clone(),
                pinned: Pinned::of(entry),
                position: *position,
            },
            Notice::Completed { entry, outcome: EntryOutcome::Landed, .. } => Self::merged(entry),
            Notice::Completed { entry, outcome: EntryOutcome::Removed(reason), .. } => {
                Self::QueueEntryRemoved {
                    entry: entry.id,
                    pull_request: entry.pull_request.id.clone(),
                    pinned: Pinned::of(entry),
                    reason: reason.clone(),
                    results: entry.checks.clone(),
                }
            }
            Notice::Foreign { moved, accepted_by, .. } => {
                Self::BaseMovedOutside { moved: (**moved).clone(), accepted_by: accepted_by.clone() }
            }
            Notice::Paused { reason } => Self::QueuePaused { problem: reason.clone() },
            Notice::Fault { entry, message } => Self::QueueFault { entry: *entry, problem: message.clone() },
            Notice::QueueRemoved { by, entries } => Self::QueueRemoved { by: by.clone(), entries: *entries },
        }
    }

    fn merged(entry: &QueueEntry) -> Self {
        let merged = entry.merged();
        Self::PullRequestMerged {
            entry: entry.id,
            pull_request: entry.pull_request.id.clone(),
            pinned: Pinned::of(entry),
            commit: merged.map(|merged| merged.commit.clone()),
            tree: merged.map(|merged| merged.tree.clone()),
        }
    }

    /// Deduplication key: the same for the same event, on every node.
    pub(crate) fn key(&self, queue: &MergeQueue) -> String {
        let (word, entry) = match self {
            Self::BaseMovedOutside { moved, .. } => {
                return format!("merge-notice:{}:foreign:{}", queue.id, moved.to);
            }
            Self::QueueEntryAdded { entry, .. } => ("added", entry.0),
            Self::QueueEntryRemoved { entry, .. } => ("removed", entry.0),
            Self::PullRequestMerged { entry, .. } => ("merged", entry.0),
            Self::QueuePaused { .. } => {
                ("paused", queue.paused.as_ref().map_or(0, |pause| pause.since.as_micros().unsigned_abs()))
            }
            Self::QueueFault { entry, .. } => ("trouble", entry.0),
            Self::QueueRemoved { .. } => {
                let at = queue.removal.as_ref().map_or(0, |removal| removal.requested_at.as_micros());
                ("queue_removed", at.unsigned_abs())
            }
        };
        format!("merge-notice:{}:{word}:{entry}", queue.id)
    }
}
