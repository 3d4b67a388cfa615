//! How an attempt ended, as its worker reports it. [`crate::lifecycle`] decides what that does to the task.

mod output;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::Invalid;

pub use output::IntoOutcome;

/// The longest error text a record keeps; the rest is cut off.
pub const ERROR_MAX_BYTES: usize = 16 * 1024;

/// The largest result a record keeps: every store can hold it beside the payload.
pub const RESULT_MAX_BYTES: usize = 64 * 1024;

/// What a worker reports about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The handler returned without an error.
    Succeeded {
        /// What it returned, at most [`RESULT_MAX_BYTES`].
        result: Option<Bytes>,
    },
    /// The handler returned an error or panicked.
    Failed {
        /// The message, cut to [`ERROR_MAX_BYTES`].
        error: Arc<str>,
        /// Whether and when the handler wants a retry.
        retry: Retry,
    },
    /// The handler took longer than the task's timeout.
    TimedOut,
    /// The handler asks to be called again later; charges nothing.
    Snoozed {
        /// Until it is due again; at most [`DELAY_MAX`](crate::retry::DELAY_MAX).
        delay: Duration,
    },
    /// The handler cancelled the task: no retry, and not a failure.
    Cancelled {
        /// The reason, shown as the task's error.
        message: Arc<str>,
    },
    /// The worker shuts down and releases the task; charges nothing.
    Released,
    /// The handler ended the task itself, in a transaction of its own (`complete_in` of the PostgreSQL
    /// store). No transition: the finish protocol reads the task back and answers what it finds.
    Committed,
}

/// The retry that a failed handler asks for. `max_attempts` still applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// By the task's retry policy.
    ByPolicy,
    /// After this delay, chosen by the handler or by the user's delay function.
    After(Duration),
    /// No retry: the task is dead.
    Never,
}

impl Outcome {
    /// Succeeded without a result.
    pub const DONE: Self = Self::Succeeded { result: None };

    /// A failure that is retried by the task's policy, as seed 001 has it.
    pub fn failed(error: impl AsRef<str>) -> Self {
        Self::Failed { error: bounded_error(error.as_ref()), retry: Retry::ByPolicy }
    }

    /// A payload that this version of the handler cannot decode: retried by the task's policy, because a
    /// newer version may decode it.
    pub fn undecodable(refused: &Invalid) -> Self {
        Self::failed(format!(
            "{refused}; retried while attempts are left: a newer version of the worker may decode it"
        ))
    }

    /// A failure that no retry can fix: the task is dead.
    pub fn fatal(error: impl AsRef<str>) -> Self {
        Self::Failed { error: bounded_error(error.as_ref()), retry: Retry::Never }
    }
}

/// Cuts an error to [`ERROR_MAX_BYTES`] at a character boundary, and marks the cut.
pub(crate) fn bounded_error(text: &str) -> Arc<str> {
    if text.len() <= ERROR_MAX_BYTES { Arc::from(text) } else { cut(text, ERROR_MAX_BYTES).into() }
}

/// Cuts a text to `max_bytes` at a character boundary, and marks the cut.
pub(crate) fn cut(text: &str, max_bytes: usize) -> String {
    const MARK: &str = " … (cut)";
    let end = text.floor_char_boundary(max_bytes - MARK.len());
    [&text[..end], MARK].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_error_is_cut_at_a_character_and_says_so() {
        let kept = bounded_error(&"é".repeat(ERROR_MAX_BYTES));
        assert!(kept.len() <= ERROR_MAX_BYTES && kept.ends_with("(cut)"));
    }
}
