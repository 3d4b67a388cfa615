//! Errors of the ports. Each message says what failed, on which object, why, and what to do next.

use std::time::Duration;

use crate::id::{TaskKey, Version};
use crate::lifecycle::Refused;
use crate::time::Timestamp;

/// The result of a port call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a port call failed. A failed call has changed nothing, except where [`Error::Unavailable`] says that
/// only the response was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request itself is wrong; retrying it unchanged fails again.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such task in that namespace (it may have been purged).
    #[error("task {key} not found: check id and namespace; finished tasks are purged after their retention")]
    NotFound {
        /// The key of the call, in the caller's namespace.
        key: TaskKey,
    },
    /// The state machine does not allow the command in the task's current state.
    #[error("task {key}: {refused}")]
    Refused {
        /// The task, which is unchanged.
        key: TaskKey,
        /// The rule that forbids it.
        refused: Refused,
    },
    /// Optimistic concurrency: the task changed since it was read, and the write was not applied.
    #[error("task {key} changed since it was read: read it again and retry, or stop if its lease was lost")]
    Stale {
        /// The task, as the other writer left it.
        key: TaskKey,
    },
    /// A conditional write of settings or a document met another version.
    #[error("{what} is at version {found}, not at {expected}: read it again and repeat the change")]
    Conflict {
        /// The object with its name, such as `queue default/mail`.
        what: String,
        /// What the caller expected.
        expected: String,
        /// The stored version; 0: nothing is stored.
        found: Version,
    },
    /// The leader whose epoch fences the write is no longer the leader; nothing was written.
    #[error("leadership lost: epoch {epoch} is not the current one ({current}); stop acting as leader")]
    Deposed {
        /// The epoch under which the caller was elected.
        epoch: Version,
        /// The epoch of the current leader; 0: there is none.
        current: Version,
    },
    /// The store could not be reached or did not answer in time; whether a write was applied is unknown.
    #[error("the store is unavailable: {reason}; the call may be retried")]
    Unavailable {
        /// The store's own message.
        reason: String,
    },
    /// A server refused the call for good: retrying it unchanged fails again.
    #[error("{detail} ({code}): {hint}")]
    Rejected {
        /// The machine-readable code of the problem, such as `version_conflict`.
        code: String,
        /// What was wrong, for people.
        detail: String,
        /// What to do next, for people.
        hint: String,
    },
    /// The task exists, but this process cannot read its record.
    #[error("task {key} cannot be read: {reason}; {}", reason.next_step(key))]
    Quarantined {
        /// The task, which is neither leased nor changed by this process.
        key: TaskKey,
        /// A newer format, or damage.
        reason: crate::quarantine::Unreadable,
    },
    /// What the store reads back is not what it wrote.
    #[error("{what} is damaged: {remedy}")]
    Damaged {
        /// The damaged object and where it is stored.
        what: String,
        /// How to repair or replace it.
        remedy: String,
    },
}

/// A request that cannot be carried out as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{field} {problem}", At(.index))]
pub struct Invalid {
    /// The member of a batch, counted from 0, if it was a batch.
    pub index: Option<usize>,
    /// The field that is wrong, by its name in the API.
    pub field: &'static str,
    /// Its limit, or the rule it breaks.
    pub problem: Problem,
}

impl Invalid {
    /// A problem with one field.
    pub fn new(field: &'static str, problem: Problem) -> Self {
        Self { index: None, field, problem }
    }

    /// The same, naming the member of the batch.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }
}

struct At<'a>(&'a Option<usize>);

impl std::fmt::Display for At<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(index) => write!(out, "member {index} of the batch: "),
            None => Ok(()),
        }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It must not be empty.
    #[error("is empty: give 1 to 255 bytes")]
    Empty,
    /// A name or text is too long.
    #[error("is {bytes} bytes long: the limit is {max_bytes}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The longest allowed, in bytes.
        max_bytes: usize,
    },
    /// A name contains a control character.
    #[error("has a control character at byte {at_byte}: names are printable text")]
    ControlCharacter {
        /// The offset of its first byte.
        at_byte: usize,
    },
    /// A number is outside its range.
    #[error("is {value}: it must be between {min} and {max}")]
    OutOfRange {
        /// The number that was given.
        value: u64,
        /// The smallest number allowed.
        min: u64,
        /// The largest number allowed.
        max: u64,
    },
    /// A duration is outside its range.
    #[error("is {value:?}: it must be between {min:?} and {max:?}")]
    SpanOutOfRange {
        /// The duration that was given.
        value: Duration,
        /// The shortest duration allowed.
        min: Duration,
        /// The longest duration allowed.
        max: Duration,
    },
    /// The resulting time is later than a [`Timestamp`] can hold.
    #[error("is later than {latest}, the latest time supported")]
    TimeOverflow {
        /// Always [`Timestamp::MAX`], which is 9999-12-30T22:00:00Z.
        latest: Timestamp,
    },
    /// Two fields exclude each other.
    #[error("cannot be given together with {other}: give one of them")]
    Conflicts {
        /// The field it excludes.
        other: &'static str,
    },
    /// Two members of a batch have the same key.
    #[error("appears twice in the batch: list each once")]
    Repeated,
    /// A cursor that this query did not return.
    #[error("was not returned by this query: start over without a cursor")]
    UnknownCursor,
    /// A token that another worker or namespace used.
    #[error("belongs to another worker or namespace: generate 128 random bits for each lease call")]
    TokenTaken,
    /// Bytes that could not be read as what they should be.
    #[error("could not be decoded: {reason}")]
    Undecodable {
        /// The decoder's message, with the position if it has one.
        reason: String,
    },
}
