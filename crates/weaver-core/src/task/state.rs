//! The states of a task and the reasons it is in them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a task. The rules between states are in [`crate::lifecycle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum TaskState {
    /// Waiting for its first start, due since it was created.
    Queued,
    /// Waiting for its first start, due at a requested time. A due task keeps this state until it starts.
    Scheduled,
    /// Assigned to one worker by a leader; not started.
    Assigned,
    /// Was assigned, but that worker disappeared; it waits to be assigned again.
    Orphaned,
    /// A worker holds a lease on it.
    Running,
    /// Retrying: started before, waiting for its next attempt.
    RetryScheduled,
    /// Its handler returned without an error.
    Succeeded,
    /// Failed permanently (a dead letter): `max_attempts` or `max_losses` is spent, or the error was fatal.
    Dead,
    /// Ended by a user, its handler, a schedule's policy or its `expires_at`.
    Cancelled,
}

impl TaskState {
    /// Every state, in the order of the lifecycle; `ALL[state.index()]` is the state.
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

    /// From 0 to 8, for arrays indexed by state.
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

    /// The word for it in JSON and storage.
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

/// Why a task is retried, dead or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The handler returned an error.
    Failed,
    /// The handler took longer than the task's timeout.
    TimedOut,
    /// The lease expired: its worker did not renew it.
    Lost,
    /// The worker shut down and released the task. Charges nothing.
    Released,
    /// The handler asked to be called again later. Charges nothing.
    Snoozed,
    /// It ended before it succeeded or failed.
    Cancelled(CancelReason),
}

impl Cause {
    /// Every cause, with every reason of a cancellation.
    pub const ALL: [Self; 9] = [
        Self::Failed,
        Self::TimedOut,
        Self::Lost,
        Self::Released,
        Self::Snoozed,
        Self::Cancelled(CancelReason::User),
        Self::Cancelled(CancelReason::Handler),
        Self::Cancelled(CancelReason::Expired),
        Self::Cancelled(CancelReason::Replaced),
    ];

    /// The word for it in the JSON API. Stored records have serde's form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
            Self::Released => "released",
            Self::Snoozed => "snoozed",
            Self::Cancelled(CancelReason::User) => "cancelled_by_user",
            Self::Cancelled(CancelReason::Handler) => "cancelled_by_handler",
            Self::Cancelled(CancelReason::Expired) => "expired",
            Self::Cancelled(CancelReason::Replaced) => "replaced",
        }
    }

    /// The cause of a word of the JSON API.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

/// The words of the JSON API.
#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Cause {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("Why a task is retried, dead or cancelled."))
            .enum_values(Some(Self::ALL.map(Self::as_str)))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Cause {}

/// Who or what cancelled a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A user, or a program on their behalf.
    User,
    /// The task's own handler, by [`Outcome::Cancelled`](crate::outcome::Outcome::Cancelled).
    Handler,
    /// `expires_at` passed before the first start.
    Expired,
    /// A schedule's concurrency policy replaced it by a newer run.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_for_a_state_is_the_one_that_serde_writes() {
        for state in TaskState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn a_cause_is_found_by_its_word_and_by_no_other() {
        for cause in Cause::ALL {
            assert_eq!(Cause::from_word(cause.as_str()), Some(cause));
        }
        assert_eq!(Cause::from_word("cancelled"), None);
    }
}
