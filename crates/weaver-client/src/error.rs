//! Why a call to a server did not do what it was asked.

use weaver_api::Problem;
use weaver_core::error::Error;

/// Why a call did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address is none.
    #[error("`{url}` is not the address of a server ({reason}): give one like http://127.0.0.1:7117")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token would cross a network in the clear.
    #[error(
        "the token is not sent to {url}: plain http to another machine can be read by everybody on the way; use https, \
         or allow it for this server with --insecure-http"
    )]
    Insecure {
        /// Where it would have gone.
        url: String,
    },
    /// Nobody answered; whether the request was carried out is not known.
    #[error("{url} does not answer ({reason}): is `weaver serve` running there?")]
    Unreachable {
        /// Where.
        url: String,
        /// What the network said.
        reason: String,
    },
    /// The server refused, and said why.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// Something answered that is not a Weaver server, or one of another version.
    #[error(
        "{url} answered {status} with something else than expected ({reason}): is it a Weaver server of this version?"
    )]
    Strange {
        /// Where.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What was wrong with the answer.
        reason: String,
    },
}

impl ClientError {
    /// Whether the same call may work later: the server was away, overloaded, or its store was.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(problem) => problem.status >= 500 || problem.status == 429,
            Self::Address { .. } | Self::Insecure { .. } | Self::Strange { .. } => false,
        }
    }
}

/// As a worker knows errors of its source.
impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(problem) if problem.status < 500 && problem.status != 429 => {
                Self::Rejected { code: problem.code, detail: problem.detail, next: problem.next }
            }
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}
