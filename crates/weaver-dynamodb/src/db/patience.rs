//! Our own patience: what is worth asking again, and how long to wait before.

use std::fmt::Debug;
use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;

/// How often a request is sent before it is given up.
pub(super) const TRIES_MAX: u32 = 8;
/// The longest pause after the first failure; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// The longest pause of all.
const PAUSE_MAX: Duration = Duration::from_secs(2);

pub(super) fn is_throttling(code: &str) -> bool {
    matches!(code, "ProvisionedThroughputExceededException" | "ThrottlingException" | "RequestLimitExceeded")
}

pub(super) fn is_worth_repeating(code: &str) -> bool {
    is_throttling(code)
        || matches!(code, "InternalServerError" | "InternalFailure" | "ServiceUnavailable" | "")
}

/// What went wrong with a connection, without the layers around it.
pub(super) fn short<E: Debug, R: Debug>(error: &SdkError<E, R>) -> String {
    let mut source: &dyn std::error::Error = match error {
        SdkError::DispatchFailure(failure) => match failure.as_connector_error() {
            Some(error) => error,
            None => return "the connection failed".to_owned(),
        },
        SdkError::ResponseError(_) => return "the answer could not be read".to_owned(),
        _ => return "the request failed".to_owned(),
    };
    while let Some(deeper) = source.source() {
        source = deeper;
    }
    source.to_string()
}

/// 128 random bits.
pub(crate) fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    // Without a source of randomness nothing here is safe to do; the operating system always has one.
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    u128::from_le_bytes(bytes)
}

/// Waits at random, up to a time that doubles with each attempt.
#[expect(
    clippy::disallowed_methods,
    reason = "this waits for a server on the network, which no virtual clock moves"
)]
pub(crate) async fn pause(attempt: u32) {
    let most = PAUSE_MIN.saturating_mul(1 << attempt.min(10)).min(PAUSE_MAX);
    let share = (random_bits() >> 96) as u32;
    tokio::time::sleep(most.mul_f64(f64::from(share) / f64::from(u32::MAX))).await;
}
