//! Errors of calls to a server.

use weaver_api::Problem;
use weaver_core::error::Error;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address is invalid.
    #[error("`{url}` is not a server address ({reason}): use one like http://127.0.0.1:7117")]
    Address {
        /// The address that was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token would cross a network in the clear.
    #[error(
        "the token is not sent to {url}: plain http to another machine can be read on the network; \
         use https, or allow it with --insecure-http"
    )]
    Insecure {
        /// The server that it was for.
        url: String,
    },
    /// No response; the request may have been applied: check before retrying.
    #[error("{url} cannot be reached ({reason}): is `weaver serve` running there?")]
    Unreachable {
        /// The server that was called.
        url: String,
        /// What the network reported.
        reason: String,
    },
    /// The server refused, with a problem document.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The response is not from a Weaver server, or from one of another version.
    #[error(
        "unexpected response from {url} (HTTP {status}: {reason}): is it a Weaver server of this version?"
    )]
    UnexpectedResponse {
        /// The server that was called.
        url: String,
        /// The HTTP status of the response.
        status: u16,
        /// What is wrong with the response.
        reason: String,
    },
}

impl ClientError {
    /// Whether a retry may succeed: the server was unreachable or overloaded, or its store was.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(problem) => problem.status >= 500 || problem.status == 429,
            Self::Address { .. } | Self::Insecure { .. } | Self::UnexpectedResponse { .. } => false,
        }
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(problem) if problem.status < 500 && problem.status != 429 => {
                Self::Rejected { code: problem.code, detail: problem.detail, hint: problem.hint }
            }
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}
