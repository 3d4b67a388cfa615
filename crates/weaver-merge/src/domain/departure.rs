//! How an entry leaves, and what people are told.

use serde::{Deserialize, Serialize};

use super::{CheckName, EntryId, ForeignMove, LinkId, QueueEntry, Status};

/// Why an entry left without landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Reason {
    /// The merge conflicts.
    Conflicted {
        /// Where.
        paths: Vec<String>,
    },
    /// Checks fail on the candidate and pass on the base.
    ChecksFailed {
        /// Which.
        checks: Vec<CheckName>,
    },
    /// A hook of the repository declined it.
    HookDeclined {
        /// What the hook said.
        text: String,
    },
    /// The base has everything the change has, through another entry that landed, or from before the queue.
    AlreadyMerged,
    /// The base has everything the change has, through a move that this queue did not make and that was
    /// accepted: it was not tested here.
    MergedOutside,
    /// The change was closed.
    Closed,
    /// Its branch is gone.
    BranchDeleted,
    /// It is to land elsewhere now.
    Retargeted,
    /// It became a draft.
    Draft,
    /// What put it in the queue was taken back.
    TriggerRemoved,
    /// Somebody took it out.
    Cancelled,
}

impl Reason {
    /// The entry's last status.
    pub fn status(&self) -> Status {
        match self {
            Self::Conflicted { .. } | Self::ChecksFailed { .. } | Self::HookDeclined { .. } => Status::Failed,
            _ => Status::Cancelled,
        }
    }

    /// As metrics and events write it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Conflicted { .. } => "conflicted",
            Self::ChecksFailed { .. } => "checks_failed",
            Self::HookDeclined { .. } => "hook_declined",
            Self::AlreadyMerged => "already_merged",
            Self::MergedOutside => "merged_outside",
            Self::Closed => "closed",
            Self::BranchDeleted => "branch_deleted",
            Self::Retargeted => "retargeted",
            Self::Draft => "draft",
            Self::TriggerRemoved => "trigger_removed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How an entry left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Departure {
    /// The base moved to its candidate.
    Landed,
    /// It did not.
    Removed(Reason),
}

/// Something people and programs are told. Stored with the queue by the same write as what it tells of, and
/// taken off once it is told: it may be told twice, never not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "notice")]
pub enum Notice {
    /// An entry came.
    Added {
        /// Which.
        entry: Box<QueueEntry>,
        /// Where, counted from 1.
        position: usize,
    },
    /// An entry left, with its candidate and checks as they were.
    Left {
        /// Which.
        entry: Box<QueueEntry>,
        /// How.
        departure: Departure,
        /// If it landed: the link that says so. Set by the write that stores the notice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<LinkId>,
    },
    /// A move of the base by others was accepted.
    Foreign {
        /// Which.
        moved: Box<ForeignMove>,
        /// By whom, or by which setting.
        accepted_by: String,
        /// The link that says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<LinkId>,
    },
    /// The queue paused.
    Paused {
        /// Why.
        reason: String,
    },
    /// Something goes wrong and is tried again.
    Trouble {
        /// With which entry.
        entry: EntryId,
        /// What.
        message: String,
    },
}
