//! Errors about schedules, events and settings.

use weaver_core::error::{Error as StoreError, Invalid};
use weaver_core::id::{TaskKey, Version};
use weaver_core::name::Namespace;

use crate::calendar::BadSchedule;

/// The result of a call on the scheduler.
pub type Result<T, E = SchedulerError> = std::result::Result<T, E>;

/// Why a call on the scheduler failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// A field is invalid; retrying will not help.
    #[error("{0}")]
    Invalid(InvalidField),
    /// The schedule cannot be parsed; [`BadSchedule::pointer`] shows where.
    #[error("{0}")]
    Schedule(#[from] BadSchedule),
    /// No schedule has this name in the namespace.
    #[error("no schedule `{name}` in namespace `{namespace}`: see `weaver schedules list`")]
    NotFound {
        /// The namespace that was searched.
        namespace: Namespace,
        /// The name as the caller gave it.
        name: String,
    },
    /// A schedule of that name exists.
    #[error("schedule `{name}` already exists, at version {version}: edit it, or choose another name")]
    Exists {
        /// The name, unique in its namespace.
        name: String,
        /// The version of the existing one.
        version: Version,
    },
    /// Another client changed it since it was read (optimistic concurrency).
    #[error("{what} is at version {found}, not at {expected}: read it again and repeat the change")]
    Stale {
        /// For messages, like ``schedule `nightly` ``.
        what: String,
        /// The version the caller read.
        expected: Version,
        /// The version that is stored; 0: none is.
        found: Version,
    },
    /// The schedule forbids concurrent runs, and one has not ended.
    #[error("schedule `{name}` forbids concurrent runs, and task {task} has not ended: wait, or cancel it")]
    StillRunning {
        /// The name of the schedule.
        name: String,
        /// The run that has not ended.
        task: TaskKey,
    },
    /// There is no such setting.
    #[error("no setting `{key}`: {hint}")]
    UnknownSetting {
        /// The key as the caller gave it.
        key: String,
        /// The most similar key, or all known ones.
        hint: String,
    },
    /// Every attempt at the write conflicted with another writer.
    #[error("{what} is being changed concurrently; retry")]
    Busy {
        /// For messages, like ``schedule `nightly` ``.
        what: String,
    },
    /// A stored document cannot be decoded.
    #[error("{what} cannot be read: {reason}; a newer version wrote it, or it is damaged: write it again")]
    Unreadable {
        /// For messages, like ``event `order-17` ``.
        what: String,
        /// The error of the decoder, without the body.
        reason: String,
    },
    /// The store failed or refused the call.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A field with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}; {hint}")]
pub struct InvalidField {
    /// The path of the field, like `task.priority`.
    pub field: String,
    /// What is wrong with the value.
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

    /// Core's error about a field, with the field's path in the schedule.
    pub(crate) fn of(prefix: &str, invalid: &Invalid) -> SchedulerError {
        let text = invalid.problem.to_string();
        let (problem, hint) = text.split_once(": ").unwrap_or((&text, "change it"));
        Self::error(format!("{prefix}{}", invalid.field), problem, hint)
    }
}
