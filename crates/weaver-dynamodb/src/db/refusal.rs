//! Requests that DynamoDB refused, as errors of the ports.

use weaver_core::error::Error;

/// A response that is not retried.
pub(super) struct Refusal<E> {
    pub(super) error: E,
    pub(super) code: String,
    pub(super) message: String,
    /// Whether an earlier attempt may have been applied although its response was lost.
    pub(super) is_ambiguous: bool,
}

impl<E> Refusal<E> {
    /// The error of an unexpected response.
    pub(super) fn failed(&self, operation: &str, endpoint: &str) -> Error {
        let (code, message) = (&self.code, &self.message);
        let what_to_do = match code.as_str() {
            "ValidationException" => return invalid(operation, endpoint, message),
            "ResourceNotFoundException" => "; create the tables with `weaver store init`",
            "UnrecognizedClientException" | "InvalidSignatureException" | "AccessDeniedException" => {
                "; check the credentials and their permissions"
            }
            _ => "",
        };
        Error::Unavailable { reason: format!("{operation} at {endpoint}: {code} {message}{what_to_do}") }
    }
}

/// The error of a request that DynamoDB refuses for its contents: it fails again if it is repeated.
pub(super) fn invalid(operation: &str, endpoint: &str, message: &str) -> Error {
    let hint = if message.to_ascii_lowercase().contains("size") {
        "a DynamoDB item holds at most 400 KB: store large values elsewhere"
    } else {
        "read the stored items with `weaver store check`"
    };
    Error::Rejected {
        code: "ValidationException".to_owned(),
        detail: format!("{operation} at {endpoint}: {message}"),
        hint: hint.to_owned(),
    }
}
