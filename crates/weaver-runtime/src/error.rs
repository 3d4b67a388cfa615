//! The error of a handler: retry, fail permanently, snooze or cancel.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weaver_core::outcome::{Outcome, Retry};

/// Why a handler stopped without a result. Any error becomes one through `?`, and is then retried by the
/// task's policy.
///
/// ```
/// use std::time::Duration;
/// use weaver_runtime::TaskError;
///
/// fn charge(cents: i64) -> Result<(), TaskError> {
///     if cents < 0 {
///         return Err(TaskError::fatal("a charge cannot be negative"));
///     }
///     let limit: i64 = "10000".parse()?; // any error retries
///     if cents > limit {
///         return Err(TaskError::snooze(Duration::from_secs(3600)));
///     }
///     Ok(())
/// }
/// # assert!(charge(-1).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError(Outcome);

impl TaskError {
    /// Retry with the task's backoff. Counts as a failure.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self(Outcome::failed(error.to_string()))
    }

    /// Retry after this delay instead of the backoff. Counts as a failure.
    pub fn retry_after(error: impl fmt::Display, delay: Duration) -> Self {
        Self(Outcome::Failed { error: Arc::from(error.to_string()), retry: Retry::After(delay) })
    }

    /// Do not retry: the task is dead.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self(Outcome::fatal(error.to_string()))
    }

    /// Run again after this delay. Does not count as a failure.
    pub fn snooze(delay: Duration) -> Self {
        Self(Outcome::Snoozed { delay })
    }

    /// End the task as cancelled, without a failure.
    pub fn cancel(message: impl fmt::Display) -> Self {
        Self(Outcome::Cancelled { message: Arc::from(message.to_string()) })
    }

    /// The outcome that the worker reports.
    pub fn into_outcome(self) -> Outcome {
        self.0
    }
}

/// Every error, with its causes: "sending failed: connection refused".
impl<E: std::error::Error + Send + Sync + 'static> From<E> for TaskError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::retry(text)
    }
}
