//! The states of a task and the reasons it is in them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a task is in its life. The rules between states are in [`crate::lifecycle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum TaskState {
    /// Waiting for its first start, due since it was created.
    Queued,
    /// Waiting for its first start, due at a time that was asked for. Due tasks keep this state until they start.
    Scheduled,
    /// Given to one worker by a leader; not started.
    Assigned,
    /// Was assigned, but that worker is gone.
    Orphaned,
    /// A worker holds a lease on it.
    Running,
    /// Started before; waiting for its next start.
    RetryScheduled,
    /// Ended well.
    Succeeded,
    /// Ended badly: its budget of failures or losses is spent, or the error was fatal.
    Dead,
    /// Ended because somebody or something said so.
    Cancelled,
}

impl TaskState {
    /// Every state, in the order of a task's life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Scheduled,
        Self::Assigned,
        Self::Orphaned,
        Self::Running,
        Self::RetryScheduled,
        Self::Succeeded,
        Self::Dead,
        Self::Cancelled,
    ];

    /// A small number for arrays indexed by state.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the task has ended. Nothing leaves a terminal state (G4).
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Dead | Self::Cancelled)
    }

    /// Whether the task waits in a queue, to be leased or assigned when it is due.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Queued | Self::Scheduled | Self::RetryScheduled)
    }

    /// The word for it in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Scheduled => "scheduled",
            Self::Assigned => "assigned",
            Self::Orphaned => "orphaned",
            Self::Running => "running",
            Self::RetryScheduled => "retry_scheduled",
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Why a task waits for another start, died, or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The handler returned an error.
    Failed,
    /// The handler took longer than the task's timeout.
    TimedOut,
    /// The worker vanished: its lease ran out.
    Lost,
    /// The worker shut down and gave the task back. Charges nothing.
    Released,
    /// The handler asked to be called again later. Charges nothing.
    Snoozed,
    /// It was cancelled.
    Cancelled(CancelReason),
}

/// Who or what cancelled a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A person, or a program on their behalf.
    User,
    /// The task's own handler.
    Handler,
    /// `expires_at` passed before the first start.
    Expired,
    /// A schedule's policy put a newer run in its place.
    Replaced,
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Lost => "its worker was lost",
            Self::Released => "released by its worker",
            Self::Snoozed => "snoozed by its handler",
            Self::Cancelled(CancelReason::User) => "cancelled by a user",
            Self::Cancelled(CancelReason::Handler) => "cancelled by its handler",
            Self::Cancelled(CancelReason::Expired) => "expired before its first start",
            Self::Cancelled(CancelReason::Replaced) => "replaced by a newer run",
        })
    }
}
