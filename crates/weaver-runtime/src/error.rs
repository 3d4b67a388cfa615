//! How a handler says that it did not finish.

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
    /// Try again, by the task's policy.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self(Outcome::failed(error.to_string()))
    }

    /// Try again after this delay. It counts as a failure.
    pub fn retry_after(error: impl fmt::Display, delay: Duration) -> Self {
        Self(Outcome::Failed { error: Arc::from(error.to_string()), retry: Retry::After(delay) })
    }

    /// Never try again: it cannot succeed.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self(Outcome::fatal(error.to_string()))
    }

    /// Call again later. It counts as nothing.
    pub fn snooze(delay: Duration) -> Self {
        Self(Outcome::Snoozed { delay })
    }

    /// There is no more to do: end the task without failing it.
    pub fn cancel(message: impl fmt::Display) -> Self {
        Self(Outcome::Cancelled { message: Arc::from(message.to_string()) })
    }

    /// What it does to the task.
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
