//! How an entry leaves, and what people are told.

use serde::{Deserialize, Serialize};

use super::{CheckName, EntryId, QueueEntry, Status};

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
    /// The base has everything the change has.
    AlreadyMerged,
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
            Self::Conflicted { .. } | Self::ChecksFailed { .. } => Status::Failed,
            _ => Status::Cancelled,
        }
    }

    /// As metrics and events write it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Conflicted { .. } => "conflicted",
            Self::ChecksFailed { .. } => "checks_failed",
            Self::AlreadyMerged => "already_merged",
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

/// Something people and programs are told. Stored with the queue by the same write as what it tells of, and taken off once
/// it is told: it may be told twice, never not at all.
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
