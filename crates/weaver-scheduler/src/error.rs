//! What can go wrong with schedules, events and settings: what, where, and what to do.

use weaver_core::error::{Error as StoreError, Invalid};
use weaver_core::id::{TaskKey, Version};
use weaver_core::name::Namespace;

use crate::calendar::BadSchedule;

/// The result of a call.
pub type Result<T, E = SchedulerError> = std::result::Result<T, E>;

/// Why a call did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// A field is wrong; repeating the call will not help.
    #[error("{0}")]
    Invalid(InvalidField),
    /// The schedule cannot be understood; [`BadSchedule::pointer`] shows where.
    #[error("{0}")]
    Schedule(#[from] BadSchedule),
    /// There is no such schedule.
    #[error("no schedule `{name}` in namespace `{namespace}`: see `weaver schedules list`")]
    NotFound {
        /// Where.
        namespace: Namespace,
        /// Which.
        name: String,
    },
    /// There is one of that name.
    #[error("schedule `{name}` is there already, at version {version}: edit it, or choose another name")]
    Exists {
        /// Which.
        name: String,
        /// Its version.
        version: Version,
    },
    /// Somebody else changed it since it was read.
    #[error("{what} is at version {found}, not at {expected}: read it again and repeat the change")]
    Stale {
        /// What.
        what: String,
        /// The version the caller read.
        expected: Version,
        /// The version that is there; 0: nothing is.
        found: Version,
    },
    /// It may not run twice at once, and it runs.
    #[error("schedule `{name}` forbids two runs at once, and task {task} has not ended: wait, or cancel it")]
    StillRunning {
        /// Which.
        name: String,
        /// The run.
        task: TaskKey,
    },
    /// There is no such setting.
    #[error("no setting `{key}`: {hint}")]
    UnknownSetting {
        /// What was asked for.
        key: String,
        /// What was probably meant, or what there is.
        hint: String,
    },
    /// Others changed it each time it was tried.
    #[error("{what} is changed by others all the time: try again")]
    Busy {
        /// What.
        what: String,
    },
    /// What is stored cannot be read.
    #[error(
        "{what} cannot be read: {reason}; it was written by a newer version, or is damaged: write it again"
    )]
    Unreadable {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}; {hint}")]
pub struct InvalidField {
    /// Which, as it is written: `task.priority`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub hint: String,
}

impl InvalidField {
    pub(crate) fn error(
        field: impl Into<String>,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> SchedulerError {
        SchedulerError::Invalid(Self { field: field.into(), problem: problem.into(), hint: hint.into() })
    }

    /// What core says of a field, under the name it has here.
    pub(crate) fn of(prefix: &str, invalid: &Invalid) -> SchedulerError {
        let text = invalid.problem.to_string();
        let (problem, hint) = text.split_once(": ").unwrap_or((&text, "change it"));
        Self::error(format!("{prefix}{}", invalid.field), problem, hint)
    }
}
