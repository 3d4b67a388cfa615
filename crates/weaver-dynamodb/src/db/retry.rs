//! Retry policy for requests: what is retryable, and the backoff.

use std::fmt::Debug;
use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;

/// Maximum number of attempts of a request.
pub(crate) const TRIES_MAX: u32 = 8;
/// Longest wait after the first failure; it doubles with each attempt.
const BACKOFF_MIN: Duration = Duration::from_millis(25);
/// Longest wait between attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

pub(super) fn is_throttling(code: &str) -> bool {
    matches!(code, "ProvisionedThroughputExceededException" | "ThrottlingException" | "RequestLimitExceeded")
}

pub(crate) fn is_retryable(code: &str) -> bool {
    is_throttling(code)
        || matches!(code, "InternalServerError" | "InternalFailure" | "ServiceUnavailable" | "")
}

/// The root cause of a connection error, without the SDK's layers.
pub(super) fn root_cause<E: Debug, R: Debug>(error: &SdkError<E, R>) -> String {
    let mut source: &dyn std::error::Error = match error {
        SdkError::DispatchFailure(failure) => match failure.as_connector_error() {
            Some(error) => error,
            None => return "the connection failed".to_owned(),
        },
        SdkError::ResponseError(_) => return "the response could not be read".to_owned(),
        _ => return "the request failed".to_owned(),
    };
    while let Some(deeper) = source.source() {
        source = deeper;
    }
    source.to_string()
}

pub(crate) fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    // Without randomness no write is safe; the operating system always has a source.
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    u128::from_le_bytes(bytes)
}

/// Waits a random time (full jitter), up to a limit that doubles with each attempt.
#[expect(
    clippy::disallowed_methods,
    reason = "this waits for a server on the network, which no virtual clock moves"
)]
pub(crate) async fn backoff(attempt: u32) {
    let most = BACKOFF_MIN.saturating_mul(1 << attempt.min(10)).min(BACKOFF_MAX);
    let share = (random_bits() >> 96) as u32;
    tokio::time::sleep(most.mul_f64(f64::from(share) / f64::from(u32::MAX))).await;
}
