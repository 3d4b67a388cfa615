//! How an execution ended, as its worker reports it. What that does to the task is decided in
//! [`crate::lifecycle`].

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

/// What a worker reports about an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The work is done.
    Succeeded {
        /// What it returned.
        result: Option<Bytes>,
    },
    /// The handler returned an error or panicked.
    Failed {
        /// What it said.
        error: Arc<str>,
        /// What it asks for.
        retry: Retry,
    },
    /// The handler took longer than the task's timeout.
    TimedOut,
    /// The handler asks to be called again later; charges nothing.
    Snoozed {
        /// How much later.
        delay: Duration,
    },
    /// The handler ended the task for good, without failing it.
    Cancelled {
        /// Why.
        message: Arc<str>,
    },
    /// The worker shuts down and gives the task back; charges nothing.
    Released,
    /// The handler ended the task itself, in a transaction of its own (`complete_in` of the PostgreSQL
    /// store). No move by itself: whoever decides reads the task back and believes what it finds.
    Committed,
}

/// What a failed handler asks for. The record's budget has the last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Whatever the record's policy says.
    ByPolicy,
    /// Again after this delay: the handler's own wish, or the user's own delay function.
    After(Duration),
    /// Never: it cannot succeed.
    Never,
}

impl Outcome {
    /// Done, with nothing to tell.
    pub const DONE: Self = Self::Succeeded { result: None };

    /// A plain error: retried by the record's policy, as seed 001 has it.
    pub fn failed(error: impl AsRef<str>) -> Self {
        Self::Failed { error: bounded_error(error.as_ref()), retry: Retry::ByPolicy }
    }

    /// A payload that this version of the handler cannot decode: retried by the record's policy, because a
    /// newer version may decode it.
    pub fn undecodable(refused: &Invalid) -> Self {
        Self::failed(format!(
            "{refused}; retried while attempts are left: a newer version of the worker may decode it"
        ))
    }

    /// An error that no retry can mend.
    pub fn fatal(error: impl AsRef<str>) -> Self {
        Self::Failed { error: bounded_error(error.as_ref()), retry: Retry::Never }
    }
}

/// Cuts an error to [`ERROR_MAX_BYTES`], at a character, and says so.
pub(crate) fn bounded_error(text: &str) -> Arc<str> {
    if text.len() <= ERROR_MAX_BYTES { Arc::from(text) } else { cut(text, ERROR_MAX_BYTES).into() }
}

/// Cuts a text to so many bytes, at a character, and says so.
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
