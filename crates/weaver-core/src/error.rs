//! What can go wrong, as types: each says what was wrong, where, and what to do next.

use std::time::Duration;

use crate::id::{TaskKey, Version};
use crate::lifecycle::Refused;
use crate::time::Timestamp;

/// The result of a port call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a port call did not do what it was asked. Nothing is half done when one is returned, except where
/// [`Error::Unavailable`] says that the answer got lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request itself is wrong; repeating it will not help.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such task in that namespace (it may have been purged).
    #[error("no task {key}: check the id and the namespace; finished tasks are purged after their retention")]
    NotFound {
        /// What was asked for.
        key: TaskKey,
    },
    /// The state machine does not allow it.
    #[error("task {key}: {refused}")]
    Refused {
        /// The task.
        key: TaskKey,
        /// The rule.
        refused: Refused,
    },
    /// The task moved on since it was read: the write changed nothing.
    #[error("task {key} has moved on since it was read: read it again, or stop if a lease was lost")]
    Stale {
        /// The task.
        key: TaskKey,
    },
    /// A conditional write of settings or a document met another version.
    #[error("{what} is at version {found}, not at {expected}: read it again and repeat the change")]
    Conflict {
        /// The thing written.
        what: String,
        /// What the caller expected.
        expected: String,
        /// What is there (0: nothing).
        found: Version,
    },
    /// The leader whose epoch guarded the write is no longer the leader; nothing was written.
    #[error(
        "leadership has passed on: epoch {epoch} is not the current one ({current}); stop acting as leader"
    )]
    Deposed {
        /// The caller's epoch.
        epoch: Version,
        /// The one in force (0: none).
        current: Version,
    },
    /// The store could not be reached or did not answer in time; whether a write was done is unknown.
    #[error("the store is unavailable: {reason}; the call may be repeated")]
    Unavailable {
        /// What the store said.
        reason: String,
    },
    /// A server refused the call for good.
    #[error("{detail} ({code}): {next}")]
    Rejected {
        /// What programs go by.
        code: String,
        /// What was wrong.
        detail: String,
        /// What to do about it.
        next: String,
    },
    /// The task is there, and this process cannot read it.
    #[error("task {key} cannot be read: {why}; {}", why.next_step(key))]
    Quarantined {
        /// The task.
        key: TaskKey,
        /// Why.
        why: crate::quarantine::Unreadable,
    },
    /// What the store reads back is not what it wrote.
    #[error("{what} is damaged: {way_out}")]
    Damaged {
        /// What and where.
        what: String,
        /// What can be done about it.
        way_out: String,
    },
}

/// A request that cannot be carried out as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{field} {problem}", At(.index))]
pub struct Invalid {
    /// The member of a batch, counted from 0, if it was a batch.
    pub index: Option<usize>,
    /// The field that is wrong.
    pub field: &'static str,
    /// What is wrong with it.
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
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max_bytes: usize,
    },
    /// A name contains a control character.
    #[error("has a control character at byte {at_byte}: names are printable text")]
    ControlCharacter {
        /// Where.
        at_byte: usize,
    },
    /// A number is outside its range.
    #[error("is {value}: it must be between {min} and {max}")]
    OutOfRange {
        /// The number given.
        value: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// A span of time is outside its range.
    #[error("is {value:?}: it must be between {min:?} and {max:?}")]
    SpanOutOfRange {
        /// The span given.
        value: Duration,
        /// The least allowed.
        min: Duration,
        /// The most allowed.
        max: Duration,
    },
    /// The instant would lie beyond what time can hold.
    #[error("lies beyond {latest}, the latest instant there is")]
    TimeOverflow {
        /// The latest instant.
        latest: Timestamp,
    },
    /// Two fields exclude each other.
    #[error("cannot be given together with {other}: give one of them")]
    Conflicts {
        /// The other field.
        other: &'static str,
    },
    /// Two members of a batch are about one thing.
    #[error("is there twice in the batch: give each once")]
    Repeated,
    /// A cursor that this query did not return.
    #[error("was not returned by this query: start again without a cursor")]
    UnknownCursor,
    /// A token that another worker or namespace used.
    #[error("belongs to another worker or namespace: draw 128 fresh random bits for each lease call")]
    TokenTaken,
    /// Bytes that could not be read as what they should be.
    #[error("could not be decoded: {reason}")]
    Undecodable {
        /// What the decoder said.
        reason: String,
    },
}
