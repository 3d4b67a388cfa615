//! What programs are told: entries of the journal, after what they tell of is stored.

use serde::{Deserialize, Serialize};
use weaver_core::name::Namespace;
use weaver_core::ports::StreamKey;

use crate::domain::{
    Check, Departure, EntryId, ForeignMove, MergeQueue, Notice, Oid, QueueEntry, QueueId, Reason,
};

/// The stream of a queue's events.
pub fn event_stream(namespace: &Namespace, queue: &QueueId) -> StreamKey {
    StreamKey::new(namespace.clone(), format!("merge/{queue}"))
}

/// An event as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Of which queue.
    pub queue: QueueId,
    /// The same for the same event, if it is written twice.
    pub key: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened. It may be written twice (a crash between writing and noting that): `entry` and
/// `event` say whether two are one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// An entry came.
    QueueEntryAdded {
        /// Which.
        entry: EntryId,
        /// The change.
        pull_request: String,
        /// Where, counted from 1.
        position: usize,
    },
    /// An entry left without landing.
    QueueEntryRemoved {
        /// Which.
        entry: EntryId,
        /// The change.
        pull_request: String,
        /// Why.
        #[serde(flatten)]
        reason: Reason,
        /// Its checks, with every run.
        results: Vec<Check>,
    },
    /// An entry landed.
    PullRequestMerged {
        /// Which.
        entry: EntryId,
        /// The change.
        pull_request: String,
        /// Where the base is now.
        commit: Option<Oid>,
        /// What was tested.
        tree: Option<Oid>,
    },
    /// A move of the base by others was accepted.
    BaseMovedOutside {
        /// What they did.
        #[serde(flatten)]
        moved: ForeignMove,
        /// By whom it was accepted, or by which setting.
        accepted_by: String,
    },
    /// The queue paused.
    QueuePaused {
        /// Why.
        problem: String,
    },
    /// Something goes wrong and is tried again.
    QueueTrouble {
        /// With which entry.
        entry: EntryId,
        /// What.
        problem: String,
    },
}

impl Event {
    pub(crate) fn of(notice: &Notice) -> Self {
        match notice {
            Notice::Added { entry, position } => Self::QueueEntryAdded {
                entry: entry.id,
                pull_request: entry.pull_request.id.clone(),
                position: *position,
            },
            Notice::Left { entry, departure: Departure::Landed, .. } => Self::merged(entry),
            Notice::Left { entry, departure: Departure::Removed(reason), .. } => Self::QueueEntryRemoved {
                entry: entry.id,
                pull_request: entry.pull_request.id.clone(),
                reason: reason.clone(),
                results: entry.checks.clone(),
            },
            Notice::Foreign { moved, accepted_by, .. } => {
                Self::BaseMovedOutside { moved: (**moved).clone(), accepted_by: accepted_by.clone() }
            }
            Notice::Paused { reason } => Self::QueuePaused { problem: reason.clone() },
            Notice::Trouble { entry, message } => {
                Self::QueueTrouble { entry: *entry, problem: message.clone() }
            }
        }
    }

    fn merged(entry: &QueueEntry) -> Self {
        let merged = entry.merged();
        Self::PullRequestMerged {
            entry: entry.id,
            pull_request: entry.pull_request.id.clone(),
            commit: merged.map(|merged| merged.commit.clone()),
            tree: merged.map(|merged| merged.tree.clone()),
        }
    }

    /// The same for the same event of a queue, whoever writes it.
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
            Self::QueueTrouble { entry, .. } => ("trouble", entry.0),
        };
        format!("merge-notice:{}:{word}:{entry}", queue.id)
    }
}
