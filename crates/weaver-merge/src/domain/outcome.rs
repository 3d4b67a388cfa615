//! How an entry leaves the queue, and the notices that report it.

use serde::{Deserialize, Serialize};

use super::{CheckName, EntryId, ForeignMove, LinkId, Oid, QueueEntry, Status};

/// Why an entry was removed without landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Reason {
    /// The head conflicts with the base.
    Conflicted {
        /// Conflicting files, at most 50.
        paths: Vec<String>,
        /// Landings of this queue that last changed those files, newest first; empty if none is known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        with: Vec<LandedChange>,
    },
    /// It would land a configuration that no later change could be tested with.
    InvalidConfig {
        /// What is wrong, for people.
        problem: String,
    },
    /// Checks fail on the candidate and pass on the base.
    ChecksFailed {
        /// Names of the failed checks.
        checks: Vec<CheckName>,
    },
    /// It lacks objects, or cannot be checked out while the base can.
    Unusable {
        /// What git says.
        problem: String,
    },
    /// A hook of the repository declined it.
    HookDeclined {
        /// Output of the hook.
        text: String,
    },
    /// The branch was pushed to after it was enqueued: what was approved is not what would land.
    HeadChanged {
        /// The new head.
        to: Oid,
    },
    /// The base already contains the change, through another entry or from before the queue.
    AlreadyMerged,
    /// The base already contains the change, through an accepted change of the base outside this queue. It
    /// was not tested here.
    MergedOutside,
    /// The pull request was closed.
    Closed,
    /// The branch was deleted.
    BranchDeleted,
    /// The pull request targets another branch now.
    Retargeted,
    /// The pull request became a draft.
    Draft,
    /// The trigger (a label, a comment) was removed.
    TriggerRemoved,
    /// An operator cancelled it.
    Cancelled,
    /// An operator removed the queue, with its open entries.
    QueueRemoved,
}

impl Reason {
    /// The entry's final status.
    pub fn status(&self) -> Status {
        match self {
            Self::Conflicted { .. }
            | Self::ChecksFailed { .. }
            | Self::Unusable { .. }
            | Self::HookDeclined { .. }
            | Self::HeadChanged { .. }
            | Self::InvalidConfig { .. } => Status::Failed,
            _ => Status::Cancelled,
        }
    }

    /// The stored word, also in metrics and events.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Conflicted { .. } => "conflicted",
            Self::ChecksFailed { .. } => "checks_failed",
            Self::Unusable { .. } => "unusable",
            Self::HookDeclined { .. } => "hook_declined",
            Self::HeadChanged { .. } => "head_changed",
            Self::InvalidConfig { .. } => "invalid_config",
            Self::AlreadyMerged => "already_merged",
            Self::MergedOutside => "merged_outside",
            Self::Closed => "closed",
            Self::BranchDeleted => "branch_deleted",
            Self::Retargeted => "retargeted",
            Self::Draft => "draft",
            Self::TriggerRemoved => "trigger_removed",
            Self::Cancelled => "cancelled",
            Self::QueueRemoved => "queue_removed",
        }
    }
}

/// A conflict of a change with its base. A forge may not know the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conflict {
    /// Conflicting files, at most 50.
    pub paths: Vec<String>,
    /// Landings of this queue that last changed those files, newest first.
    pub with: Vec<LandedChange>,
}

impl Conflict {
    /// The end of a sentence; empty if nothing is known.
    pub(crate) fn describe(&self) -> String {
        let files =
            if self.paths.is_empty() { String::new() } else { format!(" in {}", self.paths.join(", ")) };
        let with = self.with.iter().map(|landed| format!("; with {}", landed.describe()));
        files + &with.collect::<String>()
    }
}

/// A change that landed through this queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandedChange {
    /// Its entry in this queue.
    pub entry: EntryId,
    /// Id of the change.
    pub pull_request: String,
    /// The merge commit that landed.
    pub commit: Oid,
}

impl LandedChange {
    /// A few words for messages.
    pub fn describe(&self) -> String {
        format!("entry {} (`{}`), landed as {}", self.entry, self.pull_request, self.commit)
    }
}

/// How an entry left the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum EntryOutcome {
    /// The base moved to its candidate.
    Landed,
    /// It was removed without landing.
    Removed(Reason),
}

/// An item of the outbox: an event to publish. It is stored by the same conditional write as the change it
/// reports, and removed once published: at-least-once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "notice")]
pub enum Notice {
    /// An entry was enqueued.
    Added {
        /// As it was enqueued.
        entry: Box<QueueEntry>,
        /// Position in the queue, from 1.
        position: usize,
    },
    /// An entry landed or was removed.
    #[serde(rename = "left")]
    Completed {
        /// With its last candidate and checks.
        entry: Box<QueueEntry>,
        /// Landed, or why not.
        #[serde(rename = "departure")]
        outcome: EntryOutcome,
        /// If it landed, the link that certifies it. Set by the write that stores the notice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<LinkId>,
    },
    /// A change of the base outside the queue was accepted.
    Foreign {
        /// Old and new tip, and who moved it.
        moved: Box<ForeignMove>,
        /// Operator, or the setting that accepted it.
        accepted_by: String,
        /// The link that records it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<LinkId>,
    },
    /// The queue was paused.
    Paused {
        /// For people, with what to do.
        reason: String,
    },
    /// A step of an entry keeps failing and is retried.
    #[serde(rename = "trouble")]
    Fault {
        /// The entry at the head.
        entry: EntryId,
        /// The last error, for people.
        message: String,
    },
    /// The queue was removed; the last notice until it is added again.
    QueueRemoved {
        /// The authenticated subject or local user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Entries that were cancelled with it.
        entries: usize,
    },
}
